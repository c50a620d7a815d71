"""Cron around changes of offset: every zone of tzdata, every change from 1970 to 2037, by sample.

Which zones, changes and expressions is drawn from the seed of the session.  A campaign asks for
more: `MAINSPRING_CRON_PLACES=20000 python -m pytest tests/model/test_cron_changes.py`; a place is
one change of one zone, with `EXPRESSIONS` expressions under options of their own.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pytest

from mainspring.cron import Schedule, next_occurrence_us, parse_schedule, walk, zone_names
from mainspring.cron.kernel import Cron, next_batch
from mainspring.errors import InvalidSchedule
from mainspring.model import DstGap, DstOverlap
from model import cron_oracle as oracle
from model.cron_expressions import random_expression
from model.cron_oracle import US, WARM_UP_S, WINDOW_S, Expression

PLACES = int(os.environ.get("MAINSPRING_CRON_PLACES", "128"))
PARTS = 8
EXPRESSIONS = 6
NEAR_MIN = (-1441, -61, -60, -31, -30, -1, 0, 1, 29, 30, 59, 60, 61, 119, 120)


class Question(NamedTuple):
    """One expression under one pair of options, with all that the oracle says about it."""

    zone_name: str
    change_s: int
    start_s: int
    expression: Expression
    gap: DstGap
    overlap: DstOverlap
    schedule: Schedule
    expected: list[int]

    def __str__(self) -> str:
        """Enough to repeat it."""
        return (
            f"{self.expression.text!r} {self.zone_name} {self.gap} {self.overlap} "
            f"change {self.change_s} start {self.start_s}"
        )

    @property
    def cron(self) -> Cron:
        assert self.schedule.cron is not None
        return self.schedule.cron

    @property
    def end_us(self) -> int:
        return (self.start_s + WINDOW_S) * US

    def instants_us(self) -> list[int]:
        """Instants to ask from: around the change, at each occurrence, and between."""
        near = [(self.change_s + minutes * 60) * US + 7 for minutes in NEAR_MIN]
        near += [self.change_s * US, self.change_s * US - 1]
        near += [at_us + aside for at_us in self.expected[:6] for aside in (-1, 0, 1)]
        return [at_us for at_us in near if self.start_s * US <= at_us < self.end_us]


def questions_at(rng: random.Random, zone_name: str) -> list[Question]:
    """A change of a zone, a start near it, and expressions of which something may match there."""
    change_s = rng.choice(oracle.changes_of(zone_name))
    shift_s = rng.randint(-36, 6) * 3600 + rng.choice((0, 0, 1800, 930, 30, -1))
    start_s = max(WARM_UP_S, change_s + shift_s)
    zone = oracle.zone_of(zone_name)
    walls = [datetime.fromtimestamp(change_s + near, zone) for near in (-3600, -60, 0, 3600)]
    found: list[Question] = []
    while len(found) < EXPRESSIONS:
        expression = random_expression(
            rng, rng.choice(walls), hours=(*(wall.hour for wall in walls), 0)
        )
        gap, overlap = rng.choice(list(DstGap)), rng.choice(list(DstOverlap))
        try:
            schedule = parse_schedule(
                expression.text, zone_name, anchor_us=0, dst_gap=gap, dst_overlap=overlap
            )
        except InvalidSchedule:
            assert not expression.fires_at_all(), expression.text
            continue
        expected = oracle.walk(expression, zone_name, start_s, gap, overlap)
        found.append(
            Question(zone_name, change_s, start_s, expression, gap, overlap, schedule, expected)
        )
    return found


def climbed(question: Question) -> list[int]:
    """Ask for the next occurrence again and again, to the end of the window."""
    found: list[int] = []
    after_us = question.start_s * US
    while True:
        next_us = next_occurrence_us(question.schedule, after_us)
        if next_us is None or next_us > question.end_us:
            return found
        assert next_us > after_us, question
        found.append(next_us)
        after_us = next_us


def broken_rule(question: Question, found_us: list[int]) -> str | None:
    """Say which wall time was lost, doubled or invented, by counting how often each one fired.

    Counts only; that the right one of two passes fired is the oracle's to say.
    """
    expression = question.expression
    is_interval = expression.stars[1]
    skips = is_interval or question.gap is DstGap.SKIP
    takes_all = is_interval or question.overlap is DstOverlap.BOTH
    start_s = question.start_s
    clock = oracle.clock_of(question.zone_name, start_s)
    fired = {at_us // US for at_us in found_us}
    explained: set[int] = set()
    for wall in expression.matching(clock.shows):
        instants_s = clock.shows[wall]
        inside = [each for each in instants_s if start_s < each <= start_s + WINDOW_S]
        explained.update(inside)
        if len(inside) < len(instants_s):
            continue  # another pass lies outside of the window
        times = len(fired.intersection(inside))
        if times != (len(inside) if takes_all else 1) and not _is_gap_end(clock, inside, fired):
            return f"{wall} fired {times} times"
    for at_s, unread in clock.jumps:
        is_inside = start_s < at_s <= start_s + WINDOW_S
        if not skips and is_inside and any(expression.matching(unread)):
            explained.add(at_s)
            if at_s not in fired:
                return f"the gap before {at_s} lost {unread[0]} or later"
    invented = fired - explained
    return f"nothing fires at {min(invented)}" if invented else None


def _is_gap_end(clock: oracle.Clock, inside: list[int], fired: set[int]) -> bool:
    """A gap that ends in another pass of a wall time may make that pass fire as well."""
    ends = {at_s for at_s, _ in clock.jumps}
    return any(at_s in ends and at_s in fired for at_s in inside)


def check_answers(question: Question) -> None:
    """From anywhere, also between minutes, the compiled kernel and its twin say what is next."""
    for after_us in question.instants_us():
        place = bisect_right(question.expected, after_us)
        answer_us = question.cron.next_us(after_us)
        if place < len(question.expected):
            assert question.expected[place] == answer_us, (str(question), after_us)
        else:
            assert answer_us is None or answer_us > question.end_us, (str(question), after_us)
        twin_us = walk.next_us(
            question.cron.fields, question.cron.zone, question.cron.passes, after_us
        )
        assert answer_us == twin_us, (str(question), after_us)


def check_batch(rng: random.Random, questions: list[Question]) -> None:
    """All questions of a place in one batch, shuffled, are answered as one by one."""
    asked = [
        (handle, after_us)
        for handle, question in enumerate(questions)
        for after_us in question.instants_us()
    ]
    rng.shuffle(asked)
    handles = np.array([handle for handle, _ in asked], np.int32)
    after_us = np.array([at_us for _, at_us in asked], np.int64)
    answers = next_batch([question.cron for question in questions], handles, after_us)
    for (handle, at_us), answer_us in zip(asked, answers.tolist(), strict=True):
        assert questions[handle].cron.next_us(at_us) == answer_us, (str(questions[handle]), at_us)


@pytest.mark.slow
@pytest.mark.timeout(0 if "MAINSPRING_CRON_PLACES" in os.environ else 170)
@pytest.mark.parametrize("part", range(PARTS))
def test_occurrences_around_changes_are_those_of_the_walk(rng: random.Random, part: int) -> None:
    """Increasing, none lost, none doubled beyond the rules, in a batch as alone, twin alike."""
    names = sorted(zone_names())
    rng.shuffle(names)
    occurrences = 0
    for number in range(PLACES // PARTS):
        questions = questions_at(rng, names[number % len(names)])
        for question in questions:
            found = climbed(question)
            assert question.expected == found, str(question)
            assert broken_rule(question, found) is None, str(question)
            occurrences += len(found)
            check_answers(question)
        check_batch(rng, questions)

    assert occurrences > PLACES // PARTS  # the sample is not empty of what it is about


def test_the_oracle_sees_a_gap_an_overlap_and_a_missing_day() -> None:
    """By hand: New York in 2026, Samoa in 2011; so that the oracle itself cannot rot."""
    half_past = Expression("30 1,2 * * *", _values({30}, {1, 2}), (False, False, True, True, True))
    spring_s = _seconds(2026, 3, 8, 7)
    autumn_s = _seconds(2026, 11, 1, 6)
    samoa_s = _seconds(2011, 12, 30, 10)
    noon = Expression("0 12 * * *", _values({0}, {12}), (False, False, True, True, True))

    def hours(expression: Expression, zone: str, change_s: int, *options: str) -> list[float]:
        start_s = change_s - 20 * 3600
        gap, overlap = DstGap(options[0]), DstOverlap(options[1])
        found = oracle.walk(expression, zone, start_s, gap, overlap)
        return [(at_us // US - change_s) / 3600 for at_us in found]

    new_york = "America/New_York"
    assert [-0.5, 0] == hours(half_past, new_york, spring_s, "next_valid", "first")
    assert [-0.5] == hours(half_past, new_york, spring_s, "skip", "first")
    assert [-0.5, 1.5] == hours(half_past, new_york, autumn_s, "skip", "first")[:2]
    assert [0.5, 1.5] == hours(half_past, new_york, autumn_s, "skip", "second")[:2]
    assert [-0.5, 0.5, 1.5] == hours(half_past, new_york, autumn_s, "skip", "both")[:3]
    assert [-12, 0, 12] == hours(noon, "Pacific/Apia", samoa_s, "next_valid", "first")
    assert [-12, 12] == hours(noon, "Pacific/Apia", samoa_s, "skip", "first")


def _seconds(year: int, month: int, day: int, hour: int) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp())


def _values(minutes: set[int], hours: set[int]) -> tuple[frozenset[int], ...]:
    whole = (range(1, 32), range(1, 13), range(7))
    return frozenset(minutes), frozenset(hours), *(frozenset(each) for each in whole)
