"""`mainspring preview`: what a schedule will do, before anybody registers it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from mainspring.cli.output import json_option, print_json, print_table
from mainspring.cron import parse_schedule
from mainspring.cron.preview import FIRINGS_MAX, offset_text, wall_text
from mainspring.cron.preview import preview as preview_of
from mainspring.cron.reading import in_words
from mainspring.instants import US_PER_S, format_instant, from_datetime, parse_instant
from mainspring.model import DstGap, DstOverlap, parse_job_id


@click.command()
@click.argument("schedule")
@click.option("--tz", "zone", default="UTC", show_default=True, help="IANA zone of the schedule.")
@click.option("--after", help="Instant from which to look, exclusive.  [default: now]")
@click.option("--count", type=click.IntRange(1, FIRINGS_MAX), default=10, show_default=True)
@click.option(
    "--dst-gap",
    type=click.Choice([each.value for each in DstGap]),
    default=DstGap.NEXT_VALID.value,
    show_default=True,
    help="What a fixed time that the zone leaves out does.",
)
@click.option(
    "--dst-overlap",
    type=click.Choice([each.value for each in DstOverlap]),
    default=DstOverlap.FIRST.value,
    show_default=True,
    help="Which of two readings of a fixed time fires.",
)
@click.option("--job", "job", help="A job id: whose H is meant.")
@json_option
def preview(
    schedule: str,
    zone: str,
    after: str | None,
    count: int,
    dst_gap: str,
    dst_overlap: str,
    job: str | None,
    as_json: bool,
) -> None:
    """Show the next firings of SCHEDULE and what is worth knowing about them.

    Needs no database.  Notes say where a gap or an overlap of the zone moves, drops or doubles a
    firing, and warn of what is probably a mistake.

    \b
    mainspring preview '30 2 * * *' --tz America/New_York --after 2026-03-06T00:00:00Z
    mainspring preview '0 9 * * FRI#2' --tz Europe/Berlin --count 5 --json
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    after_us = from_datetime(datetime.now(UTC)) if after is None else parse_instant(after)
    job_id = 0 if job is None else parse_job_id(job)
    read = parse_schedule(
        schedule,
        zone,
        anchor_us=after_us,
        job_id=job_id,
        dst_gap=DstGap(dst_gap),
        dst_overlap=DstOverlap(dst_overlap),
    )
    shown = preview_of(read, after_us, count)
    if as_json:
        firings = [format_instant(instant_us) for instant_us in shown.firings_us]
        print_json({"firings": firings, "notes": shown.notes})
        return
    click.echo(in_words(read, job_id))
    rows: list[list[str]] = []
    for instant_us in shown.firings_us:
        wall_us = instant_us + read.zone.segment_at(instant_us).offset_us
        seconds = f":{wall_us // US_PER_S % 60:02d}"
        rows.append(
            [
                f"{wall_text(wall_us)}{seconds}",
                offset_text(read, instant_us),
                format_instant(instant_us),
            ]
        )
    print_table("", (f"local time, {zone}", "offset", "instant"), rows)
    for note in shown.notes:
        click.echo(f"note: {note}")
