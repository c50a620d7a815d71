"""The known differences to croniter 7 and cronsim 2.8 in which texts are read at all, by kind.

A kind is a pattern of the text, for one library and one direction: it takes what we refuse, or
refuses what we take.  A text in which no kind's pattern occurs must be taken by both or by neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from mainspring.cron import parse_schedule
from mainspring.cron.refusals import RULES
from mainspring.errors import InvalidSchedule

BOTH = ("croniter", "cronsim")


class TextKind(NamedTuple):
    """One known difference: these libraries take (`takes`) what we refuse, or the reverse."""

    libraries: tuple[str, ...]
    takes: bool
    name: str
    says: str
    example: str
    occurs: Callable[[str], bool]


def explain_text(library: str, text: str, *, takes: bool) -> str | None:
    """Name the first kind that occurs in a text and works in that direction."""
    for kind in TEXT_KINDS:
        if library in kind.libraries and kind.takes == takes and kind.occurs(text):
            return kind.name
    return None


def _field_items(text: str) -> list[tuple[int, str]]:
    """Give the items of a text of five fields, with the number of their field."""
    fields = re.split(r"[ \t]+", text.strip(" \t"))
    return [(number, item) for number, field in enumerate(fields[:5]) for item in field.split(",")]


def _any_item(found: Callable[[int, str], bool]) -> Callable[[str], bool]:
    return lambda text: any(found(field, item) for field, item in _field_items(text))


def _matches(pattern: str, *fields: int) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.IGNORECASE | re.ASCII)
    return _any_item(
        lambda field, item: (not fields or field in fields) and bool(compiled.fullmatch(item))
    )


def _values(field: int, item: str) -> tuple[int, int] | None:
    """Give both ends of a range as they are written."""
    found = re.fullmatch(r"(\w+)-(\w+)(?:/\d+)?", item)
    names = RULES[field].names
    if found is None:
        return None
    ends = [int(w) if w.isdecimal() else names.get(w.lower()) for w in found.groups()]
    return (ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else None


def _is_reversed(field: int, item: str) -> bool:
    ends = _values(field, item)
    return ends is not None and ends[0] > ends[1]


def _ends_in_sunday_by_zero(field: int, item: str) -> bool:
    ends = _values(field, item)
    return field == 4 and ends is not None and ends[1] == 0 < ends[0]


def _has_large_step(field: int, item: str) -> bool:
    found = re.fullmatch(r".*/(\d+)", item)
    return found is not None and int(found[1]) > RULES[field].value_count


def _never_fires(text: str) -> bool:
    """That these have no occurrence is tested elsewhere, day by day."""
    try:
        parse_schedule(text, "UTC", anchor_us=0)
    except InvalidSchedule as error:
        return "never fires" in error.message
    return False


def _field_count(text: str) -> int:
    return len(text.split())


TEXT_KINDS: Final = (
    TextKind(BOTH, True, "six fields", "a sixth field is seconds, last or first", "0 9 * * 1 0",
             lambda text: _field_count(text) == 6),
    TextKind(("croniter",), True, "seven fields", "a seventh field is the year", "0 9 * * 1 0 2026",
             lambda text: _field_count(text) == 7),
    TextKind(("croniter",), True, "reversed range", "wraps around", "0 22-2 * * *",
             _any_item(_is_reversed)),
    TextKind(BOTH, True, "step without a range", "5/15 is 5-59/15", "5/15 * * * *",
             _matches(r"\w+/\d+")),
    TextKind(BOTH, True, "large step", "is the first value alone", "*/90 * * * *",
             _any_item(_has_large_step)),
    TextKind(("croniter",), True, "range of nought", "0-0 is the whole field", "0 0 0-0 * *",
             _matches(r"0+-0+(/\d+)?", 2, 3)),
    TextKind(("croniter",), True, "random", "R is another number each time", "R * * * *",
             _matches(r"r(\(\d+-\d+\))?(/\d+)?")),
    TextKind(("croniter",), True, "question mark", "is a star", "0 0 ? * *", _matches(r"\?", 2, 4)),
    TextKind(BOTH, True, "never fires", "is taken, and looked for each time", "0 0 */30 * 5#2",
             _never_fires),
    TextKind(("croniter",), True, "letter first", "W15 is 15W and L5 is 5L", "0 0 W15 * *",
             _matches(r"w\d+|l\d", 2, 4)),
    TextKind(("croniter",), True, "up to the last", "10-L is 10-31", "0 0 10-L * *",
             _matches(r"\w+-l(/\d+)?", 2)),
    TextKind(("cronsim",), True, "other blanks", "separate fields", "0\u00a09 * * *",
             lambda text: bool(re.search(r"[^\S \t]", text))),
    TextKind(("croniter",), True, "other ASCII blanks", "separate fields", "0\n9 * * *",
             lambda text: bool(re.search(r"[\n\r\f\v]", text))),
    TextKind(BOTH, True, "many digits", "are a number, with noughts in front", "00000 * * * *",
             _matches(r"\d{5,}(-\d+)?|\d+-\d{5,}")),
    TextKind(("croniter",), False, "last of a kind", "LW and 5L are not known", "0 0 LW * *",
             _matches(r"lw|wl|\w+l", 2, 4)),
    TextKind(("croniter",), False, "W in a list", "W stands alone", "0 0 1,15W * *",
             lambda text: _matches(r"\d+w", 2)(text) and "," in text.split()[2]),
    TextKind(("croniter",), False, "nth in a list", "# stands alone", "0 0 * * 1,5#2",
             lambda text: _matches(r"\w+#\d", 4)(text) and "," in text.split()[4]),
    TextKind(("cronsim",), False, "nearest weekday", "15W is not known", "0 0 15W * *",
             _matches(r"\d+w|wl", 2)),
    TextKind(("cronsim",), False, "last by name", "FRIL is not known", "0 0 * * FRIL",
             _matches(r"[a-z]{3}l", 4)),
    TextKind(("cronsim",), False, "range to Sunday", "0 and sun are below Monday", "0 0 * * 5-sun",
             _any_item(_ends_in_sunday_by_zero)),
    TextKind(BOTH, False, "chosen by the job", "H needs an id, or is not known", "H * * * *",
             _matches(r"h(\(\d+-\d+\))?(/\d+)?")),
)  # fmt: skip
