"""`python -m bench NAME`: benchmarks of whole paths; each ends with a table or a JSON value."""

from __future__ import annotations

import click

from bench.cron.command import cron
from bench.hot_second.command import hot_second


@click.group()
def main() -> None:
    """Measure whole paths of mainspring on a throw-away Postgres of their own.

    Micro benchmarks of single pieces run with `make bench`.
    """


main.add_command(cron)
main.add_command(hot_second)

if __name__ == "__main__":
    main(prog_name="python -m bench")
