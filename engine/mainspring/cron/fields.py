"""A cron expression as bit sets, and the wall clock minutes they match.

Wall clock times are counted in minutes since 1970-01-01T00:00 on the wall clock, without a zone:
`wall_min = day * 1440 + minute of day`.  A wall time here need not exist in any zone, and may
exist twice; `occurrence` maps it to instants.

The values come from croniter's `expand`, fed with canonical text only (grammar.py), so that none
of its own extensions can be reached.  Which days match is croniter's business no longer: the rule
on the two day fields is Vixie's and needs the star that croniter drops.

Source: crontab(5), "the day of a command's execution can be specified by two fields".
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from croniter import croniter

from mainspring.cron.grammar import POINTER, RULES, Field, shown
from mainspring.errors import InvalidSchedule

MIN_PER_DAY: Final = 1440

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = -1
"""1969-12-31, which clocks behind UTC still read when the epoch starts."""
_LAST_DAY: Final = date(9999, 12, 31).toordinal() - _EPOCH_ORDINAL
_MONTH_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WEEKS: Final = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35
"""Multiplied by a 7 bit set it repeats that set six times: any month and its first weekday."""


@dataclass(frozen=True, slots=True)
class CronFields:
    """One expression.  Bit i of a set stands for the value i.

    Attributes
    ----------
    minutes, hours, days, months, weekdays
        Bit sets over 0..59, 0..23, 1..31, 1..12 and 0..6 (Sunday is 0).
    is_interval_like
        The hour field starts with `*`: the schedule keeps its real-time cadence over gaps and
        overlaps.
    is_either_day
        Neither day field starts with `*`: a day matches if either does.  Else both must.
    """

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    is_interval_like: bool
    is_either_day: bool

    @property
    def times_per_day(self) -> int:
        """How many wall times each matching day has."""
        return self.minutes.bit_count() * self.hours.bit_count()


def expand_fields(fields: Sequence[Field], text: str) -> CronFields:
    """Turn checked fields into bit sets.

    Parameters
    ----------
    fields
        The five of `grammar.parse_fields`.
    text
        The schedule as given; for the message.

    Raises
    ------
    InvalidSchedule
        No month of the expression has any of its days, such as 31 February.  Everything else
        occurs within 40 years, 29 February on one weekday being the rarest.
    """
    expanded, _ = croniter.expand(" ".join(field.text for field in fields))
    minutes, hours, days, months, weekdays = (
        _bit_set(values, rule.low, rule.low + rule.value_count)
        for values, rule in zip(expanded, RULES, strict=True)
    )
    is_either_day = not (fields[2].starts_with_star or fields[4].starts_with_star)
    longest = max(29 if month == 2 else _MONTH_LENGTHS[month - 1] for month in _members(months))
    if not is_either_day and _lowest(days) > longest:
        raise InvalidSchedule(
            f"schedule {shown(text)} never fires: no month of it has a day {_lowest(days)}",
            pointer=POINTER,
            hint="Choose a day that its months have; the last day of February is 28 or 29.",
        )
    return CronFields(
        minutes, hours, days, months, weekdays, fields[1].starts_with_star, is_either_day
    )


def next_wall_min(fields: CronFields, from_min: int) -> int | None:
    """Give the first matching wall minute at or after `from_min`; None after the year 9999."""
    day, minute_of_day = divmod(from_min, MIN_PER_DAY)
    matching_day = _next_day(fields, day)
    if matching_day == day:
        hour, minute = divmod(minute_of_day, 60)
        if fields.hours >> hour & 1 and fields.minutes >> minute:
            return day * MIN_PER_DAY + hour * 60 + minute + _lowest(fields.minutes >> minute)
        if later := fields.hours >> hour + 1:
            hour += 1 + _lowest(later)
            return day * MIN_PER_DAY + hour * 60 + _lowest(fields.minutes)
        matching_day = _next_day(fields, day + 1)
    if matching_day is None:
        return None
    return matching_day * MIN_PER_DAY + _lowest(fields.hours) * 60 + _lowest(fields.minutes)


def latest_wall_min(fields: CronFields, from_min: int) -> int | None:
    """Give the last matching wall minute at or before `from_min`; None before 1969-12-31."""
    day, minute_of_day = divmod(from_min, MIN_PER_DAY)
    if day > _LAST_DAY:
        day, minute_of_day = _LAST_DAY, MIN_PER_DAY - 1
    matching_day = _latest_day(fields, day)
    if matching_day == day:
        hour, minute = divmod(minute_of_day, 60)
        earlier = fields.minutes & (2 << minute) - 1
        if fields.hours >> hour & 1 and earlier:
            return day * MIN_PER_DAY + hour * 60 + _highest(earlier)
        if earlier := fields.hours & (1 << hour) - 1:
            return day * MIN_PER_DAY + _highest(earlier) * 60 + _highest(fields.minutes)
        matching_day = _latest_day(fields, day - 1)
    if matching_day is None:
        return None
    return matching_day * MIN_PER_DAY + _highest(fields.hours) * 60 + _highest(fields.minutes)


def count_wall_min(fields: CronFields, from_min: int, until_min: int) -> int:
    """Count matching wall minutes in [from_min, until_min).

    Takes time for each month between, not for each match.
    """
    if from_min >= until_min:
        return 0
    return _count_before(fields, until_min, from_min) - _count_before(fields, from_min, from_min)


def _count_before(fields: CronFields, until_min: int, origin_min: int) -> int:
    """Count matches from the start of the month of `origin_min` up to, not with, `until_min`."""
    until_day, minute_of_day = divmod(until_min, MIN_PER_DAY)
    count = 0
    month_day = _month_start(origin_min // MIN_PER_DAY)
    while True:
        day_set, length = _days_of_month(fields, month_day)
        if until_day < month_day + length:
            break
        count += day_set.bit_count() * fields.times_per_day
        month_day += length
    into = until_day - month_day
    count += (day_set & (1 << into) - 1).bit_count() * fields.times_per_day
    if day_set >> into & 1:
        hour, minute = divmod(minute_of_day, 60)
        count += (fields.hours & (1 << hour) - 1).bit_count() * fields.minutes.bit_count()
        if fields.hours >> hour & 1:
            count += (fields.minutes & (1 << minute) - 1).bit_count()
    return count


def _next_day(fields: CronFields, day: int) -> int | None:
    while day <= _LAST_DAY:
        month_day = _month_start(day)
        day_set, length = _days_of_month(fields, month_day)
        if later := day_set >> day - month_day:
            return day + _lowest(later)
        day = month_day + length
    return None


def _latest_day(fields: CronFields, day: int) -> int | None:
    while day >= _FIRST_DAY:
        month_day = _month_start(day)
        day_set, _ = _days_of_month(fields, month_day)
        if earlier := day_set & (2 << day - month_day) - 1:
            return month_day + _highest(earlier)
        day = month_day - 1
    return None


def _month_start(day: int) -> int:
    return day - date.fromordinal(day + _EPOCH_ORDINAL).day + 1


def _days_of_month(fields: CronFields, month_day: int) -> tuple[int, int]:
    """Give the matching days of the month that starts on `month_day`, and the month's length.

    Bit i stands for the day i + 1.
    """
    first = date.fromordinal(month_day + _EPOCH_ORDINAL)
    length = _MONTH_LENGTHS[first.month - 1]
    if first.month == 2 and calendar.isleap(first.year):
        length = 29
    if not fields.months >> first.month & 1:
        return 0, length
    by_weekday = fields.weekdays * _WEEKS >> first.isoweekday() % 7
    by_day = fields.days >> 1
    either_or_both = by_weekday | by_day if fields.is_either_day else by_weekday & by_day
    return either_or_both & (1 << length) - 1, length


def _bit_set(values: Sequence[int | str], low: int, end: int) -> int:
    if "*" in values:
        return (1 << end) - (1 << low)
    return sum(1 << int(value) for value in set(values))


def _members(bits: int) -> list[int]:
    return [value for value in range(bits.bit_length()) if bits >> value & 1]


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _highest(bits: int) -> int:
    return bits.bit_length() - 1
