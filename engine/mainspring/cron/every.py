"""Durations of `@every`: ISO 8601, as in `PT10S`, or short, as in `1h30m`.

Months and years have no fixed length and are refused; a week is 7 days and a day is 86,400
seconds, since `@every` counts real time and knows no zone.
"""

from __future__ import annotations

import re
from typing import Final

from mainspring.cron.refusals import refusal, shown
from mainspring.errors import InvalidSchedule
from mainspring.instants import US_PER_DAY, US_PER_MIN, US_PER_S

PERIOD_MIN_US: Final = US_PER_S
PERIOD_MAX_US: Final = 3653 * US_PER_DAY
"""Ten years, with the most leap days they can have."""

_NUMBER: Final = "([0-9]{1,12})"
_ISO: Final = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,]([0-9]{{1,6}}))?S)?)?"
)
_SHORT: Final = re.compile(
    rf"(?:{_NUMBER}w)?(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?"
)
_CALENDAR: Final = re.compile(r"P[0-9.,]*[0-9]+[YM].*")
_UNITS_US: Final = (7 * US_PER_DAY, US_PER_DAY, 60 * US_PER_MIN, US_PER_MIN, US_PER_S)
_EXAMPLES: Final = "Write it as 10s, 5m, 1h30m or 2d, or in ISO 8601 as PT10S or P1DT12H."


def parse_period(duration: str, text: str, column: int) -> int:
    """Read the duration of an `@every`.

    Parameters
    ----------
    duration
        The word after `@every`.
    text, column
        The whole schedule and where the word stands in it, from 1; for messages.

    Returns
    -------
    int
        Microseconds, `PERIOD_MIN_US` to `PERIOD_MAX_US`.

    Raises
    ------
    InvalidSchedule
        Not a duration, months or years, shorter than a second, longer than ten years.
    """
    period_us = _read(duration, text, column)
    if period_us < PERIOD_MIN_US:
        raise _refuse(text, column, f"{shown(duration)} is under a second", "Write 1s or more.")
    if period_us > PERIOD_MAX_US:
        raise _refuse(
            text, column, f"{shown(duration)} is over ten years", "Write at most 3653d, or a cron."
        )
    return period_us


def _read(duration: str, text: str, column: int) -> int:
    if _CALENDAR.fullmatch(duration):
        raise _refuse(
            text,
            column,
            f"{shown(duration)} has months or years, whose length varies",
            "Write days, as in P30D, or a cron expression such as @monthly.",
        )
    found = _ISO.fullmatch(duration) or _SHORT.fullmatch(duration)
    if found is None or duration.endswith("T") or not any(found.groups()):
        raise _refuse(text, column, f"{shown(duration)} is not a duration", _EXAMPLES)
    parts = found.groups()
    period_us = sum(
        int(part or 0) * unit_us for part, unit_us in zip(parts[:5], _UNITS_US, strict=True)
    )
    fraction = parts[5] if len(parts) > 5 else None
    return period_us + int((fraction or "0").ljust(6, "0"))


def _refuse(text: str, column: int, what: str, hint: str) -> InvalidSchedule:
    return refusal("bad period", text, column, what, hint)
