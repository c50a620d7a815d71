"""`mainspring migrate`: bring a database to the schema of this release."""

from __future__ import annotations

import click

from mainspring.cli.database import dsn_option, require_dsn
from mainspring.cli.output import json_option, print_json
from mainspring.store.prepare import prepare_database


@click.command()
@click.option(
    "--shards",
    type=click.IntRange(1, 1024),
    default=8,
    show_default=True,
    help="How many shards a new database gets.",
)
@dsn_option
@json_option
def migrate(dsn: str | None, shards: int, as_json: bool) -> None:
    """Apply what is missing, make the shards and the coming days' partitions.

    Forward only, safe to run from many processes at once, and to repeat.
    """
    applied = prepare_database(require_dsn(dsn), shards=shards)
    if as_json:
        print_json({"applied": applied})
    else:
        click.echo("\n".join(f"applied {name}" for name in applied) or "the schema is current")
