"""A slow walk over minutes that only knows what a wall clock shows: what cron is tested against.

It steps through UTC, asks zoneinfo what the clock reads, and remembers when it read what and how
far it has come.  It knows no rule about gaps or overlaps: a fixed time fires at its first, last or
every reading, or when the clock has passed it without reading it; an interval-like one whenever the
clock reads it.  Expressions are made together with the values they mean (`cron_expressions`), so
no parser stands between.  Nothing of the package is used here but the names of two options.
"""

from __future__ import annotations

import calendar
import functools
import importlib.resources
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from mainspring.model import DstGap, DstOverlap

US = 1_000_000
WINDOW_S = 40 * 3600
WARM_UP_S = 26 * 3600
FIRST_S = 86_400
LAST_S = 2_145_916_800  # the end of 2037
QUIET_S = 1_780_923_600  # an instant for zones that never change

PROBE_S = 3 * 86_400
MINUTE = timedelta(minutes=1)


class Expression(NamedTuple):
    """An expression with what each field means, worked out where the text was made.

    `extras` are items such as `L`, `15W`, `5#2` and `5L`, by the field they stand in (2 or 4).
    """

    text: str
    values: tuple[frozenset[int], ...]
    stars: tuple[bool, ...]
    extras: tuple[tuple[int, str], ...] = ()

    def matches_day(self, day: date) -> bool:
        weekday = day.isoweekday() % 7
        by_day = day.day in self.values[2] or self._names(day, 2)
        by_weekday = weekday in self.values[4] or self._names(day, 4)
        if self.stars[2] or self.stars[4]:
            return day.month in self.values[3] and by_day and by_weekday
        return day.month in self.values[3] and (by_day or by_weekday)

    def matching(self, walls: Iterable[datetime]) -> Iterator[datetime]:
        """Give those of some wall times that match; each day is looked at once."""
        minutes, hours = self.values[:2]
        known: dict[date, bool] = {}
        for wall in walls:
            if wall.minute in minutes and wall.hour in hours:
                day = wall.date()
                if day not in known:
                    known[day] = self.matches_day(day)
                if known[day]:
                    yield wall

    def fires_at_all(self) -> bool:
        """Some day of 28 years matches; the fields of hours and minutes always have one."""
        first = date(2000, 1, 1)
        return any(self.matches_day(first + timedelta(days=n)) for n in range(28 * 366))

    def _names(self, day: date, field: int) -> bool:
        return any(where == field and names_day(item, day) for where, item in self.extras)


def names_day(item: str, day: date) -> bool:
    """Whether `L`, `LW`, `15W`, `5#2` or `5L` is that day of its month."""
    length, workdays = month_of(day.year, day.month)
    if item == "L":
        return day.day == length
    if item == "LW":
        return day.day == workdays[-1]
    if item.endswith("W"):
        wanted = int(item[:-1])
        return wanted <= length and day.day == min(workdays, key=lambda n: abs(n - wanted))
    weekday, _, number = item.partition("#")
    if number:
        return day.isoweekday() % 7 == int(weekday) % 7 and (day.day + 6) // 7 == int(number)
    return day.isoweekday() % 7 == int(item[:-1]) % 7 and day.day + 7 > length


@functools.cache
def month_of(year: int, month: int) -> tuple[int, list[int]]:
    """Give a month's length and its days from Monday to Friday."""
    length = calendar.monthrange(year, month)[1]
    return length, [n for n in range(1, length + 1) if date(year, month, n).weekday() < 5]


@functools.cache
def zone_of(name: str) -> ZoneInfo:
    path = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@functools.cache
def changes_of(name: str) -> tuple[int, ...]:
    """Seconds since the epoch at which the zone's offset changes, 1970 to 2037.

    No two are closer than seven days (`test_cron_zone`), so a look every three finds them.
    """
    zone = zone_of(name)

    def offset(at_s: int) -> timedelta | None:
        return datetime.fromtimestamp(at_s, zone).utcoffset()

    found: list[int] = []
    known = offset(FIRST_S)
    for day in range(FIRST_S, LAST_S, PROBE_S):
        later = offset(day + PROBE_S)
        if known != later:
            before, after = day, day + PROBE_S
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if offset(middle) == known else (before, middle)
            found.append(after)
        known = later
    return tuple(found) or (QUIET_S,)


class Clock(NamedTuple):
    """What a wall clock does around a window.

    `shows` maps what the clock shows to the instants at which it shows exactly this; `jumps` has
    each instant at which the clock has passed minutes unread, with those minutes.
    """

    shows: dict[datetime, list[int]]
    jumps: list[tuple[int, list[datetime]]]


@functools.lru_cache(maxsize=64)
def clock_of(name: str, start_s: int) -> Clock:
    """Look at a clock from a day before `start_s` to a day beyond the window's end."""
    zone = zone_of(name)
    begin_s, end_s = start_s - WARM_UP_S, start_s + WINDOW_S + WARM_UP_S
    offsets_s = {
        datetime.fromtimestamp(at_s, zone).utcoffset() for at_s in range(begin_s, end_s, 3600)
    }
    # Liberia was 44 minutes and 30 seconds behind until 1972; everything else is whole minutes.
    is_whole = not any(offset and offset % timedelta(minutes=1) for offset in offsets_s)
    step_s = 60 if is_whole else 30
    instants_s = range(begin_s // 60 * 60, end_s + 1, step_s)
    walls = [datetime.fromtimestamp(at_s, zone).replace(tzinfo=None, fold=0) for at_s in instants_s]
    shows: dict[datetime, list[int]] = {}
    for at_s, wall in zip(instants_s, walls, strict=True):
        if wall.second == 0:
            shows.setdefault(wall, []).append(at_s)
    jumps: list[tuple[int, list[datetime]]] = []
    furthest = walls[0]
    for at_s, wall in zip(instants_s, walls, strict=True):
        if wall - furthest > MINUTE:
            first = furthest.replace(second=0) + MINUTE
            passed = [first + n * MINUTE for n in range((wall - first) // MINUTE + 1)]
            jumps.append((at_s, [each for each in passed if each not in shows]))
        furthest = max(furthest, wall)
    return Clock(shows, jumps)


def walk(
    expression: Expression,
    zone_name: str,
    start_s: int,
    gap: DstGap = DstGap.NEXT_VALID,
    overlap: DstOverlap = DstOverlap.FIRST,
) -> list[int]:
    """Give the occurrences in (start_s, start_s + WINDOW_S], in microseconds."""
    if expression.stars[1]:
        gap, overlap = DstGap.SKIP, DstOverlap.BOTH
    clock = clock_of(zone_name, start_s)
    found: set[int] = set()
    for wall in expression.matching(clock.shows):
        instants_s = clock.shows[wall]
        chosen = {"first": instants_s[:1], "second": instants_s[-1:], "both": instants_s}
        found.update(chosen[overlap])
    if gap is DstGap.NEXT_VALID:
        found.update(at_s for at_s, unread in clock.jumps if any(expression.matching(unread)))
    return [at_s * US for at_s in sorted(found) if start_s < at_s <= start_s + WINDOW_S]
