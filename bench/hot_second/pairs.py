"""Distinct (expression, zone) pairs whose next occurrence is one chosen instant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.errors import InvalidSchedule
from mainspring.instants import US_PER_S

Pair = tuple[str, str]


def pairs_meeting_at(at_us: int, now_us: int, count: int) -> list[Pair]:
    """Return `count` distinct (expression, zone) pairs that are due next at `at_us`.

    Each is checked by the schedule's own evaluation: the first occurrence after `now_us` is
    `at_us`.  The one after it is at least an hour later, so that no second burst falls into the
    first.

    Parameters
    ----------
    at_us
        A full minute.
    now_us
        Before it, by less than an hour.

    Raises
    ------
    ValueError
        There are not so many.
    """
    pairs = list(islice(_meeting(at_us, now_us), count))
    if len(pairs) < count:
        raise ValueError(f"only {len(pairs)} pairs meet at one instant, {count} were asked for")
    return pairs


def hourly_pairs(count: int) -> list[Pair]:
    """Return `count` distinct pairs that repeat every hour from when they are registered."""
    return [("@every 1h", name) for name in sorted(available_timezones())[:count]]


def _meeting(at_us: int, now_us: int) -> Iterator[Pair]:
    at = datetime.fromtimestamp(at_us / US_PER_S, UTC)
    for name in sorted(available_timezones()):
        local = at.astimezone(ZoneInfo(name))
        if local.second or local.microsecond:
            continue
        for expression in _expressions(local):
            try:
                schedule = parse_schedule(expression, name, anchor_us=now_us)
            except InvalidSchedule:
                break  # a name that mainspring refuses
            if next_occurrence_us(schedule, now_us) == at_us:
                yield expression, name


def _expressions(local: datetime) -> Iterator[str]:
    """Yield expressions of different shapes that hold at a local time."""
    minute, hour = local.minute, local.hour
    later = (hour + 5) % 24
    yield f"{minute} {hour} * * *"
    yield f"{minute} * * * *"
    yield f"{minute} {min(hour, later)},{max(hour, later)} * * *"
    yield f"{minute} {hour} {local.day} * *"
    yield f"{minute} {hour} * * {local.isoweekday() % 7}"
    yield f"{minute} {hour} {local.day} {local.month} *"
    yield f"{minute} */{1 if hour % 2 else 2} * * *"
