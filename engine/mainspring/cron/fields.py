"""A cron expression as bit sets, and the wall clock minutes they match.

Wall clock times are counted in minutes since 1970-01-01T00:00 on the wall clock, without a zone:
`wall_min = day * 1440 + minute of day`.  A wall time here need not exist in any zone, and may
exist twice; `occurrence` maps it to instants.

The values come from croniter's `expand`, fed with canonical text only (grammar.py), so that none
of its own extensions can be reached.  Which days match is croniter's business no longer: the rule
on the two day fields is Vixie's and needs the star that croniter drops, and what `extras` names
depends on the month.

Source: crontab(5), "the day of a command's execution can be specified by two fields".
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from croniter import croniter

from mainspring.cron.extras import NONE, Extras
from mainspring.cron.grammar import Field
from mainspring.cron.refusals import POINTER, RULES, shown
from mainspring.errors import InvalidSchedule

MIN_PER_DAY: Final = 1440

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = -1
"""1969-12-31, which clocks behind UTC still read when the epoch starts."""
_LAST_DAY: Final = date(9999, 12, 31).toordinal() - _EPOCH_ORDINAL
_MONTH_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WEEKS: Final = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35
"""Multiplied by a 7 bit set it repeats that set six times: any month and its first weekday."""

_MONTHS_OF_ALL_SHAPES: Final = tuple(
    date(year, month, 1).toordinal() - _EPOCH_ORDINAL
    for year in range(2000, 2028)
    for month in range(1, 13)
)
"""28 years without a skipped leap day have every month with every first weekday."""


@dataclass(frozen=True, slots=True)
class CronFields:
    """One expression.  Bit i of a set stands for the value i.

    Attributes
    ----------
    minutes, hours, days, months, weekdays
        Bit sets over 0..59, 0..23, 1..31, 1..12 and 0..6 (Sunday is 0).
    extras
        Days that depend on the month, of both day fields.
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
    extras: Extras = NONE

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
    # An empty field (extras alone) is read as any value that croniter takes, and then emptied.
    expanded, _ = croniter.expand(" ".join(field.text or "1" for field in fields))
    minutes, hours, days, months, weekdays = (
        _bit_set(values, rule.low, rule.low + rule.value_count) if field.text else 0
        for field, values, rule in zip(fields, expanded, RULES, strict=True)
    )
    made = CronFields(
        minutes,
        hours,
        days,
        months,
        weekdays,
        is_interval_like=fields[1].starts_with_star,
        is_either_day=not (fields[2].starts_with_star or fields[4].starts_with_star),
        extras=fields[2].extras.united(fields[4].extras),
    )
    if not any(_days_of_month(made, month_day)[0] for month_day in _MONTHS_OF_ALL_SHAPES):
        raise InvalidSchedule(
            f"schedule {shown(text)} never fires: no month of it has such a day",
            pointer=POINTER,
            hint="Choose a day that its months have; the last day of February is 28 or 29.",
        )
    return made


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
    first_weekday = first.isoweekday() % 7
    by_weekday = fields.weekdays * _WEEKS >> first_weekday
    by_day = fields.days >> 1
    if fields.extras != NONE:
        by_weekday |= _extra_weekdays(fields.extras, length, first_weekday)
        by_day |= _extra_days(fields.extras, length, first_weekday)
    either_or_both = by_weekday | by_day if fields.is_either_day else by_weekday & by_day
    return either_or_both & (1 << length) - 1, length


def _extra_weekdays(extras: Extras, length: int, first_weekday: int) -> int:
    """Give the days that the day of week field's extras name; bit i stands for the day i + 1."""
    bits = 0
    for place in _members(extras.nth_weekdays):
        bits |= 1 << (place % 7 - first_weekday) % 7 + place // 7 * 7
    for weekday in _members(extras.last_weekdays):
        day = (weekday - first_weekday) % 7
        bits |= 1 << day + (length - 1 - day) // 7 * 7
    return bits


def _extra_days(extras: Extras, length: int, first_weekday: int) -> int:
    """Give the days that the day of month field's extras name; bit i stands for the day i + 1."""
    bits = 0
    for day in _members(extras.near_days):
        if day <= length:
            bits |= 1 << _nearest_workday(day, length, first_weekday) - 1
    if extras.is_last_day:
        bits |= 1 << length - 1
    if extras.is_last_workday:
        bits |= 1 << _nearest_workday(length, length, first_weekday) - 1
    return bits


def _nearest_workday(day: int, length: int, first_weekday: int) -> int:
    """Give the Monday to Friday nearest to a day, never in another month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


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
