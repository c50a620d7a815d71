"""`mainspring jobs`: register, list, show, remove."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from mainspring.cli.database import dsn_option, open_store, require_dsn
from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cli.render import cell, cells
from mainspring.errors import InvalidInput
from mainspring.jobs import Jobs
from mainspring.model import DstGap, DstOverlap, MissedWindow


@click.group()
def jobs() -> None:
    """Register, list, show and remove jobs."""


@jobs.command()
@click.option("--name", required=True, help="What people call the job; need not be unique.")
@click.option(
    "--schedule",
    required=True,
    help="Five cron fields, @daily and its kin, '@every 10s', or an instant like "
    "2026-06-08T13:00:00Z for a one-off.",
)
@click.option("--timezone", default="UTC", show_default=True, help="IANA zone of the schedule.")
@click.option("--task", help="Which handler runs it.  [default: the name]")
@click.option("--queue", default="default", show_default=True, help="Which workers take it.")
@click.option("--payload", default="null", show_default=True, help="JSON for the handler.")
@click.option("--key-template", help="Idempotency key, as in 'report-{{week}}'.")
@click.option("--max-retries", type=int, help="Attempts in all.  [default: 3]")
@click.option(
    "--retry-backoff",
    type=click.Choice(["fixed", "linear", "exponential"]),
    help="How delays between attempts grow.  [default: exponential]",
)
@click.option("--retry-base-seconds", type=int, help="The first delay.  [default: 5]")
@click.option("--retry-cap-seconds", type=int, help="The longest delay.  [default: 3600]")
@click.option("--timeout-seconds", type=int, help="Then an attempt has failed.  [default: 300]")
@click.option(
    "--missed-window",
    type=click.Choice([each.value for each in MissedWindow]),
    help="What becomes of occurrences that nobody could serve.  [default: RUN_ONCE]",
)
@click.option("--max-missed", type=int, help="RUN_ALL: how many are run at most.  [default: 100]")
@click.option(
    "--dst-gap",
    type=click.Choice([each.value for each in DstGap]),
    help="A fixed time that the zone leaves out.  [default: next_valid]",
)
@click.option(
    "--dst-overlap",
    type=click.Choice([each.value for each in DstOverlap]),
    help="A fixed time that the zone has twice.  [default: first]",
)
@click.option("--misfire-grace-seconds", type=int, help="Later than this is missed.  [default: 60]")
@dsn_option
@json_option
def add(
    dsn: str | None, payload: str, key_template: str | None, as_json: bool, **given: Any
) -> None:
    """Register a job.

    \b
    mainspring jobs add --name report --schedule '0 9 * * 1' --timezone America/New_York
    mainspring jobs add --name once --schedule 2026-06-08T13:00:00Z --payload '{"n": 1}'
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    fields: Any = {name: value for name, value in given.items() if value is not None}
    try:
        fields["payload"] = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"the payload is not JSON: {error}",
            pointer="/payload",
            hint="""Quote it for the shell, as in --payload '{"n": 1}'.""",
        ) from error
    if key_template is not None:
        fields["idempotency_key_template"] = key_template
    with open_store(require_dsn(dsn), "cli") as store:
        added = Jobs(store).add(**fields)
    if as_json:
        print_json(added)
    else:
        click.echo(f"{added.job_id}\tnext run at {added.next_run_at}")


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
