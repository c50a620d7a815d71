"""The text of a five-field cron expression, read strictly.

Everything is bounded before anything is expanded: the text by `SCHEDULE_LENGTH_MAX`, a number by
its digits, a field by its items.  Numbers are ASCII digits, blanks are space and tab, names of
months and weekdays are read in any case.  Each refusal names the column, counted from 1, and says
what to write instead.

What is refused although other programs take it, and why:

- a reversed range (`22-2`): some swap it, some wrap it, some never fire it.  A range of weekdays
  may end in Sunday, written 0, 7 or `sun`;
- a step larger than the field (`*/90`): it would not do what it says;
- `5/15`: Quartz and croniter read `5-59/15`, Vixie's cron reads `5`;
- six or seven fields: libraries disagree on where the seconds stand;
- `R` and `?`, and for now `L W # H`.

The result is canonical text of numbers only, and per field whether it began with `*`, which two
rules of the engine depend on and no set of values can tell.

Source: crontab(5) of Vixie cron as shipped by Debian.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mainspring.errors import InvalidSchedule

SCHEDULE_LENGTH_MAX: Final = 256
"""Real expressions have under 40 characters; a 57 KB one keeps croniter busy for 0.1 s."""

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

POINTER: Final = "/schedule"

_NUMBER_DIGITS_MAX: Final = 4
_SHOWN_MAX: Final = 40
_SUNDAYS: Final = (0, 7)
_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
_WEEKDAYS: Final = "sun mon tue wed thu fri sat".split()  # noqa: SIM905

_FIELD: Final = re.compile(r"[^ \t]+")
_ITEM: Final = re.compile(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9]+))?")
_EXTENSION: Final = re.compile(
    r".*#.*|h(?:\([0-9-]*\))?(?:/[0-9]+)?|l[w0-9-]*|[0-9]*w|[0-9]+l|[a-z]{3}l", re.IGNORECASE
)


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


class Field(NamedTuple):
    """One field after checking: numbers only, Sunday at the end of a range as 7."""

    text: str
    starts_with_star: bool


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


def check_text(text: str) -> str:
    """Check length and characters of any schedule, and take off blanks at its end.

    Returns
    -------
    str
        The text up to its last character that is no blank; never empty.  Blanks in front stay,
        so that columns are those of the text as given.

    Raises
    ------
    InvalidSchedule
        Empty, too long, or a character that is not printable ASCII, space or tab.
    """
    if len(text) > SCHEDULE_LENGTH_MAX:
        raise InvalidSchedule(
            f"schedule has {len(text)} characters",
            pointer=POINTER,
            hint=f"Write at most {SCHEDULE_LENGTH_MAX} characters.",
        )
    for column, character in enumerate(text, 1):
        if not (" " <= character <= "~" or character == "\t"):
            raise refusal(
                "bad character",
                text,
                column,
                f"U+{ord(character):04X} is not printable ASCII",
                "Write plain digits, letters and signs, and separate fields by spaces or tabs.",
            )
    stripped = text.rstrip(" \t")
    if not stripped:
        raise InvalidSchedule(
            "schedule is empty",
            pointer=POINTER,
            hint="Write five fields as in '0 9 * * 1', '@every 10s', or an instant.",
        )
    return stripped


def parse_fields(text: str) -> tuple[Field, Field, Field, Field, Field]:
    """Read a cron expression that `check_text` has passed.

    Returns
    -------
    tuple of five Field
        Minute, hour, day of month, month, day of week.

    Raises
    ------
    InvalidSchedule
        Anything that crontab(5) does not define, or that is listed in the module's docstring.
    """
    parts = list(_FIELD.finditer(text))
    if len(parts) != len(RULES):
        raise _wrong_count(text, [part.start() + 1 for part in parts])
    fields = tuple(
        _parse_field(part[0], Place(rule, text, part.start() + 1))
        for part, rule in zip(parts, RULES, strict=True)
    )
    minute, hour, day, month, weekday = fields
    return minute, hour, day, month, weekday


def _wrong_count(text: str, columns: list[int]) -> InvalidSchedule:
    names = ", ".join(rule.name for rule in RULES)
    if text.lstrip(" \t").upper().startswith(("TZ=", "CRON_TZ=")):
        hint = "Give the zone in the field timezone, not in the schedule."
    elif len(columns) > len(RULES):
        hint = (
            f"Write five fields ({names}); there are none for seconds and years.  "
            "For periods under a minute write @every 10s."
        )
    else:
        hint = f"Write five fields ({names}), as in '0 9 * * 1' for Mondays at nine."
    column = columns[len(RULES)] if len(columns) > len(RULES) else len(text) + 1
    found = f"{len(columns)} field{'s' if len(columns) != 1 else ''} instead of five"
    return refusal("wrong number of fields", text, column, found, hint)


def _parse_field(field: str, place: Place) -> Field:
    items: list[str] = []
    column = place.column
    for item in field.split(","):
        items.append(_parse_item(item, place._replace(column=column)))
        column += len(item) + 1
    return Field(",".join(items), field.startswith("*"))


def _parse_item(item: str, place: Place) -> str:
    """Check one item of a list and give it in numbers."""
    rule = place.rule
    if _EXTENSION.fullmatch(item):
        raise place.refusal(
            f"{shown(item)} is an extension",
            "L, W, # and H are not supported yet; list the days, as in 1-7 or 5.",
        )
    found = _ITEM.fullmatch(item)
    if found is None or (found[1] == "*" and found[2] is not None):
        raise _unreadable(item, place)
    step = _parse_step(found[3], place._replace(column=place.column + found.start(3)))
    suffix = f"/{step}" if step > 1 else ""
    if found[1] == "*":
        return f"*{suffix}"
    first = _parse_value(found[1], place)
    if found[2] is None:
        if found[3] is not None:
            top = rule.low + rule.value_count - 1
            raise place.refusal(
                f"{shown(item)} has a step but no range",
                f"Write {first}-{top}/{step} to count from {first}, or {first} alone.",
            )
        return str(_sunday_as_zero(first, rule))
    last = _parse_value(found[2], place._replace(column=place.column + found.start(2)))
    if rule is RULES[4] and last in _SUNDAYS and first > 0:
        last = 7
    if first > last:
        top = rule.low + rule.value_count - 1
        hint = f"Write {first}-{top},{rule.low}-{last}." if first <= top else f"Write 0-{last}."
        raise place.refusal(f"range {shown(item)} runs backwards", hint)
    if first == last:  # croniter takes the step of `5-5/2` for one over the whole field
        return str(_sunday_as_zero(first, rule))
    return f"{first}-{last}{suffix}"


def _parse_step(digits: str | None, place: Place) -> int:
    if digits is None:
        return 1
    rule = place.rule
    step = int(digits) if len(digits) <= _NUMBER_DIGITS_MAX else 10**_NUMBER_DIGITS_MAX
    if step == 0:
        raise place.refusal("step 0", "Steps start at 1.")
    if step > rule.value_count:
        is_a_period = rule.unit and len(digits) <= _NUMBER_DIGITS_MAX
        instead = f"  For a longer period write @every {step}{rule.unit}." if is_a_period else ""
        raise place.refusal(
            f"step {shown(digits)} is larger than the field's {rule.value_count} values",
            f"Steps of this field go up to {rule.value_count}.{instead}",
        )
    return step


def _parse_value(word: str, place: Place) -> int:
    rule = place.rule
    if word.isdigit():
        if len(word) <= _NUMBER_DIGITS_MAX and rule.low <= int(word) <= rule.high:
            return int(word)
        raise place.refusal(f"{shown(word)} is not in {rule.low}..{rule.high}", rule.hint)
    number = rule.names.get(word.lower())
    if number is None:
        raise _unreadable(word, place)
    return number


def _unreadable(item: str, place: Place) -> InvalidSchedule:
    """Say what is wrong with an item that has no reading."""
    if not item:
        return place.refusal("empty item", "Separate items by single commas.")
    if "?" in item:
        return place.refusal(f"{shown(item)} is not supported", "Write * for any value.")
    if item[0] in "Rr":
        return place.refusal(
            f"{shown(item)} is not supported", "Write a number; random times are not repeatable."
        )
    return place.refusal(
        f"cannot read {shown(item)}",
        f"{place.rule.hint}  Write a number, a-b, * or a step as in */5 or a-b/5.",
    )


def _sunday_as_zero(value: int, rule: Rule) -> int:
    return 0 if rule is RULES[4] and value == 7 else value
