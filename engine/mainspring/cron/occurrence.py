"""The instants a schedule yields: the next, the latest, and how many in between.

Cron expressions are `kernel`'s and `walk`'s; here are the two kinds that are arithmetic, and one
door for all.  Everything is exact, also over years, and takes time for the months or segments
between, never for each occurrence.

Times go in and come out as int64 microseconds since the epoch.  Repeating schedules end at
`HORIZON_US`, a day before the last that `datetime` can show in every zone.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.cron.schedule import Schedule, ScheduleKind
from mainspring.cron.walk import HORIZON_US


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
    assert schedule.cron is not None
    return schedule.cron.next_us(after_us)


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
    assert schedule.cron is not None
    return schedule.cron.latest_us(at_us)


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
    assert schedule.cron is not None
    return schedule.cron.count(after_us, until_us)


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


def newest_but_us(schedule: Schedule, after_us: int, newest_us: int, newer_count: int) -> int:
    """Give the occurrence that has `newer_count` others between itself and `newest_us`, included.

    With 0 it is `newest_us` itself, with 1 the one before.

    Parameters
    ----------
    after_us
        An instant before the occurrence that is looked for.
    newest_us
        An occurrence.

    Notes
    -----
    Guesses an instant by the density so far and counts what lies behind it, so that it takes a few
    counts where occurrences are even, and some dozens where they are not.
    """
    wanted = newer_count + 1
    if wanted == 1:
        return newest_us
    low_us, high_us = after_us, newest_us  # the occurrence is in (low_us, high_us]
    low_count, high_count = count_occurrences(schedule, low_us, newest_us), 0
    assert low_count >= wanted, (low_count, wanted)
    is_guess = True
    while low_count != wanted:
        span_us = high_us - low_us
        if is_guess:
            # The middle of the stretch in which exactly `wanted` would lie behind, were all even.
            share_us = span_us * (2 * (low_count - wanted) + 1) // (2 * (low_count - high_count))
            middle_us = low_us + min(max(share_us, 1), span_us - 1)
        else:
            middle_us = low_us + span_us // 2
        is_guess = not is_guess
        count = count_occurrences(schedule, middle_us, newest_us)
        if count >= wanted:
            low_us, low_count = middle_us, count
        else:
            high_us, high_count = middle_us, count
    found_us = next_occurrence_us(schedule, low_us)
    assert found_us is not None
    return found_us
