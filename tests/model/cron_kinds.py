"""The known differences to croniter 7 and cronsim 2.8 in when an expression fires, by kind.

A kind either says how the other library reads the same question, and then its answer must be ours
to the question so read, or it looks at the answer.  So it explains what it names and nothing else:
what no kind explains is new, and fails (`test_cron_rivals`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time, timedelta
from itertools import chain, combinations
from typing import Final, NamedTuple

from mainspring.cron.fields import CronFields, expand_fields
from mainspring.cron.grammar import parse_fields
from mainspring.cron.kernel import Cron
from mainspring.cron.refusals import RULES
from mainspring.cron.walk import Passes, passes_of
from mainspring.cron.zone import load_zone
from mainspring.model import DstGap, DstOverlap
from model.cron_oracle import US, changes_of, month_of, zone_of
from model.cron_rivals import HANGS, NEVER, Answer, Question

ALL_HOURS = (1 << 24) - 1
ALL_DAYS = (1 << 32) - 2
ALL_WEEKDAYS = 127
ZERO = timedelta()

_EQUAL_RANGE = re.compile(r"(\w+)-(\w+)(/\d+)?")


class Reading(NamedTuple):
    """A question as somebody reads it.  `given` is the text before any kind has touched it."""

    given: str
    text: str
    is_either_day: bool | None = None
    passes: Passes | None = None


class Kind(NamedTuple):
    """One known difference; `reads` or `explains` says what it covers."""

    library: str
    name: str
    says: str
    example: Question
    reads: Callable[[Reading], Reading] | None = None
    explains: Callable[[Question, Answer, Reading], bool] | None = None


def is_compared(library: str, text: str) -> bool:
    """Whether both libraries give a text a meaning that can be compared.

    croniter takes `#` and `W` alone, and gives a list around them, or another restricted day field
    beside them, meanings of its own.
    """
    day, weekday = text.upper().split()[2:5:2]
    is_special = "#" in weekday or "W" in day
    if library != "croniter" or not is_special:
        return True
    return "," not in day + weekday and "*" in {day, weekday}


def fields_of(text: str) -> CronFields:
    return expand_fields(parse_fields(text), text)


def answer_to(reading: Reading, question: Question) -> Answer:
    """What mainspring's kernel answers to a question so read."""
    fields = fields_of(reading.text)
    if reading.is_either_day is not None:
        fields = replace(fields, is_either_day=reading.is_either_day)
    passes = reading.passes or passes_of(fields, DstGap.NEXT_VALID, DstOverlap.FIRST)
    cron = Cron(fields, load_zone(question.zone_name), passes)
    next_us = cron.next_us(question.after_s * US)
    return NEVER if next_us is None else next_us / US


def explain(library: str, question: Question, theirs: Answer) -> tuple[str, ...] | None:
    """Name the fewest kinds that make our answer theirs, or None if none do."""
    own = [kind for kind in KINDS if kind.library == library]
    readers = [kind for kind in own if kind.reads]
    reading = Reading(question.text, question.text)
    for chosen in chain.from_iterable(combinations(readers, n) for n in range(len(readers) + 1)):
        reading = Reading(question.text, question.text)
        for kind in chosen:
            assert kind.reads
            reading = kind.reads(reading)
        if answer_to(reading, question) == theirs:
            return tuple(kind.name for kind in chosen)
    # The last choice was all readers: the question as this library reads it.
    for kind in own:
        if kind.explains and kind.explains(question, theirs, reading):
            return (kind.name,)
    return None


def _rewritten(text: str, item_of: Callable[[int, str], str]) -> str:
    fields = text.split()
    return " ".join(
        ",".join(item_of(number, item) for item in field.split(","))
        for number, field in enumerate(fields)
    )


def _number(word: str, field: int) -> int:
    return RULES[field].names.get(word.lower(), -1) if word.isalpha() else int(word)


def _equal_range(field: int, item: str) -> re.Match[str] | None:
    found = _EQUAL_RANGE.fullmatch(item)
    if found and _number(found[1], field) == _number(found[2], field):
        return found
    return None


def _equal_range_as_whole(reading: Reading) -> Reading:
    def item_of(field: int, item: str) -> str:
        found = _equal_range(field, item)
        rule = RULES[field]
        return f"{rule.low}-{rule.low + rule.value_count - 1}{found[3] or ''}" if found else item

    return reading._replace(text=_rewritten(reading.text, item_of))


def _equal_range_with_step_as_tail(reading: Reading) -> Reading:
    def item_of(field: int, item: str) -> str:
        found = _equal_range(field, item)
        return f"{found[1]}-{RULES[field].high}{found[3]}" if found and found[3] else item

    return reading._replace(text=_rewritten(reading.text, item_of))


def _star_by_values(reading: Reading) -> Reading:
    """A day field is a star where an item is one, or where it is whole and the other has a star."""
    fields = fields_of(reading.text)
    day, weekday = reading.text.split()[2], reading.text.split()[4]
    given_day, given_weekday = reading.given.split()[2], reading.given.split()[4]
    is_day_star = "*" in day.split(",") or (fields.days == ALL_DAYS and "*" in given_weekday)
    is_weekday_star = "*" in weekday.split(",") or (
        fields.weekdays == ALL_WEEKDAYS and "*" in given_day
    )
    return reading._replace(is_either_day=not (is_day_star or is_weekday_star))


def _passes(reading: Reading) -> Passes:
    return reading.passes or passes_of(fields_of(reading.text), DstGap.NEXT_VALID, DstOverlap.FIRST)


def _both_passes(reading: Reading) -> Reading:
    return reading._replace(passes=_passes(reading)._replace(takes_first=True, takes_second=True))


def _gap_by_values(reading: Reading) -> Reading:
    is_whole = fields_of(reading.text).hours == ALL_HOURS
    return reading._replace(passes=_passes(reading)._replace(skips_gap=is_whole))


def _minute_star_as_interval(reading: Reading) -> Reading:
    is_interval = reading.text.split()[0].startswith("*")
    return reading._replace(passes=Passes(True, True, True)) if is_interval else reading


def _in_the_past(question: Question, theirs: Answer, reading: Reading) -> bool:
    return not isinstance(theirs, str) and theirs <= question.after_s


def _changes_in_day_before(question: Question, at_s: float) -> list[tuple[int, timedelta]]:
    """Changes of offset in the 26 hours up to `at_s`, and by how much."""
    zone = zone_of(question.zone_name)
    found = []
    for change_s in changes_of(question.zone_name):
        if at_s - 26 * 3600 < change_s <= at_s:
            after, before = (
                datetime.fromtimestamp(each, zone) for each in (change_s, change_s - 1)
            )
            found.append((change_s, (after.utcoffset() or ZERO) - (before.utcoffset() or ZERO)))
    return found


def _overlooks(question: Question, theirs: Answer, reading: Reading) -> float | None:
    """Give what it should have said, where it only skips occurrences and invents none."""
    right = answer_to(reading, question)
    if isinstance(right, str) or isinstance(theirs, str) or right >= theirs:
        return None
    just_before = question._replace(after_s=int(theirs) - 1)
    return right if answer_to(reading, just_before) == theirs else None


def _overlooks_near_change(question: Question, theirs: Answer, reading: Reading) -> bool:
    right = _overlooks(question, theirs, reading)
    return right is not None and bool(_changes_in_day_before(question, right))


def _overlooks_second_pass(question: Question, theirs: Answer, reading: Reading) -> bool:
    right = _overlooks(question, theirs, reading)
    return right is not None and any(
        by < ZERO and right < change_s - by.total_seconds()
        for change_s, by in _changes_in_day_before(question, right)
    )


def _fires_for_midnight(question: Question, theirs: Answer, reading: Reading) -> bool:
    if isinstance(theirs, str):
        return False
    zone = zone_of(question.zone_name)
    before, after = (datetime.fromtimestamp(at_s, zone) for at_s in (theirs - 60, theirs))
    jump = (after.utcoffset() or ZERO) - (before.utcoffset() or ZERO)
    wall = after.replace(tzinfo=None)
    midnight = datetime.combine((wall - timedelta(microseconds=1)).date(), time())
    return wall - jump <= midnight < wall


def _nearest_in_shorter_month(question: Question, theirs: Answer, reading: Reading) -> bool:
    wanted = re.fullmatch(r"(\d+)[wW]", reading.text.split()[2])
    if wanted is None or isinstance(theirs, str):
        return False
    day = datetime.fromtimestamp(theirs, zone_of(question.zone_name)).date()
    length, workdays = month_of(day.year, day.month)
    return length < int(wanted[1]) and day.day == workdays[-1]


def _moves_by_whole_minutes(question: Question, theirs: Answer, reading: Reading) -> bool:
    right = answer_to(reading, question)
    if isinstance(right, str) or isinstance(theirs, str):
        return False
    return 0 < theirs - right < 60 and any(
        change_s == right for change_s, _ in _changes_in_day_before(question, right)
    )


def _hangs(question: Question, theirs: Answer, reading: Reading) -> bool:
    right = answer_to(reading, question)
    return (
        theirs == HANGS
        and not isinstance(right, str)
        and any(by < ZERO for _, by in _changes_in_day_before(question, right))
    )


KINDS: Final = (
    Kind(
        "croniter",
        "equal range",
        "5-5 is the whole field, and so is a range of one name",
        Question("5-5 0 * * *", "UTC", 1_780_923_600),
        reads=_equal_range_as_whole,
    ),
    Kind(
        "croniter",
        "star by values",
        "*/2 in a day field is no star, so either day field may match",
        Question("0 16 */2 * sat", "UTC", 1_682_899_200),
        reads=_star_by_values,
    ),
    Kind(
        "croniter",
        "gap by values",
        "a gap fires unless all 24 hours are listed, whatever the hour field begins with",
        Question("0 */2 * * *", "America/New_York", 1_772_952_300),
        reads=_gap_by_values,
    ),
    Kind(
        "croniter",
        "both passes",
        "a fixed time fires in both passes of an overlap",
        Question("30 1 * * *", "America/New_York", 1_793_511_000),
        reads=_both_passes,
    ),
    Kind(
        "cronsim",
        "equal range with a step",
        "5-5/2 runs on to the end of the field",
        Question("5-5/20 0 * * *", "UTC", 1_780_963_500),
        reads=_equal_range_with_step_as_tail,
    ),
    Kind(
        "cronsim",
        "interval by minutes",
        "a minute field that begins with a star makes a schedule an interval, too",
        Question("*/30 2 * * *", "America/New_York", 1_772_951_400),
        reads=_minute_star_as_interval,
    ),
    Kind(
        "cronsim",
        "in the past",
        "asked within a second pass, it answers with an instant of the first",
        Question("45 1 * * *", "America/Los_Angeles", 1_762_075_800),
        explains=_in_the_past,
    ),
    Kind(
        "croniter",
        "31W in a shorter month",
        "31W is the last Monday to Friday of a month that has no 31st",
        Question("0 0 31W * *", "UTC", 1_780_923_600),
        explains=_nearest_in_shorter_month,
    ),
    Kind(
        "croniter",
        "gap ends within a minute",
        "what a gap leaves out moves on by whole minutes, past an end between two minutes",
        Question("* 0 * * *", "Africa/Monrovia", 63_593_069),
        explains=_moves_by_whole_minutes,
    ),
    Kind(
        "croniter",
        "second pass overlooked",
        "a second pass is overlooked where the first time after it by the clock is far away",
        Question("2 * * 4,9 *", "Europe/Zaporozhye", 433_799_940),
        explains=_overlooks_second_pass,
    ),
    Kind(
        "cronsim",
        "overlooked near a change",
        "after a change its steps by whole hours and minutes pass over what should come next",
        Question("* 2 * * *", "Pacific/Rarotonga", 436_356_000),
        explains=_overlooks_near_change,
    ),
    Kind(
        "cronsim",
        "missing midnight",
        "an interval fires for a midnight that a gap leaves out",
        Question("0 */6 1 * *", "Australia/Lord_Howe", 352_216_740),
        explains=_fires_for_midnight,
    ),
    Kind(
        "cronsim",
        "hangs",
        "its search never ends where a midnight is read twice",
        Question("*/3 1-16 * * sat", "Asia/Colombo", 846_262_830),
        explains=_hangs,
    ),
    Kind(
        "cronsim",
        "gap ends within a minute",
        "what a gap leaves out moves on by whole minutes, past an end between two minutes",
        Question("22 0 * * *", "Africa/Monrovia", 63_585_870),
        explains=_moves_by_whole_minutes,
    ),
)
