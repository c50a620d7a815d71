"""`mainspring jobs`: register, list, show, change, pause, resume, remove."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from mainspring.cli.database import dsn_option, open_store, require_dsn
from mainspring.cli.job_options import field_options, fields_of
from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cli.render import cell, cells
from mainspring.jobs import Jobs
from mainspring.shown import JobOut


@click.group()
def jobs() -> None:
    """Register, list, show, change, pause, resume and remove jobs."""


rev_option = click.option(
    "--if-rev", type=int, help="Change it only if it still has this rev, as `show` tells it."
)


@jobs.command()
@field_options(is_new=True)
@dsn_option
@json_option
def add(dsn: str | None, as_json: bool, **given: Any) -> None:
    """Register a job.

    \b
    mainspring jobs add --name report --schedule '0 9 * * 1' --timezone America/New_York
    mainspring jobs add --name once --schedule 2026-06-08T13:00:00Z --payload '{"n": 1}'
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    fields = fields_of(given)
    with open_store(require_dsn(dsn), "cli") as store:
        added = Jobs(store).add(**fields)
    if as_json:
        print_json(added)
    else:
        click.echo(f"{added.job_id}\tnext run at {added.next_run_at}")


@jobs.command()
@click.argument("job_id")
@field_options(is_new=False)
@rev_option
@dsn_option
@json_option
def update(dsn: str | None, job_id: str, if_rev: int | None, as_json: bool, **given: Any) -> None:
    """Change some fields of a job; those that are not given stay as they are.

    What is not started yet runs by the new fields, and a run that is going on ends by them.  A
    changed schedule, zone or DST option starts from now: nothing of it was due before.

    \b
    mainspring jobs update j_1k5 --schedule '0 10 * * 1'
    mainspring jobs update j_1k5 --payload '{"n": 2}' --if-rev 3
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    fields = fields_of(given)
    with open_store(require_dsn(dsn), "cli") as store:
        changed = Jobs(store, are_payloads_text=True).update(job_id, if_rev=if_rev, **fields)
    _say(changed, as_json=as_json)


@jobs.command()
@click.argument("job_id")
@rev_option
@dsn_option
@json_option
def pause(dsn: str | None, job_id: str, if_rev: int | None, as_json: bool) -> None:
    """Pause a job: nothing of it starts until it is resumed, and what passes is not missed.

    A run that is going on ends as it ends.  A one-off keeps its instant.
    """
    with open_store(require_dsn(dsn), "cli") as store:
        _say(Jobs(store, are_payloads_text=True).pause(job_id, if_rev=if_rev), as_json=as_json)


@jobs.command()
@click.argument("job_id")
@rev_option
@dsn_option
@json_option
def resume(dsn: str | None, job_id: str, if_rev: int | None, as_json: bool) -> None:
    """Resume a paused job with its first occurrence from now on.

    A one-off whose instant has passed meanwhile runs at once; with missed_window SKIP it is
    refused.
    """
    with open_store(require_dsn(dsn), "cli") as store:
        _say(Jobs(store, are_payloads_text=True).resume(job_id, if_rev=if_rev), as_json=as_json)


@jobs.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@click.option("--after", help="A job id: the page after it.")
@dsn_option
@json_option
def list_(dsn: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List jobs in the order of their ids."""
    with open_store(require_dsn(dsn), "cli") as store:
        rows = Jobs(store, are_payloads_text=True).list(limit=limit, after=after or None)
    if as_json:
        print_json(rows)
        return
    columns = ("job_id", "name", "schedule", "timezone", "status", "next_run_at")
    print_table("jobs", columns, cells(rows, columns))


@jobs.command()
@click.argument("job_id")
@dsn_option
@json_option
def show(dsn: str | None, job_id: str, as_json: bool) -> None:
    """Show one job."""
    with open_store(require_dsn(dsn), "cli") as store:
        shown = Jobs(store, are_payloads_text=True).get(job_id)
    if as_json:
        print_json(shown)
        return
    fields = msgspec.structs.asdict(shown)
    print_table(job_id, ("field", "value"), [[name, cell(value)] for name, value in fields.items()])


@jobs.command()
@click.argument("job_id")
@dsn_option
@json_option
def rm(dsn: str | None, job_id: str, as_json: bool) -> None:
    """Delete a job; its history stays, and a run that is going on ends as it ends."""
    with open_store(require_dsn(dsn), "cli") as store:
        is_deleted = Jobs(store).delete(job_id)
    if as_json:
        print_json({"job_id": job_id, "deleted": is_deleted})
    else:
        click.echo(f"{job_id} {'deleted' if is_deleted else 'was deleted before'}")


def _say(job: JobOut, *, as_json: bool) -> None:
    """Show a job that was changed."""
    if as_json:
        print_json(job)
    else:
        due = f"next run at {job.next_run_at}" if job.next_run_at else "no next run"
        click.echo(f"{job.job_id}\t{job.status}\t{due}\trev {job.rev}")
