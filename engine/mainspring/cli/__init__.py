"""The command `mainspring`.

Exit codes: 0 done, 1 failed or a promise broken, 2 bad input.  With `--json` stdout is one JSON
value, also for a problem; without it, problems go to stderr.
"""

from __future__ import annotations

import click

import mainspring
from mainspring.cli.lazy import LazyGroup

COMMANDS = {
    "demo": "mainspring.cli.demo.command:demo",
    "serve": "mainspring.cli.serve:serve",
    "scheduler": "mainspring.cli.scheduler:scheduler",
    "api": "mainspring.cli.api:api",
    "worker": "mainspring.cli.worker:worker",
    "migrate": "mainspring.cli.migrate:migrate",
    "jobs": "mainspring.cli.jobs:jobs",
    "runs": "mainspring.cli.runs:runs",
    "dead": "mainspring.cli.dead:dead",
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS, context_settings={"max_content_width": 100})
@click.version_option(mainspring.__version__, prog_name="mainspring")
def main() -> None:
    r"""mainspring: cron at scale.

    \b
    Try it:           mainspring demo
    All in one:       mainspring serve --worker yourmodule:worker
    In production:    mainspring migrate && mainspring scheduler / api / worker yourmodule:worker
                      each with --dsn, or MAINSPRING_DSN in the environment

    Exit codes: 0 done, 1 failed or a promise broken, 2 bad input.
    """
