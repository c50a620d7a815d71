"""The items beyond crontab(5): `L`, `LW`, `15W`, `FRI#2`, `5L`.

They stand alone or in a list with ordinary items (`1,15,L`), never in ranges or steps.  What each
means, month by month:

- `L` in the day of month: the last day;  `LW`: its last Monday to Friday;
- `15W`: the Monday to Friday nearest to the 15th, never in another month; nothing where the month
  has no such day;
- `FRI#2`, `5#2`: the second Friday; nothing where the month has no fifth one;
- `5L`, `FRIL`: the last Friday.

Source: Quartz scheduler, "CronTrigger tutorial", special characters.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mainspring.cron.refusals import Place, Rule, shown

_LAST_DAY: Final = re.compile(r"l", re.IGNORECASE)
_LAST_WORKDAY: Final = re.compile(r"lw|wl", re.IGNORECASE)
_NEAR: Final = re.compile(r"([0-9]{1,4})w", re.IGNORECASE)
_NTH: Final = re.compile(r"([0-9]{1,4}|[a-z]{3})#([0-9]{1,4})", re.IGNORECASE)
_LAST_WEEKDAY: Final = re.compile(r"([0-9]{1,4}|[a-z]{3})l", re.IGNORECASE)
_LIKE: Final = re.compile(r".*#.*|l.*|[0-9a-z]+l|[0-9-]+w(?!ed).*", re.IGNORECASE)
_NTH_MAX: Final = 5


class Extras(NamedTuple):
    """What a day field has beyond plain values.

    `near_days` has bits 1..31, `nth_weekdays` bit (n - 1) * 7 + weekday, `last_weekdays` bits 0..6.
    """

    is_last_day: bool = False
    is_last_workday: bool = False
    near_days: int = 0
    nth_weekdays: int = 0
    last_weekdays: int = 0

    def united(self, other: Extras) -> Extras:
        """Return both together."""
        return Extras(
            self.is_last_day or other.is_last_day,
            self.is_last_workday or other.is_last_workday,
            self.near_days | other.near_days,
            self.nth_weekdays | other.nth_weekdays,
            self.last_weekdays | other.last_weekdays,
        )


NONE: Final = Extras()


def parse_extra(item: str, place: Place) -> Extras | None:
    """Read one item of a list, or return None if it is no extra.

    Raises
    ------
    InvalidSchedule
        It looks like one and cannot be read, or stands in a field that has none.
    """
    if place.rule.name == "day of month":
        found = _of_month(item, place)
    elif place.rule.name == "day of week":
        found = _of_week(item, place)
    else:
        found = None
    if found is None and _LIKE.fullmatch(item) and item.lower() not in place.rule.names:
        raise place.refusal(f"cannot read {shown(item)} here", _hint(place.rule))
    return found


def _of_month(item: str, place: Place) -> Extras | None:
    if _LAST_DAY.fullmatch(item):
        return Extras(is_last_day=True)
    if _LAST_WORKDAY.fullmatch(item):
        return Extras(is_last_workday=True)
    near = _NEAR.fullmatch(item)
    if near is None:
        return None
    day = int(near[1])
    if not 1 <= day <= 31:
        raise place.refusal(f"{shown(item)}: there is no day {day}", place.rule.hint)
    return Extras(near_days=1 << day)


def _of_week(item: str, place: Place) -> Extras | None:
    nth = _NTH.fullmatch(item)
    if nth is not None:
        weekday, number = _weekday(nth[1], item, place), int(nth[2])
        if not 1 <= number <= _NTH_MAX:
            raise place.refusal(
                f"{shown(item)}: no month has {number} of them",
                "The number after # runs from 1 to 5; the last one is written 5L.",
            )
        return Extras(nth_weekdays=1 << (number - 1) * 7 + weekday)
    last = _LAST_WEEKDAY.fullmatch(item)
    if last is None or item.lower() in place.rule.names:
        return None
    return Extras(last_weekdays=1 << _weekday(last[1], item, place))


def _weekday(word: str, item: str, place: Place) -> int:
    number = place.rule.names.get(word.lower())
    if number is None and word.isdigit():
        number = int(word)
    if number is None or number > 7:
        raise place.refusal(f"{shown(item)}: {shown(word)} is no day of the week", place.rule.hint)
    return number % 7


def _hint(rule: Rule) -> str:
    match rule.name:
        case "day of month":
            return "Known here are L (the last day), LW (its last weekday) and 15W."
        case "day of week":
            return "Known here are FRI#2 (the second Friday) and 5L or FRIL (the last Friday)."
        case _:
            return f"L, W and # belong to the day fields.  {rule.hint}"
