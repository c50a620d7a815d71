"""The next firings of a schedule with what a person should know about them, in words.

Notes are of two kinds.  What the zone does to fixed times between the first and the last firing
shown: a gap that moved or dropped one, an overlap that has one twice.  And what is probably a
mistake: both day fields, a day that not every month has, every minute of an hour.

Pure; the instants come from the same door as everybody's, `next_occurrence_us`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from mainspring.cron.extras import NONE
from mainspring.cron.fields import next_wall_min
from mainspring.cron.kernel import Cron
from mainspring.cron.occurrence import next_occurrence_us
from mainspring.cron.readings import Reading, reading_at
from mainspring.cron.schedule import Schedule, ScheduleKind
from mainspring.cron.walk import HORIZON_US
from mainspring.instants import US_PER_MIN, format_instant, to_datetime
from mainspring.model import DstGap, DstOverlap

FIRINGS_MAX: Final = 1_000
NOTES_MAX: Final = 20
_READINGS_MAX: Final = 1_000
"""How many changes and years are looked at for notes: over 200 years of any zone."""

_ALL_MINUTES: Final = (1 << 60) - 1
_ALL_HOURS: Final = (1 << 24) - 1


class Preview(NamedTuple):
    """What a schedule will do.

    `firings_us` are instants, int microseconds since the epoch, fewer than asked for where a
    schedule ends; `notes` are sentences.
    """

    firings_us: list[int]
    notes: list[str]


def preview(schedule: Schedule, after_us: int, count: int) -> Preview:
    """Give the first `count` firings strictly later than `after_us`, with notes.

    Parameters
    ----------
    count
        1 to FIRINGS_MAX.
    """
    assert 1 <= count <= FIRINGS_MAX, count
    firings_us: list[int] = []
    instant_us: int | None = after_us
    while len(firings_us) < count:
        assert instant_us is not None
        instant_us = next_occurrence_us(schedule, instant_us)
        if instant_us is None:
            break
        firings_us.append(instant_us)
    notes = list(_warnings(schedule))
    if schedule.cron is not None and firings_us:
        notes += _changes(schedule, schedule.cron, after_us, firings_us[-1])
    if len(firings_us) < count:
        notes.append(f"it ends: it fires {len(firings_us)} times in all from there on")
    return Preview(firings_us, notes[:NOTES_MAX])


def offset_text(schedule: Schedule, instant_us: int) -> str:
    """Write the zone's offset from UTC at an instant, as +05:30."""
    offset_us = schedule.zone.segment_at(instant_us).offset_us
    minutes = abs(offset_us) // US_PER_MIN
    return f"{'-' if offset_us < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def wall_text(wall_us: int) -> str:
    """Write a wall clock time, as `2026-03-08 02:30`."""
    return (to_datetime(0) + timedelta(microseconds=wall_us)).strftime("%Y-%m-%d %H:%M")


def _warnings(schedule: Schedule) -> Iterator[str]:
    """Say what is probably not meant."""
    if schedule.kind is ScheduleKind.EVERY:
        yield "a period counts from the registration; here it counts from --after"
    if schedule.cron is None:
        return
    fields, extras = schedule.cron.fields, schedule.cron.fields.extras
    if fields.is_either_day:
        yield (
            "both day fields are set, so it fires on days that match either of them; "
            "write one of them as * to use the other alone"
        )
    if fields.minutes == _ALL_MINUTES:
        if fields.hours == _ALL_HOURS:
            yield "it fires every minute"
        else:
            yield "it fires every minute of its hours; write a minute, as in 0 9 * * *, for once"
    has_rare_days_only = fields.days and not fields.days & (1 << 29) - 1
    if extras == NONE and not fields.is_either_day and has_rare_days_only:
        day = (fields.days & -fields.days).bit_length() - 1
        yield (
            f"months without a day {day} are passed over; write L for the last day of every month"
        )


def _changes(schedule: Schedule, cron: Cron, after_us: int, until_us: int) -> Iterator[str]:
    """Say what each change of the zone's clock does to the firings in between."""
    reading = reading_at(cron.zone, max(after_us, 0))
    for _ in range(_READINGS_MAX):
        if reading.end_us > min(until_us, HORIZON_US):
            return
        reading = reading_at(cron.zone, reading.end_us)
        if reading.read_us < reading.first_wall_us:
            yield from _gap(schedule, cron, reading)
        elif reading.read_us > reading.first_wall_us:
            yield from _overlap(schedule, cron, reading)


def _gap(schedule: Schedule, cron: Cron, reading: Reading) -> Iterator[str]:
    wall_us = _match_in(cron, reading.read_us, reading.first_wall_us)
    if wall_us is None:
        return
    what = (
        f"{wall_text(wall_us)} does not exist in {schedule.zone_name}: clocks go from "
        f"{wall_text(reading.read_us)} to {wall_text(reading.first_wall_us)}"
    )
    if cron.fields.is_interval_like:
        yield f"{what}; an interval goes on in real time and fires nothing for what is left out"
    elif schedule.dst_gap is DstGap.SKIP:
        yield f"{what}; nothing fires for it"
    else:
        yield f"{what}; it fires at {format_instant(reading.start_us)}, the first instant after"


def _overlap(schedule: Schedule, cron: Cron, reading: Reading) -> Iterator[str]:
    wall_us = _match_in(cron, reading.first_wall_us, reading.read_us)
    if wall_us is None:
        return
    second_us = wall_us - reading.offset_us
    before = reading_at(cron.zone, reading.start_us - 1)
    first_us = wall_us - before.offset_us
    what = (
        f"{wall_text(wall_us)} comes twice in {schedule.zone_name}, at {format_instant(first_us)} "
        f"and {format_instant(second_us)}"
    )
    if cron.fields.is_interval_like:
        yield f"{what}; an interval goes on in real time and fires in both"
    else:
        choices = {
            DstOverlap.FIRST: "it fires in the first",
            DstOverlap.SECOND: "it fires in the second",
            DstOverlap.BOTH: "it fires in both",
        }
        yield f"{what}; {choices[schedule.dst_overlap]}"


def _match_in(cron: Cron, from_us: int, until_us: int) -> int | None:
    """Give the first matching wall time in [from_us, until_us)."""
    wall_min = next_wall_min(cron.fields, -(-from_us // US_PER_MIN))
    if wall_min is None or wall_min * US_PER_MIN >= until_us:
        return None
    return wall_min * US_PER_MIN
