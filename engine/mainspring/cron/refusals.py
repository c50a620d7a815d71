"""What each field of a cron expression may hold, and how a refusal of its text reads.

Every refusal says what is wrong, in which column, counted from 1, and what to write instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mainspring.errors import InvalidSchedule

POINTER: Final = "/schedule"

_SHOWN_MAX: Final = 40
_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
_WEEKDAYS: Final = "sun mon tue wed thu fri sat".split()  # noqa: SIM905


class Rule(NamedTuple):
    """What one field may hold.

    `high` is the largest number that may be written, `value_count` how many values there are: for
    weekdays 7 and 7, since 0 and 7 are both Sunday.
    """

    name: str
    low: int
    high: int
    value_count: int
    unit: str
    hint: str
    names: dict[str, int]


class Place(NamedTuple):
    """Where in which expression something was found; `column` counts from 1."""

    rule: Rule
    expression: str
    column: int

    def refusal(self, what: str, hint: str) -> InvalidSchedule:
        """Give the error that says so."""
        return refusal(f"bad {self.rule.name}", self.expression, self.column, what, hint)


RULES: Final = (
    Rule("minute", 0, 59, 60, "m", "Minutes run from 0 to 59.", {}),
    Rule("hour", 0, 23, 24, "h", "Hours run from 0 to 23; midnight is 0.", {}),
    Rule("day of month", 1, 31, 31, "d", "Days of the month run from 1 to 31.", {}),
    Rule(
        "month",
        1,
        12,
        12,
        "",
        "Months run from 1 to 12, or jan to dec.",
        {name: number for number, name in enumerate(_MONTHS, 1)},
    ),
    Rule(
        "day of week",
        0,
        7,
        7,
        "",
        "Days of the week run from 0 to 7, Sunday being 0 and 7, or sun to sat.",
        {name: number for number, name in enumerate(_WEEKDAYS)},
    ),
)


def refusal(kind: str, text: str, column: int, what: str, hint: str) -> InvalidSchedule:
    """Give an InvalidSchedule in the form every refusal of a schedule's text has."""
    return InvalidSchedule(
        f"{kind} in schedule {shown(text)} at column {column}: {what}", pointer=POINTER, hint=hint
    )


def shown(text: str) -> str:
    """Quote foreign text for a message: ASCII, one line, cut."""
    return ascii(text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "...")
