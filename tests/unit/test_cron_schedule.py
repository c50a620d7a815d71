"""Periods of `@every` and one-off instants."""

from __future__ import annotations

import pytest

from mainspring.cron import Schedule, ScheduleKind, next_occurrence_us, parse_schedule
from mainspring.errors import InvalidSchedule
from mainspring.instants import US_PER_S, format_instant, parse_instant

ANCHOR_US = parse_instant("2026-06-08T13:00:00.250001Z")


def parse(text: str, zone: str = "UTC") -> Schedule:
    return parse_schedule(text, zone, anchor_us=ANCHOR_US)


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("10s", 10), ("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("1w", 604_800),
        ("1w2d3h4m5s", 788_645), ("90m", 5400), ("PT10S", 10), ("PT90M", 5400), ("P1D", 86_400),
        ("P1DT12H", 129_600), ("P2W", 1_209_600), ("PT1H30M5S", 5405), ("1s", 1),
        ("3653d", 315_619_200),
    ],
)  # fmt: skip
def test_period_is_read(duration: str, seconds: int) -> None:
    """Both forms of a duration give seconds of real time."""
    schedule = parse(f"@every {duration}")

    assert schedule.kind is ScheduleKind.EVERY
    assert schedule.period_us == seconds * US_PER_S


def test_period_may_have_a_fraction_in_iso_8601() -> None:
    """Down to the microsecond."""
    assert parse("@every PT1.5S").period_us == 1_500_000
    assert parse("@every PT2,000001S").period_us == 2_000_001


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@every", "without blanks"),
        ("@every 5 m", "without blanks"),
        ("@every P1M", "P30D"),
        ("@every P1Y", "P30D"),
        ("@every P1Y2M3D", "P30D"),
        ("@every P", "Write it as"),
        ("@every PT", "Write it as"),
        ("@every P1DT", "Write it as"),
        ("@every 10", "Write it as"),
        ("@every 1m1h", "Write it as"),
        ("@every 1m1m", "Write it as"),
        ("@every 10S", "Write it as"),
        ("@every -10s", "Write it as"),
        ("@every 500ms", "Write it as"),
        ("@every 1.5h", "Write it as"),
        ("@every 0s", "1s or more"),
        ("@every PT0.999999S", "1s or more"),
        ("@every 3653d1s", "3653d"),
        ("@every 999999999999w", "3653d"),
        ("@every 9999999999999s", "Write it as"),
    ],
)
def test_bad_period_is_refused(text: str, hint: str) -> None:
    """Months and years, blanks, wrong order, fractions of other units, and out of bounds."""
    with pytest.raises(InvalidSchedule) as caught:
        parse(text)

    assert hint in str(caught.value.hint)
    assert "at column" in caught.value.message


def test_every_counts_from_its_anchor_without_drift() -> None:
    """The n-th occurrence is anchor + n * period, the anchor itself is none."""
    schedule = parse("@every PT1.1S")
    at_us, found = ANCHOR_US - 10**15, []
    for _ in range(1000):
        next_us = next_occurrence_us(schedule, at_us)
        assert next_us is not None
        found.append(next_us)
        at_us = next_us

    assert found == [ANCHOR_US + n * 1_100_000 for n in range(1, 1001)]
    assert next_occurrence_us(schedule, found[0] - 1) == found[0]


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-06-08T13:00:00Z", "America/New_York", "2026-06-08T13:00:00Z"),
        ("2026-06-08T09:00", "America/New_York", "2026-06-08T13:00:00Z"),
        ("2026-06-08 09:00", "America/New_York", "2026-06-08T13:00:00Z"),
        ("  2026-06-08t09:00:30.5 ", "America/New_York", "2026-06-08T13:00:30.500000Z"),
        ("2026-06-08T15:00+0200", "UTC", "2026-06-08T13:00:00Z"),
        ("2026-03-08T02:30", "America/New_York", "2026-03-08T07:00:00Z"),
        ("2026-11-01T01:30", "America/New_York", "2026-11-01T05:30:00Z"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00:00Z"),
        ("1969-12-31T19:00", "America/New_York", "1970-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "UTC", "9999-12-31T23:59:59Z"),
        ("9999-12-31T23:59:59Z", "America/New_York", "9999-12-31T23:59:59Z"),
        ("9999-12-31T23:59:59", "Asia/Tokyo", "9999-12-31T14:59:59Z"),
    ],
)
def test_one_off_is_an_instant_or_local_time(text: str, zone: str, expected: str) -> None:
    """With an offset it is taken as it is, without one the zone's clock decides."""
    schedule = parse(text, zone)

    assert schedule.kind is ScheduleKind.ONCE
    assert expected == format_instant(schedule.at_us)
    assert schedule.at_us == next_occurrence_us(schedule, schedule.at_us - 1)
    assert next_occurrence_us(schedule, schedule.at_us) is None


@pytest.mark.parametrize(
    ("text", "zone", "hint"),
    [
        ("2026-02-30T00:00", "UTC", "that exist"),
        ("2026-13-01T00:00Z", "UTC", "that exist"),
        ("2026-06-08T25:00Z", "UTC", "that exist"),
        ("2026-06-08T24:00Z", "UTC", "following day"),
        ("2026-06-30T23:59:60Z", "UTC", "leap seconds"),
        ("2026-06-08", "UTC", "2026-06-08T09:00"),
        ("2026-06-08T09:00 Z", "UTC", "Write it as"),
        ("2026-W24-1", "UTC", "Write it as"),
        ("20260608T090000Z", "UTC", "Write it as"),
        ("2026-06-08T09:00+24:00", "UTC", "-23:59"),
        ("2026-06-08T09:00:00.1234567Z", "UTC", "six digits"),
        ("1969-12-31T23:59:59Z", "UTC", "1970"),
        ("1970-01-01T00:00", "Asia/Tokyo", "1970"),
        ("0001-01-01T00:00", "UTC", "1970"),
        ("10000-01-01T00:00Z", "UTC", "Write it as"),
        ("9999-12-31T23:59:59-01:00", "UTC", "1970"),
        ("9999-12-31T23:59:59", "America/New_York", "1970"),
        ("9999-12-31T23:59:59Z", "Asia/Tokyo", "1970"),
    ],
)
def test_bad_one_off_is_refused(text: str, zone: str, hint: str) -> None:
    """Dates that do not exist, leap seconds, dates alone, other ISO forms, out of range."""
    with pytest.raises(InvalidSchedule) as caught:
        parse(text, zone)

    assert hint in str(caught.value.hint)
    assert caught.value.pointer == "/schedule"
