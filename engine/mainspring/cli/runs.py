"""`mainspring runs`: the history of a job, or the newest runs of all."""

from __future__ import annotations

import click

from mainspring.cli.database import dsn_option, open_store, require_dsn
from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cli.render import cells
from mainspring.errors import NotFound
from mainspring.model import parse_job_id
from mainspring.shown import shown_run


@click.command()
@click.argument("job_id", required=False)
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True)
@dsn_option
@json_option
def runs(dsn: str | None, job_id: str | None, limit: int, as_json: bool) -> None:
    """Show the runs of a job, newest first; without a job, the newest of all."""
    with open_store(require_dsn(dsn), "cli") as store:
        if job_id is None:
            page = store.recent_runs(limit=limit)
        else:
            number = parse_job_id(job_id)
            if not store.was_given_out(number):
                raise NotFound(f"no job was ever called {job_id}")
            page = store.runs_of_job(number, limit=limit)
    rows = [shown_run(run) for run in page]
    if as_json:
        print_json(rows)
        return
    columns = ("run_id", "job_id", "scheduled_at", "status", "attempt", "started_at", "error")
    print_table("runs", columns, cells(rows, columns))
