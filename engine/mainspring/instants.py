"""Conversions between int64 microseconds since the Unix epoch and ISO 8601 text.

An instant here is a plain `int`, so that it goes through NumPy arrays, Postgres' binary format and
frames unchanged.  All arithmetic is on integers: a float holds whole microseconds only up to the
year 2255.  Instants run from 1970-01-01T00:00:00Z to the end of the year 9999, which is what
`datetime` can show; `INFINITY_US` lies outside and is never formatted.

Source: RFC 3339, section 5.6 (the profile of ISO 8601 that is read and written).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from mainspring.errors import InvalidInput

US_PER_S: Final = 1_000_000
US_PER_MIN: Final = 60 * US_PER_S
US_PER_DAY: Final = 86_400 * US_PER_S

INFINITY_US: Final = 2**63 - 1
"""Postgres' timestamp 'infinity': parked, no next occurrence."""

MINUS_INFINITY_US: Final = -(2**63)
"""Postgres' timestamp '-infinity': it did not happen."""

INSTANT_MAX_US: Final = 253_402_300_800 * US_PER_S - 1
"""9999-12-31T23:59:59.999999Z."""

INSTANT_TEXT_MAX: Final = 64
"""Longest text that is looked at; the longest well-formed one has 32 characters."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WALL: Final = datetime(1970, 1, 1)  # noqa: DTZ001  wall clock times carry no zone
_US: Final = timedelta(microseconds=1)

_SHAPE: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
    r"(?:([Zz])|([+-])([0-9]{2}):?([0-9]{2}))?"
)
_EXAMPLE: Final = "Write it as 2026-06-08T13:00:00Z"


def format_instant(instant_us: int) -> str:
    """Write an instant as `2026-06-08T13:00:00Z`, with six fraction digits only if not zero.

    Raises
    ------
    ValueError
        If the instant lies outside 1970..9999; callers write INFINITY_US as null themselves.
    """
    text = to_datetime(instant_us).replace(tzinfo=None).isoformat()
    return f"{text}Z"


def parse_instant(text: str) -> int:
    """Read an ISO 8601 instant that names its offset.

    Returns
    -------
    int
        Microseconds since the epoch, 0 to `INSTANT_MAX_US`.

    Raises
    ------
    InvalidInput
        Not an instant, a date that does not exist, no offset, or outside 1970..9999.
    """
    wall_us, offset_us = parse_wall(text)
    if offset_us is None:
        msg = f"instant {_shown(text)} has no offset"
        raise InvalidInput(msg, hint="Add Z for UTC, or an offset as in +02:00.")
    return check_range(wall_us - offset_us, text)


def parse_wall(text: str) -> tuple[int, int | None]:
    """Read an ISO 8601 date and time, with or without an offset.

    Returns
    -------
    wall_us
        What the wall clock reads, as microseconds since 1970-01-01T00:00 on that same clock.
    offset_us
        Microseconds that clock is ahead of UTC; None if the text names no offset.

    Raises
    ------
    InvalidInput
        Not a date and time, or one that does not exist.
    """
    found = _SHAPE.fullmatch(text) if len(text) <= INSTANT_TEXT_MAX else None
    if found is None:
        msg = f"bad instant {_shown(text)}: not a date and time in ISO 8601"
        raise InvalidInput(msg, hint=f"{_EXAMPLE}, with Z, an offset as in +02:00, or neither.")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = found[7] or ""
    if len(fraction) > 6:
        msg = f"bad instant {_shown(text)}: {len(fraction)} digits of a second"
        raise InvalidInput(msg, hint="Write at most six digits; microseconds are the finest unit.")
    if second == 60:
        msg = f"bad instant {_shown(text)}: second 60 is a leap second"
        raise InvalidInput(msg, hint="Unix time has no leap seconds; write second 59.")
    if hour == 24:
        msg = f"bad instant {_shown(text)}: hour 24"
        raise InvalidInput(msg, hint="Write midnight as 00:00 of the following day.")
    try:
        wall = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001
    except ValueError as error:
        msg = f"bad instant {_shown(text)}: {str(error).split(',')[0]}"
        raise InvalidInput(msg, hint="Write a date and a time that exist.") from None
    wall_us = (wall - _EPOCH_WALL) // _US + int(fraction.ljust(6, "0"))
    if found[8]:
        return wall_us, 0
    if not found[9]:
        return wall_us, None
    offset_hours, offset_minutes = int(found[10]), int(found[11])
    if offset_hours > 23 or offset_minutes > 59:
        msg = f"bad instant {_shown(text)}: offset {found[9]}{found[10]}:{found[11]}"
        raise InvalidInput(msg, hint="Write an offset from -23:59 to +23:59, or Z.")
    offset_us = (offset_hours * 60 + offset_minutes) * US_PER_MIN
    return wall_us, offset_us if found[9] == "+" else -offset_us


def check_range(instant_us: int, text: str) -> int:
    """Return the instant if it lies in 1970..9999, else raise InvalidInput that shows `text`."""
    if not 0 <= instant_us <= INSTANT_MAX_US:
        msg = f"instant {_shown(text)} is not in 1970..9999"
        raise InvalidInput(msg, hint="Write an instant from 1970-01-01T00:00:00Z to year 9999.")
    return instant_us


def to_datetime(instant_us: int) -> datetime:
    """Give the instant as an aware datetime in UTC.

    Raises
    ------
    ValueError
        If the instant lies outside 1970..9999.
    """
    if not 0 <= instant_us <= INSTANT_MAX_US:
        msg = f"instant {instant_us} us is not in 1970..9999"
        raise ValueError(msg)
    return _EPOCH + timedelta(microseconds=instant_us)


def from_datetime(instant: datetime) -> int:
    """Give microseconds since the epoch of an aware datetime.

    Raises
    ------
    ValueError
        If it carries no zone: a wall clock time is not an instant.
    """
    if instant.tzinfo is None:
        msg = f"datetime {instant.isoformat()} carries no zone"
        raise ValueError(msg)
    return (instant - _EPOCH) // _US


def _shown(text: str) -> str:
    """Quote foreign text for a message: ASCII, one line, cut."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")
