"""Zone names and segments of constant offset."""

from __future__ import annotations

import importlib.resources
import itertools
import struct
import time
import zoneinfo

import pytest

from mainspring.cron.zone import load_zone, zone_names
from mainspring.errors import InvalidSchedule
from mainspring.instants import INSTANT_MAX_US, US_PER_DAY, US_PER_S, parse_instant


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("UTC+9", "An offset is not a zone"),
        ("+09:00", "An offset is not a zone"),
        ("GMT-3", "An offset is not a zone"),
        ("utc", "Did you mean UTC?"),
        ("america/new_york", "Did you mean America/New_York?"),
        ("America/New_Yrok", "Did you mean America/New_York?"),
        ("New York", "Did you mean America/New_York?"),
        ("Berlin", "Did you mean Europe/Berlin?"),
        ("localtime", "Use an IANA name"),
        ("posixrules", "Use an IANA name"),
        ("America", "America/"),
        ("", "Use an IANA name"),
        ("../../etc/passwd", "Use an IANA name"),
        ("/usr/share/zoneinfo/UTC", "Did you mean UTC?"),
        ("right/UTC", "Use an IANA name"),
        ("UTC\x00", "Did you mean UTC?"),
        ("\ud800", "Use an IANA name"),
        ("UTC ", "Did you mean UTC?"),
        ("x" * 100_000, "Use an IANA name"),
    ],
    ids=lambda part: ascii(part)[:30],
)
def test_unknown_zone_is_refused_with_the_nearest_names(name: str, hint: str) -> None:
    """Only exact IANA names are taken; a refusal says what to write and is quick."""
    zone_names()
    begin = time.thread_time()
    with pytest.raises(InvalidSchedule) as caught:
        load_zone(name)

    assert time.thread_time() - begin < 0.5  # 2 ms usually
    assert hint in str(caught.value.hint)
    assert caught.value.pointer == "/timezone"
    assert caught.value.message.isascii()


def test_loading_leaves_zoneinfo_of_the_host_program_alone() -> None:
    """Neither its search path nor its cache changes, and its objects are not ours."""
    path = zoneinfo.TZPATH

    assert load_zone("Europe/Berlin").tz is not zoneinfo.ZoneInfo("Europe/Berlin")
    assert path == zoneinfo.TZPATH


def test_one_zone_object_per_name() -> None:
    """Segments are found once and shared."""
    assert load_zone("Europe/Berlin") is load_zone("Europe/Berlin")


def test_segments_of_new_york_in_2026() -> None:
    """They end at the changes and at year boundaries."""
    zone = load_zone("America/New_York")
    segment = zone.segment_at(parse_instant("2026-06-08T13:00:00Z"))

    assert segment.start_us == parse_instant("2026-03-08T07:00:00Z")
    assert segment.end_us == parse_instant("2026-11-01T06:00:00Z")
    assert segment.offset_us == -4 * 3600 * US_PER_S
    assert zone.segment_at(segment.end_us).end_us == parse_instant("2027-01-01T00:00:00Z")
    assert zone.segment_at(segment.start_us - 1).start_us == parse_instant("2026-01-01T00:00:00Z")


@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "America/New_York", "UTC"])
def test_segments_cover_the_ends_of_time(name: str) -> None:
    """From 1969 to the end of 9999 each instant has a segment that holds it."""
    zone = load_zone(name)
    for instant_us in (-US_PER_DAY, 0, INSTANT_MAX_US - US_PER_DAY, INSTANT_MAX_US):
        segment = zone.segment_at(instant_us)
        assert segment.start_us <= instant_us < segment.end_us


def explicit_changes(name: str) -> list[tuple[int, int, int]]:
    """Changes of offset listed in a TZif file, as (second, before, after)."""
    raw = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    counts = struct.unpack(">6l", raw[20:44])
    utc, std, leap, times, types, chars = counts
    start = 44 + times * 5 + types * 6 + chars + leap * 8 + std + utc
    _, _, _, times, types, _ = struct.unpack(">6l", raw[start + 20 : start + 44])
    body = start + 44
    seconds = struct.unpack(f">{times}q", raw[body : body + 8 * times])
    indexes = raw[body + 8 * times : body + 9 * times]
    first = body + 9 * times
    offsets = [struct.unpack(">l", raw[first + 6 * i : first + 6 * i + 4])[0] for i in range(types)]
    changes, before = [], offsets[0]
    for second, index in zip(seconds, indexes, strict=True):
        if offsets[index] != before:
            changes.append((second, before, offsets[index]))
            before = offsets[index]
    return changes


def test_no_two_changes_since_1970_are_within_a_day_of_each_other() -> None:
    """What finding segments by daily questions rests on; and none sets back by a day."""
    for name in sorted(zone_names()):
        changes = [change for change in explicit_changes(name) if change[0] > -86_400]
        for (one, _, _), (two, _, _) in itertools.pairwise(changes):
            assert two - one > 2 * 86_400, name
        assert all(after - before > -86_400 for _, before, after in changes), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["America/New_York", "Africa/Casablanca", "Pacific/Apia", "Africa/Monrovia",
             "Australia/Lord_Howe", "Asia/Gaza", "America/Nuuk"],
)  # fmt: skip
def test_segments_change_exactly_where_the_file_says(name: str) -> None:
    """From 1970 to the last one it lists, the inner bounds are the file's own changes."""
    zone = load_zone(name)
    expected = [change for change in explicit_changes(name) if change[0] > 0]
    end_us = expected[-1][0] * US_PER_S + 1
    actual = []
    segment = zone.segment_at(0)
    while segment.end_us < end_us:
        following = zone.segment_at(segment.end_us)
        if following.offset_us != segment.offset_us:
            actual.append(
                (
                    following.start_us // US_PER_S,
                    segment.offset_us // US_PER_S,
                    following.offset_us // US_PER_S,
                )
            )
        segment = following

    assert expected == actual
