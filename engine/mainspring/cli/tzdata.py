"""`mainspring tzdata`: by which time zone data jobs are computed, and what changes of it moved."""

from __future__ import annotations

from typing import Any

import click

from mainspring.cli.database import dsn_option, open_store, require_dsn
from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cron import tzdata_version
from mainspring.instants import format_instant


@click.command()
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@dsn_option
@json_option
def tzdata(dsn: str | None, limit: int, as_json: bool) -> None:
    """Show the release of the tzdata package, that of each shard, and what changes did.

    A scheduler with a newer release than a shard's moves the shard's cursors to where the new
    rules have them; what it moved and parked is listed by zone, newest first.
    """
    with open_store(require_dsn(dsn), "cli") as store:
        versions = store.zone_versions()
        changes = [
            {
                "changed_at": format_instant(change.changed_us),
                "timezone": change.timezone,
                "moved": change.moved_count,
                "parked": change.parked_count,
                "from_version": change.from_version,
                "to_version": change.to_version,
            }
            for change in store.zone_changes(limit=limit)
        ]
    if as_json:
        shards = [{"shard": shard, "version": each or None} for shard, each in versions.items()]
        print_json({"package": tzdata_version(), "shards": shards, "changes": changes})
    else:
        _print(versions, changes)


def _print(versions: dict[int, str], changes: list[dict[str, Any]]) -> None:
    click.echo(f"package\t{tzdata_version()}")
    print_table(
        "shards",
        ("shard", "version"),
        [[str(shard), version or "-"] for shard, version in versions.items()],
    )
    if not changes:
        click.echo("no cursor was moved by new rules yet")
        return
    columns = ("changed_at", "timezone", "moved", "parked", "from_version", "to_version")
    rows = [[str(change[column]) for column in columns] for change in changes]
    print_table("changes", columns, rows)
