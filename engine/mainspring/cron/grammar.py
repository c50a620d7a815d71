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
- `R` and `?`.

The result is canonical text of numbers only, what stands beside it (`extras`), and per field
whether it began with `*`, which two rules of the engine depend on and no set of values can tell.
An `H` is replaced by numbers item by item (`spread`), so that columns are those of the given text.

Source: crontab(5) of Vixie cron as shipped by Debian.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mainspring.cron.extras import NONE, Extras, parse_extra
from mainspring.cron.refusals import POINTER, RULES, Place, Rule, refusal, shown
from mainspring.cron.spread import spread_item
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


_NUMBER_DIGITS_MAX: Final = 4
_SUNDAYS: Final = (0, 7)

_FIELD: Final = re.compile(r"[^ \t]+")
_ITEM: Final = re.compile(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9]+))?")


class Field(NamedTuple):
    """One field after checking: numbers only, Sunday at the end of a range as 7.

    `text` is empty where the field has extras alone.
    """

    text: str
    starts_with_star: bool
    extras: Extras = NONE


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


def parse_fields(text: str, job_id: int = 0) -> tuple[Field, Field, Field, Field, Field]:
    """Read a cron expression that `check_text` has passed.

    Parameters
    ----------
    job_id
        Chooses what each `H` stands for.

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
        _parse_field(part[0], Place(rule, text, part.start() + 1), job_id)
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


def _parse_field(field: str, place: Place, job_id: int) -> Field:
    items: list[str] = []
    extras = NONE
    column = place.column
    for item in field.split(","):
        here = place._replace(column=column)
        extra = parse_extra(item, here)
        if extra is None:
            numbers = spread_item(item, here, job_id)
            items.append(_parse_item(item, here) if numbers is item else numbers)
        else:
            extras = extras.united(extra)
        column += len(item) + 1
    return Field(",".join(items), field.startswith("*"), extras)


def _parse_item(item: str, place: Place) -> str:
    """Check one item of a list and give it in numbers."""
    rule = place.rule
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
