"""`mainspring dead`: firings out of attempts, and giving them attempts again."""

from __future__ import annotations

import click

from mainspring.cli.database import dsn_option, open_store, require_dsn
from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cli.render import cells
from mainspring.jobs import Jobs


@click.group()
def dead() -> None:
    """List dead letters and redrive them."""


@dead.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@dsn_option
@json_option
def list_(dsn: str | None, limit: int, as_json: bool) -> None:
    """List dead letters, oldest first; each is named by its last run."""
    with open_store(require_dsn(dsn), "cli") as store:
        rows = Jobs(store).dead_letters(limit=limit)
    if as_json:
        print_json(rows)
        return
    columns = ("run_id", "job_id", "scheduled_at", "died_at", "attempts", "error")
    print_table("dead letters", columns, cells(rows, columns))


@dead.command()
@click.argument("run_id")
@dsn_option
@json_option
def redrive(dsn: str | None, run_id: str, as_json: bool) -> None:
    """Give a dead letter attempts again, with the same scheduled_at and idempotency key."""
    with open_store(require_dsn(dsn), "cli") as store:
        Jobs(store).redrive(run_id)
    if as_json:
        print_json({"run_id": run_id, "redriven": True})
    else:
        click.echo(f"{run_id} is due again")
