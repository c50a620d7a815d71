"""One row measured: the kernel, its memo, croniter and cronsim, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from statistics import median
from time import thread_time_ns
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from croniter import croniter
from cronsim import CronSim

from bench.cron.rows import Int64s, Row, instants_of
from mainspring.cron import OccurrenceMemo, next_occurrence_us, parse_schedule, walk
from mainspring.cron.kernel import Answers, next_batch
from mainspring.instants import US_PER_S

BATCHES = 5

Answer = Callable[[datetime], float]


class Asked(NamedTuple):
    """A row made ready: everything that is not the question itself is outside of the clock.

    `rival_after` are the first instants as aware datetimes, `expected_s` mainspring's answers.
    """

    row: Row
    after_us: Int64s
    ask: Callable[[], Int64s]
    ask_again: Callable[[], Int64s]
    hit_share: float
    rival_after: list[datetime]
    expected_s: list[float]
    croniter: Answer
    cronsim: Answer


class Times(NamedTuple):
    """Nanoseconds of processor time for one next occurrence, in one round."""

    next_ns: float
    next_memo_ns: float
    croniter_ns: float
    cronsim_ns: float


def prepare(row: Row, instants: int, seed: int) -> Asked:
    """Draw the instants, make every library ready, and hold the kernel against its twin.

    Raises
    ------
    RuntimeError
        The kernel, its memo and its twin in Python do not answer alike.
    """
    after_us = instants_of(row, instants, seed)
    cron = parse_schedule(row.expr, row.tz, anchor_us=0).cron
    assert cron is not None
    handles = np.zeros(len(after_us), np.int32)
    answers = Answers()

    def ask() -> Int64s:
        return next_batch([cron], handles, after_us)

    def ask_again() -> Int64s:
        return next_batch([cron], handles, after_us, answers)

    ask_again()
    expected_us = ask()
    rivals = max(3, round(instants * row.rival_share))
    sample_us = after_us[:rivals].tolist()
    twin = [walk.next_us(cron.fields, cron.zone, cron.passes, at_us) for at_us in sample_us]
    if twin != expected_us[:rivals].tolist() or not np.array_equal(expected_us, ask_again()):
        raise RuntimeError(f"{row.expr} in {row.tz}: kernel, memo and twin differ")
    zone = ZoneInfo(row.tz)
    iterator = croniter(row.expr, datetime.fromtimestamp(0, zone), ret_type=float)

    def ask_croniter(after: datetime) -> float:
        return float(iterator.get_next(float, start_time=after))

    def ask_cronsim(after: datetime) -> float:
        return next(CronSim(row.expr, after)).timestamp()

    return Asked(
        row,
        after_us,
        ask,
        ask_again,
        len(answers) / instants,
        [datetime.fromtimestamp(at_us // US_PER_S, zone) for at_us in sample_us],
        [at_us / US_PER_S for at_us in expected_us[:rivals].tolist()],
        ask_croniter,
        ask_cronsim,
    )


def measure(asked: Asked) -> Times:
    """Ask everybody; the memo has been told all answers before.

    A batch is over in some milliseconds, so it is asked a few times in a round and the middle one
    counts; the others take longer than any hiccup.
    """
    instants, rivals = len(asked.after_us), asked.rival_after
    return Times(
        median(_ns(asked.ask) for _ in range(BATCHES)) / instants,
        median(_ns(asked.ask_again) for _ in range(BATCHES)) / instants,
        _ns(lambda: [asked.croniter(after) for after in rivals]) / len(rivals),
        _ns(lambda: [asked.cronsim(after) for after in rivals]) / len(rivals),
    )


def differing(asked: Asked, rival: Answer) -> int:
    """Count the sampled instants after which a rival names another occurrence than mainspring."""
    return sum(
        rival(after) != expected
        for after, expected in zip(asked.rival_after, asked.expected_s, strict=True)
    )


def medians(rounds: list[Times]) -> Times:
    """Return the median of each figure."""
    return Times(*(median(column) for column in zip(*rounds, strict=True)))


def one_by_one_ns(asked: Asked) -> tuple[float, float]:
    """Return what a question costs that is asked alone: computed, and found in the memo by text."""
    schedule = parse_schedule(asked.row.expr, asked.row.tz, anchor_us=0)
    memo = OccurrenceMemo()
    instants = asked.after_us.tolist()

    def compute() -> list[int | None]:
        return [next_occurrence_us(schedule, at_us) for at_us in instants]

    def recall() -> list[int]:
        return [memo.next_us(asked.row.expr, asked.row.tz, 0, at_us) for at_us in instants]

    if compute() != recall():
        raise RuntimeError("the memo by text and the kernel differ")
    return _ns(compute) / len(instants), _ns(recall) / len(instants)


def _ns(work: Callable[[], object]) -> int:
    """Return this thread's processor time: nothing here waits, and others' turns are not ours."""
    begun = thread_time_ns()
    work()
    return thread_time_ns() - begun
