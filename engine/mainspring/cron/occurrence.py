"""The instants a schedule yields: the next, the latest, and how many in between.

Two readings of a cron expression, by its hour field:

- *fixed-time*: a matching wall time fires at the first instant at which the clock reads it or
  later (`first_instant_reading`), and wall times that share that instant fire once.  So the next
  occurrence comes from the first matching wall time beyond the furthest the clock has ever read.
- *interval-like* (the hour field starts with `*`): every instant whose wall time matches fires.
  Each segment of constant offset is searched by itself: nothing is invented in a gap and both
  passes of an overlap are there.

These functions are exact, also over years, and take time for the months or segments they cross,
never for each occurrence.

Times go in and come out as int64 microseconds since the epoch.  Repeating schedules end at
`HORIZON_US`, a day before the last that `datetime` can show in every zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mainspring.cron.fields import (
    CronFields,
    count_wall_min,
    latest_wall_min,
    next_wall_min,
)
from mainspring.cron.schedule import Schedule, ScheduleKind, first_instant_reading
from mainspring.cron.zone import Zone
from mainspring.instants import INSTANT_MAX_US, US_PER_DAY, US_PER_MIN

HORIZON_US: Final = INSTANT_MAX_US - 2 * US_PER_DAY
"""Last instant a repeating schedule may yield, in 9999-12-29."""

_SEARCH_US: Final = 50 * 366 * US_PER_DAY
"""An interval-like search gives up after 50 years, as cronsim does; the longest real wait is 40."""


@dataclass(frozen=True, slots=True)
class DueOccurrences:
    """Occurrences that are due.

    Attributes
    ----------
    count
        How many, at least 1.
    latest_us
        The newest.
    previous_us
        The one before it; None if there is just one.
    """

    count: int
    latest_us: int
    previous_us: int | None


def next_occurrence_us(schedule: Schedule, after_us: int) -> int | None:
    """Give the first occurrence strictly later than `after_us`.

    Returns
    -------
    int or None
        None when there is none: a one-off at or before `after_us`, or the end of 9999.
    """
    if schedule.kind is ScheduleKind.ONCE:
        return schedule.at_us if schedule.at_us > after_us else None
    if schedule.kind is ScheduleKind.EVERY:
        return next_of_period_us(schedule.anchor_us, schedule.period_us, after_us)
    if after_us >= HORIZON_US:
        return None
    assert schedule.fields is not None
    find = _next_interval if schedule.fields.is_interval_like else _next_fixed
    instant_us = find(schedule.fields, schedule.zone, max(after_us, -1))
    return instant_us if instant_us is not None and instant_us <= HORIZON_US else None


def next_of_period_us(anchor_us: int, period_us: int, after_us: int) -> int | None:
    """Give the first `anchor_us + n * period_us`, n >= 1, after `after_us`; None at the end."""
    number = max(1, (after_us - anchor_us) // period_us + 1)
    instant_us = anchor_us + number * period_us
    return instant_us if instant_us <= HORIZON_US else None


def latest_occurrence_us(schedule: Schedule, at_us: int) -> int | None:
    """Give the last occurrence at or before `at_us`.

    Returns
    -------
    int or None
        None when there is none: before a one-off, before anchor plus one period, before 1970.
    """
    if at_us < 0:
        return None
    if schedule.kind is ScheduleKind.ONCE:
        return schedule.at_us if schedule.at_us <= at_us else None
    at_us = min(at_us, HORIZON_US)
    if schedule.kind is ScheduleKind.EVERY:
        number = (at_us - schedule.anchor_us) // schedule.period_us
        return schedule.anchor_us + number * schedule.period_us if number >= 1 else None
    assert schedule.fields is not None
    if schedule.fields.is_interval_like:
        return _latest_interval(schedule.fields, schedule.zone, at_us)
    read_min = _furthest_reading(schedule.zone, at_us) // US_PER_MIN
    wall_min = latest_wall_min(schedule.fields, read_min)
    if wall_min is None:
        return None
    instant_us = first_instant_reading(schedule.zone, wall_min * US_PER_MIN)
    return instant_us if instant_us is not None and instant_us >= 0 else None


def count_occurrences(schedule: Schedule, after_us: int, until_us: int) -> int:
    """Count the occurrences in (after_us, until_us]; exact, without walking through them."""
    after_us = max(after_us, -1)
    if schedule.kind is ScheduleKind.ONCE:
        return int(after_us < schedule.at_us <= until_us)
    until_us = min(until_us, HORIZON_US)
    if until_us <= after_us:
        return 0
    if schedule.kind is ScheduleKind.EVERY:
        first, last = (
            max(0, (instant_us - schedule.anchor_us) // schedule.period_us)
            for instant_us in (after_us, until_us)
        )
        return last - first
    assert schedule.fields is not None
    if schedule.fields.is_interval_like:
        return _count_interval(schedule.fields, schedule.zone, after_us, until_us)
    return _count_fixed(schedule.fields, schedule.zone, after_us, until_us)


def due_occurrences(schedule: Schedule, first_us: int, now_us: int) -> DueOccurrences:
    """Say what has become due from the firing at `first_us` until `now_us`.

    Parameters
    ----------
    first_us
        Nominal time of a firing, at or before `now_us`.  It counts even if the schedule no longer
        yields it, which happens when a law changes the zone.
    now_us
        The database's time.

    Notes
    -----
    A year of `@every 1s` or `* * * * *` takes as long as a day of it.
    """
    assert first_us <= now_us, (first_us, now_us)
    count = 1 + count_occurrences(schedule, first_us, now_us)
    if count == 1:
        return DueOccurrences(1, first_us, None)
    latest_us = latest_occurrence_us(schedule, now_us)
    assert latest_us is not None
    if count == 2:
        return DueOccurrences(2, latest_us, first_us)
    return DueOccurrences(count, latest_us, latest_occurrence_us(schedule, latest_us - 1))


def _next_fixed(fields: CronFields, zone: Zone, after_us: int) -> int | None:
    read_min = _furthest_reading(zone, after_us) // US_PER_MIN
    wall_min = next_wall_min(fields, read_min + 1)
    return None if wall_min is None else first_instant_reading(zone, wall_min * US_PER_MIN)


def _next_interval(fields: CronFields, zone: Zone, after_us: int) -> int | None:
    from_us = after_us + 1
    while from_us <= min(HORIZON_US, after_us + _SEARCH_US):
        segment = zone.segment_at(from_us)
        wall_min = next_wall_min(fields, _minute_from(from_us + segment.offset_us))
        if wall_min is None:
            return None
        instant_us = wall_min * US_PER_MIN - segment.offset_us
        if instant_us < segment.end_us:
            return instant_us
        from_us = segment.end_us
    return None


def _latest_interval(fields: CronFields, zone: Zone, at_us: int) -> int | None:
    until_us = at_us
    while until_us >= max(0, at_us - _SEARCH_US):
        segment = zone.segment_at(until_us)
        wall_min = latest_wall_min(fields, (until_us + segment.offset_us) // US_PER_MIN)
        if wall_min is None:
            return None
        instant_us = wall_min * US_PER_MIN - segment.offset_us
        if instant_us >= max(0, segment.start_us):
            return instant_us
        until_us = segment.start_us - 1
    return None


def _count_interval(fields: CronFields, zone: Zone, after_us: int, until_us: int) -> int:
    count = 0
    from_us = after_us + 1
    while from_us <= until_us:
        segment = zone.segment_at(from_us)
        end_us = min(segment.end_us, until_us + 1)
        count += count_wall_min(
            fields,
            _minute_from(from_us + segment.offset_us),
            _minute_from(end_us + segment.offset_us),
        )
        from_us = end_us
    return count


def _count_fixed(fields: CronFields, zone: Zone, after_us: int, until_us: int) -> int:
    count = count_wall_min(
        fields,
        _furthest_reading(zone, after_us) // US_PER_MIN + 1,
        _furthest_reading(zone, until_us) // US_PER_MIN + 1,
    )
    segment = zone.segment_at(after_us)
    while segment.end_us <= until_us:
        following = zone.segment_at(segment.end_us)
        if following.offset_us > segment.offset_us:
            # All wall times of this gap, and the one at its end, fire together.
            sharing = count_wall_min(
                fields,
                _minute_from(segment.end_us + segment.offset_us),
                (following.start_us + following.offset_us) // US_PER_MIN + 1,
            )
            count -= max(0, sharing - 1)
        segment = following
    return count


def _furthest_reading(zone: Zone, instant_us: int) -> int:
    """Give the furthest wall time the clock has read up to and with `instant_us`.

    That is what it reads now, except in the second pass of an overlap.  A day back is far enough:
    since 1970 no clock was set back by more than seven hours.
    """
    segment = zone.segment_at(instant_us - US_PER_DAY)
    furthest_us = instant_us + zone.segment_at(instant_us).offset_us
    while segment.end_us <= instant_us:
        furthest_us = max(furthest_us, segment.end_us - 1 + segment.offset_us)
        segment = zone.segment_at(segment.end_us)
    return furthest_us


def _minute_from(wall_us: int) -> int:
    """Give the first whole minute at or after a wall time."""
    return -(-wall_us // US_PER_MIN)
