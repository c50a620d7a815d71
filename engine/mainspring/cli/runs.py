"""`mainspring runs`: the history of a job, or the newest runs of all."""

from __future__ import annotations

import click

from mainspring.cli.database import dsn_option, open_store, require_dsn
from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cli.render import cells
from mainspring.jobs import Jobs


@click.command()
@click.argument("job_id", required=False)
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True)
@dsn_option
@json_option
def runs(dsn: str | None, job_id: str | None, limit: int, as_json: bool) -> None:
    """Show the runs of a job, newest first; without a job, the newest of all."""
    with open_store(require_dsn(dsn), "cli") as store:
        jobs = Jobs(store)
        rows = jobs.recent_runs(limit=limit) if job_id is None else jobs.runs(job_id, limit=limit)
    if as_json:
        print_json(rows)
        return
    columns = ("run_id", "job_id", "scheduled_at", "status", "attempt", "started_at", "error")
    print_table("runs", columns, cells(rows, columns))
