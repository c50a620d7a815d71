"""The command `mainspring`.

Exit codes: 0 done, 1 failed or a promise broken, 2 bad input.  With `--json` stdout is one JSON
value, also for a problem; without it, problems go to stderr.
"""

from __future__ import annotations

import click

import mainspring
from mainspring.cli.lazy import LazyGroup

# Where each command is, and its line in the help, so that the help imports none of them.
COMMANDS = {
    "demo": ("mainspring.cli.demo.command:demo", "Show the main job on a Postgres of its own."),
    "serve": ("mainspring.cli.serve:serve", "Run everything on this machine, in one command."),
    "scheduler": ("mainspring.cli.scheduler:scheduler", "Fire what is due, until SIGTERM."),
    "api": ("mainspring.cli.api:api", "Serve the HTTP API, until SIGTERM."),
    "worker": ("mainspring.cli.worker:worker", "Run your handlers, until SIGTERM."),
    "migrate": ("mainspring.cli.migrate:migrate", "Bring a database to this release's schema."),
    "jobs": ("mainspring.cli.jobs:jobs", "Register, list, show and remove jobs."),
    "preview": ("mainspring.cli.preview:preview", "Show when a schedule will fire, and why."),
    "forecast": (
        "mainspring.cli.forecast:forecast",
        "Show what jobs will do over a span, with outages.",
    ),
    "runs": ("mainspring.cli.runs:runs", "Show what ran, newest first."),
    "dead": ("mainspring.cli.dead:dead", "List dead letters and redrive them."),
    "tzdata": ("mainspring.cli.tzdata:tzdata", "Show by which time zone data jobs are computed."),
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS, context_settings={"max_content_width": 100})
@click.version_option(mainspring.__version__, prog_name="mainspring")
def main() -> None:
    """mainspring: cron at scale.

    \b
    Try it:         mainspring demo
    All in one:     mainspring serve --worker yourmodule:worker
    In production:  mainspring migrate, then scheduler, api and worker yourmodule:worker,
                    each with --dsn, or MAINSPRING_DSN in the environment

    Exit codes: 0 done, 1 failed or a promise broken, 2 bad input.
    """  # noqa: D301  \b is a character, by which click keeps line breaks
