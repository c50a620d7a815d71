"""`mainspring dead`: firings out of attempts, and giving them attempts again."""

from __future__ import annotations

import click

from mainspring.cli.database import dsn_option, open_store, require_dsn
from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cli.render import cells
from mainspring.errors import NotFound
from mainspring.model import parse_run_id
from mainspring.shown import shown_letter


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
        letters = store.list_dead_letters(limit=limit)
    rows = [shown_letter(letter) for letter in letters]
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
    firing_id, fence = parse_run_id(run_id)
    with open_store(require_dsn(dsn), "cli") as store:
        try:
            store.redrive(firing_id, fence)
        except NotFound as error:
            raise NotFound(
                f"there is no dead letter {run_id}",
                hint="List them with `mainspring dead list`; one that was redriven is gone.",
            ) from error
    if as_json:
        print_json({"run_id": run_id, "redriven": True})
    else:
        click.echo(f"{run_id} is due again")
