"""All occurrences of a schedule in a span, as an array.

A cron expression is asked about many stretches of the span at once, one lane each, so that the
kernel answers some thousand questions per call: with one question a call, the call costs more than
the answer.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.cron import Schedule, ScheduleKind, count_occurrences, next_occurrence_us
from mainspring.cron.kernel import Cron, next_batch

Int64s = NDArray[np.int64]

LANES_MAX: Final = 4_096
_PER_LANE: Final = 16
"""Occurrences a lane has on average, where there are not too many: the last call of a lane is
wasted, since it leaves its stretch."""


def occurrences_between(schedule: Schedule, from_us: int, until_us: int) -> Int64s:
    """Give every occurrence in `from_us <= t < until_us`.

    Returns
    -------
    int64, shape (n,)
        Strictly increasing.  8 bytes each, and a few times as much while it works: the caller
        limits n beforehand, by `count_occurrences`.
    """
    if until_us <= from_us:
        return np.empty(0, np.int64)
    if schedule.kind is ScheduleKind.CRON:
        assert schedule.cron is not None
        count = count_occurrences(schedule, from_us - 1, until_us - 1)
        return _of_cron(schedule.cron, count, from_us, until_us)
    first_us = next_occurrence_us(schedule, from_us - 1)
    if first_us is None or first_us >= until_us:
        return np.empty(0, np.int64)
    if schedule.kind is ScheduleKind.ONCE:
        return np.array([first_us], np.int64)
    count = count_occurrences(schedule, from_us - 1, until_us - 1)
    return first_us + schedule.period_us * np.arange(count, dtype=np.int64)


def _of_cron(cron: Cron, count: int, from_us: int, until_us: int) -> Int64s:
    if count == 0:
        return np.empty(0, np.int64)
    lanes = min(LANES_MAX, 1 + count // _PER_LANE)
    whole_us, rest_us = divmod(until_us - from_us, lanes)
    steps = np.arange(lanes + 1, dtype=np.int64)
    cuts_us = from_us + whole_us * steps + rest_us * steps // lanes
    after_us, ends_us = cuts_us[:-1] - 1, cuts_us[1:]
    found: list[Int64s] = []
    while len(after_us):
        next_us = next_batch([cron], np.zeros(len(after_us), np.int32), after_us)
        is_within = next_us < ends_us
        after_us, ends_us = next_us[is_within], ends_us[is_within]
        found.append(after_us)
    occurrences_us = np.concatenate(found)
    occurrences_us.sort()
    assert len(occurrences_us) == count, (len(occurrences_us), count)
    return occurrences_us
