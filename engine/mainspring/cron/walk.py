"""Cron expressions as instants, in Python: the twin of the compiled kernel, and what it has not.

One walk from reading to reading (`readings`) answers every option.  In a reading fire

- ordinary wall times, without those of a second pass or of a first where only the other counts;
- at its start, once, whatever matches in the gap before it, unless gaps are skipped.

Exact, also over years; takes time for the months and readings it crosses, never for each
occurrence.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mainspring.cron.fields import CronFields, count_wall_min, latest_wall_min, next_wall_min
from mainspring.cron.readings import Reading, reading_at
from mainspring.cron.zone import Zone
from mainspring.instants import INSTANT_MAX_US, US_PER_DAY, US_PER_MIN
from mainspring.model import DstGap, DstOverlap

HORIZON_US: Final = INSTANT_MAX_US - 2 * US_PER_DAY
"""Last instant a repeating schedule may yield, in 9999-12-29."""

SEARCH_US: Final = 50 * 366 * US_PER_DAY
"""A search gives up after 50 years, as cronsim does; the longest real wait is 40."""


class Passes(NamedTuple):
    """Which readings of a wall time fire."""

    skips_gap: bool
    takes_first: bool
    takes_second: bool


def passes_of(fields: CronFields, gap: DstGap, overlap: DstOverlap) -> Passes:
    """Return what fires; an interval-like expression keeps its cadence whatever is set."""
    if fields.is_interval_like:
        return Passes(skips_gap=True, takes_first=True, takes_second=True)
    return Passes(
        skips_gap=gap is DstGap.SKIP,
        takes_first=overlap is not DstOverlap.SECOND,
        takes_second=overlap is not DstOverlap.FIRST,
    )


def next_us(fields: CronFields, zone: Zone, passes: Passes, after_us: int) -> int | None:
    """Give the first occurrence strictly later than `after_us`; None at the end of 9999."""
    from_us = max(after_us, -1) + 1
    give_up_us = min(HORIZON_US, from_us + SEARCH_US)
    while from_us <= give_up_us:
        reading = reading_at(zone, from_us)
        if from_us == reading.start_us and _fires_for_gap(fields, reading, passes):
            return from_us
        low_us, high_us = _walls(reading, passes)
        wall_min = next_wall_min(fields, _minute_from(max(low_us, from_us + reading.offset_us)))
        if wall_min is None:
            return None
        wall_us = wall_min * US_PER_MIN
        if wall_us < high_us:
            instant_us = wall_us - reading.offset_us
            return instant_us if instant_us <= HORIZON_US else None
        from_us = reading.end_us
        if reading.until_us == reading.end_wall_us:
            # Nothing is read again soon, and no clock is a whole day ahead of UTC: before this the
            # wall time is not read.
            from_us = max(from_us, wall_us - US_PER_DAY)
    return None


def latest_us(fields: CronFields, zone: Zone, passes: Passes, at_us: int) -> int | None:
    """Give the last occurrence at or before `at_us`; None before 1970."""
    until_us = min(at_us, HORIZON_US)
    give_up_us = max(0, until_us - SEARCH_US)
    while until_us >= give_up_us:
        reading = reading_at(zone, until_us)
        low_us, high_us = _walls(reading, passes)
        high_us = min(high_us - 1, until_us + reading.offset_us)
        wall_min = latest_wall_min(fields, high_us // US_PER_MIN)
        if wall_min is not None and wall_min * US_PER_MIN >= low_us:
            instant_us = wall_min * US_PER_MIN - reading.offset_us
            return instant_us if instant_us >= 0 else None
        if _fires_for_gap(fields, reading, passes):
            return reading.start_us if reading.start_us >= 0 else None
        until_us = reading.start_us - 1
        if wall_min is None:
            continue
        if reading.read_us <= reading.first_wall_us:
            # Nothing was read before, and no clock is a whole day behind UTC: after this the wall
            # time is not read.
            until_us = min(until_us, wall_min * US_PER_MIN + US_PER_DAY)
    return None


def count(fields: CronFields, zone: Zone, passes: Passes, after_us: int, until_us: int) -> int:
    """Count the occurrences in (after_us, until_us]."""
    found = 0
    from_us = max(after_us, -1) + 1
    until_us = min(until_us, HORIZON_US)
    while from_us <= until_us:
        reading = reading_at(zone, from_us)
        low_us, high_us = _walls(reading, passes)
        low_min = _minute_from(max(low_us, from_us + reading.offset_us))
        high_min = _minute_from(min(high_us, until_us + 1 + reading.offset_us))
        found += count_wall_min(fields, low_min, high_min)
        if from_us == reading.start_us and _fires_for_gap(fields, reading, passes):
            # A wall time at the gap's very end fires at the same instant: it is counted already.
            first_min = _minute_from(reading.first_wall_us)
            is_counted = (
                first_min * US_PER_MIN == reading.first_wall_us
                and low_min <= first_min < high_min
                and next_wall_min(fields, first_min) == first_min
            )
            found += not is_counted
        from_us = reading.end_us
    return found


def _walls(reading: Reading, passes: Passes) -> tuple[int, int]:
    """Give the wall times of a reading that may fire: from, up to but not with."""
    low_us = reading.first_wall_us
    if not passes.takes_second:
        low_us = max(low_us, reading.read_us)
    high_us = reading.end_wall_us
    if not passes.takes_first:
        high_us = min(high_us, reading.until_us)
    return low_us, high_us


def _fires_for_gap(fields: CronFields, reading: Reading, passes: Passes) -> bool:
    """Say whether a wall time in the gap before a reading fires at its start."""
    if passes.skips_gap or reading.read_us >= reading.first_wall_us:
        return False
    wall_min = next_wall_min(fields, _minute_from(reading.read_us))
    return wall_min is not None and wall_min * US_PER_MIN < reading.first_wall_us


def _minute_from(wall_us: int) -> int:
    """Give the first whole minute at or after a wall time."""
    return -(-wall_us // US_PER_MIN)
