"""Instants as text, as datetimes and as microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import InvalidInput
from mainspring.instants import (
    INFINITY_US,
    INSTANT_MAX_US,
    format_instant,
    from_datetime,
    parse_instant,
    to_datetime,
)


@pytest.mark.parametrize(
    ("instant_us", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_780_923_600_000_000, "2026-06-08T13:00:00Z"),
        (1_780_923_600_500_000, "2026-06-08T13:00:00.500000Z"),
        (1_780_923_600_000_001, "2026-06-08T13:00:00.000001Z"),
        (INSTANT_MAX_US, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_instant_is_written_in_utc(instant_us: int, text: str) -> None:
    """Fraction digits only where they are not zero."""
    assert text == format_instant(instant_us)
    assert instant_us == parse_instant(text)


@settings(deadline=None)
@given(instant_us=st.integers(0, INSTANT_MAX_US))
def test_text_and_datetime_give_the_instant_back(instant_us: int) -> None:
    """To the microsecond, up to the last one of 9999."""
    assert instant_us == parse_instant(format_instant(instant_us))
    assert instant_us == from_datetime(to_datetime(instant_us))


@pytest.mark.parametrize("instant_us", [-1, INSTANT_MAX_US + 1, INFINITY_US])
def test_instants_outside_1970_to_9999_are_not_written(instant_us: int) -> None:
    """Infinity is the caller's to show."""
    with pytest.raises(ValueError, match=r"1970\.\.9999"):
        format_instant(instant_us)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-06-08T15:00:00+02:00", "2026-06-08T13:00:00Z"),
        ("2026-06-08T07:30-0530", "2026-06-08T13:00:00Z"),
        ("2026-06-08 13:00z", "2026-06-08T13:00:00Z"),
        ("2026-06-08t13:00:00,25Z", "2026-06-08T13:00:00.250000Z"),
        ("1969-12-31T23:00:00-01:00", "1970-01-01T00:00:00Z"),
    ],
)
def test_offsets_are_taken_into_account(text: str, expected: str) -> None:
    """RFC 3339 in any of its spellings."""
    assert expected == format_instant(parse_instant(text))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2026-06-08T13:00:00", "Add Z"),
        ("2026-02-30T00:00:00Z", "that exist"),
        ("2026-06-30T23:59:60Z", "leap seconds"),
        ("2026-06-08T24:00:00Z", "following day"),
        ("2026-06-08T13:00:00+24:00", "-23:59"),
        ("2026-06-08T13:00:00+02:60", "-23:59"),
        ("2026-06-08", "Write it as"),
        ("", "Write it as"),
        ("2026-06-08T13:00:00Z\n", "Write it as"),
        (" 2026-06-08T13:00:00Z", "Write it as"),
        ("\u0662026-06-08T13:00:00Z", "Write it as"),
        ("2026-06-08T13:00:00Z" + " " * 100_000, "Write it as"),
        ("2026-06-08T13:00:00.0000000Z", "six digits"),
        ("1969-12-31T23:59:59Z", "1970"),
        ("9999-12-31T23:59:59-00:01", "1970"),
        ("0000-01-01T00:00:00Z", "that exist"),
    ],
    ids=lambda part: ascii(part)[:40],
)
def test_bad_instant_is_refused(text: str, hint: str) -> None:
    """With a hint, whatever is wrong."""
    with pytest.raises(InvalidInput) as caught:
        parse_instant(text)

    assert hint in str(caught.value.hint)
    assert len(caught.value.message) < 120


@settings(deadline=None)
@given(text=st.text(st.sampled_from("0123456789-:.TZ+ \u0660\ud800"), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but InvalidInput, and what is read is in range."""
    try:
        instant_us = parse_instant(text)
    except InvalidInput:
        return
    assert 0 <= instant_us <= INSTANT_MAX_US


def test_datetimes_of_any_zone_are_instants_and_naive_ones_are_not() -> None:
    """A wall clock time is refused."""
    tokyo = timezone(timedelta(hours=9))
    assert from_datetime(datetime(1970, 1, 1, 9, tzinfo=tokyo)) == 0
    assert to_datetime(1_500_000) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    with pytest.raises(ValueError, match="no zone"):
        from_datetime(datetime(1970, 1, 1))  # noqa: DTZ001
