"""Zone names, and each zone's clock as segments of constant offset.

Zone data comes from the `tzdata` package and nowhere else, so that every node of a cluster with
the same lock file computes the same occurrences whatever its operating system has installed.  It
is loaded with `ZoneInfo.from_file` into a cache of our own: `zoneinfo.reset_tzpath` would change
the zones of the program that embeds us.

A `Segment` is a span of instants in which the clock is a fixed distance ahead of UTC.  Segments
are found by asking zoneinfo once a day through a year and halving where two answers differ, and
end at year boundaries too, so that one year is all that ever needs to be known.  That is exact as
long as two changes that cancel out are further apart than a day; since 1970 the closest two in
tzdata 2026f are seven days apart (checked by a test).

Source: RFC 8536 (TZif), through zoneinfo (PEP 615).
"""

from __future__ import annotations

import calendar
import difflib
import functools
import importlib.resources
import re
from bisect import bisect_right
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from mainspring.errors import InvalidSchedule
from mainspring.instants import US_PER_S

ZONE_NAME_LENGTH_MAX: Final = 64

_POINTER: Final = "/timezone"
_OFFSET_LIKE: Final = re.compile(
    r"(?:Etc/)?(?:UTC|GMT|Z)?[+-][0-9]{1,2}(?::?[0-9]{2})?", re.IGNORECASE
)
_DAY_S: Final = 86_400
_RELEASE: Final = re.compile(r"([0-9]{4})([a-z]*)")
_HEAD_BYTES_MAX: Final = 64
_YEARS_KEPT_MAX: Final = 256
"""Years of segments kept per zone; 256 small lists, and no job needs more than a few."""


class Segment(NamedTuple):
    """Instants from `start_us` up to, not including, `end_us`, at one offset from UTC.

    The wall clock reads `instant + offset_us`.
    """

    start_us: int
    end_us: int
    offset_us: int


class Zone:
    """One IANA zone.  Get it from `load_zone`; there is one object per name.

    Attributes
    ----------
    name
        As given, for instance `America/New_York`.
    tz
        The same zone for `datetime`.
    table
        The compiled kernel's own copy of the years it has asked for; `kernel` makes and fills it.
    """

    __slots__ = ("_years", "name", "table", "tz")

    def __init__(self, name: str, tz: ZoneInfo) -> None:
        self.name = name
        self.tz = tz
        self.table: Any = None
        self._years: dict[int, tuple[list[int], list[Segment]]] = {}

    def segment_at(self, instant_us: int) -> Segment:
        """Give the segment that holds an instant from the start of 1969 to the end of 9999."""
        starts, segments = self._year(_year_of(instant_us))
        return segments[bisect_right(starts, instant_us) - 1]

    def segments_of_year(self, year: int) -> list[Segment]:
        """Give the segments that cover a UTC year, 1969 to 9999, in order."""
        return self._year(year)[1]

    def _year(self, year: int) -> tuple[list[int], list[Segment]]:
        known = self._years.get(year)
        if known is None:
            segments = _segments_of_year(self.tz, year)
            known = ([segment.start_us for segment in segments], segments)
            if len(self._years) >= _YEARS_KEPT_MAX:
                self._years.clear()
            self._years[year] = known
        return known


@functools.cache
def tzdata_version() -> str:
    """Give the release of the IANA data that this process computes by, for instance `2026f`.

    Read once: a package that is replaced under a running process counts from its next start.
    """
    with _zone_data("zoneinfo", "tzdata.zi").open("rb") as file:
        head = file.readline(_HEAD_BYTES_MAX).decode("ascii", "replace")
    return head.removeprefix("# version").strip()


def is_older_version(one: str, other: str) -> bool:
    """Whether a release of the IANA data came before another; unknown names come before all."""
    return _release(one) < _release(other)


@functools.cache
def zone_names() -> frozenset[str]:
    """Give every name that a job may use: the Zone and Link names of tzdata.

    Names that only exist as files of some operating systems (`localtime`, `posixrules`,
    `right/UTC`) and folders (`America`) are not among them.
    """
    return frozenset(_zone_data("zones").read_text("ascii").split())


def load_zone(name: str) -> Zone:
    """Give the zone of that name.

    Raises
    ------
    InvalidSchedule
        No such IANA name; the hint has the nearest ones.  Offsets such as `UTC+9` are refused:
        POSIX and common usage read their sign in opposite ways.
    """
    if name not in zone_names():
        raise _unknown_zone(name)
    return _load(name)


@functools.cache
def _load(name: str) -> Zone:
    with _zone_data("zoneinfo", *name.split("/")).open("rb") as file:
        return Zone(name, ZoneInfo.from_file(file, key=name))


def _zone_data(*path: str) -> importlib.resources.abc.Traversable:
    return importlib.resources.files("tzdata").joinpath(*path)


def _release(version: str) -> tuple[int, str]:
    """Give what releases are ordered by: the year, then a to z, with za after z."""
    found = _RELEASE.fullmatch(version)
    return (int(found[1]), found[2]) if found else (0, "")


def _unknown_zone(name: str) -> InvalidSchedule:
    if len(name) > ZONE_NAME_LENGTH_MAX:
        return InvalidSchedule(
            f"time zone name has {len(name)} characters",
            pointer=_POINTER,
            hint="Use an IANA name, for instance Europe/Berlin.",
        )
    message = f"unknown time zone {name!a}"
    if _OFFSET_LIKE.fullmatch(name):
        hint = "An offset is not a zone: use an IANA name, for instance Asia/Tokyo, or UTC."
    elif near := _nearest_names(name):
        hint = f"Did you mean {' or '.join(near)}?"
    else:
        hint = "Use an IANA name, for instance Europe/Berlin, or UTC."
    return InvalidSchedule(message, pointer=_POINTER, hint=hint)


def _nearest_names(name: str) -> list[str]:
    """Give up to three names that look like `name`, the best first.

    What is compared is the last part (`new york`), within the region if `name` has a known one:
    short texts, and few, which keeps a refusal well under 5 ms.
    """
    wanted = name.strip().replace(" ", "_").lower()
    if not wanted.isascii():
        return []
    if exact := _names_by_key()[""].get(wanted):
        return [exact]
    region, _, place = wanted.rpartition("/")
    region = region.partition("/")[0]
    places = _names_by_key().get(region or "/")
    if not places or not place:
        return []
    if place in places:
        return [places[place]]
    return [places[key] for key in difflib.get_close_matches(place, places, n=3, cutoff=0.7)]


@functools.cache
def _names_by_key() -> dict[str, dict[str, str]]:
    """Map region to last part to name, lower case; "" to whole names and "/" to all last parts.

    Where several names share a last part, one without a region (`UTC`) and then the first of the
    alphabet stands for it.
    """
    known: dict[str, dict[str, str]] = {"": {}, "/": {}}
    for name in sorted(zone_names(), key=lambda each: ("/" in each, each), reverse=True):
        lowered = name.lower()
        region, place = lowered.partition("/")[0], lowered.rpartition("/")[2]
        known[""][lowered] = name
        known["/"][place] = name
        known.setdefault(region, {})[place] = name
    return known


def _year_of(instant_us: int) -> int:
    return datetime.fromtimestamp(instant_us // US_PER_S, UTC).year


def _segments_of_year(tz: ZoneInfo, year: int) -> list[Segment]:
    """Cut one UTC year, 1969 to 9999, into segments."""
    start_s = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    end_s = start_s + (366 if calendar.isleap(year) else 365) * _DAY_S
    cuts: list[tuple[int, int]] = [(start_s, _offset_s(tz, start_s))]
    # The last second of 9999 cannot be shown ahead of UTC; no rule changes offsets on that day.
    last_probe_s = end_s if year < 9999 else end_s - _DAY_S
    for probe_s in range(start_s + _DAY_S, last_probe_s + 1, _DAY_S):
        offset_s = _offset_s(tz, probe_s)
        if offset_s != cuts[-1][1]:
            cuts.append((_change_between(tz, probe_s - _DAY_S, probe_s), offset_s))
    if cuts[-1][0] == end_s:
        cuts.pop()
    bounds = [cut[0] for cut in cuts[1:]] + [end_s]
    return [
        Segment(cut_s * US_PER_S, bound_s * US_PER_S, offset_s * US_PER_S)
        for (cut_s, offset_s), bound_s in zip(cuts, bounds, strict=True)
    ]


def _change_between(tz: ZoneInfo, before_s: int, after_s: int) -> int:
    """Give the first second in (before_s, after_s] at which the later offset holds."""
    offset_s = _offset_s(tz, after_s)
    while after_s - before_s > 1:
        middle_s = (before_s + after_s) // 2
        if _offset_s(tz, middle_s) == offset_s:
            after_s = middle_s
        else:
            before_s = middle_s
    return after_s


def _offset_s(tz: ZoneInfo, instant_s: int) -> int:
    offset = datetime.fromtimestamp(instant_s, tz).utcoffset()
    assert offset is not None
    return offset.days * _DAY_S + offset.seconds
