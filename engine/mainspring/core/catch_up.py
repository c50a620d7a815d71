"""How catch-up goes on beside live firings: its pace, and which catch-up is worth an alert.

Catch-up runs of a shard get a time each, so many a second.  One that has to wait is put off: its
lease ends, and `due_at` becomes its time.  A put-off firing is known by its columns alone (never
claimed, and already marked as catch-up), so the time it was given survives its leader.

Not here: which occurrences are missed (`cron.missed`), and that live firings go first wherever
both wait (`core.dispatch`, `core.execution`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mainspring.cron import Generations
from mainspring.instants import MINUS_INFINITY_US, US_PER_S

BURST_US: Final = US_PER_S
"""What is given a time within this long runs at once: a second's share in one go."""

LARGE_OCCURRENCES: Final = 100
"""So many missed occurrences of one job are worth an alert; the default of `max_missed`."""

ANNOUNCED_MAX: Final = 10_000


class LargeCatchUp(NamedTuple):
    """One job's catch-up that people should know of.

    `missed_count` occurrences were missed in all; `dropped_count` of them nothing will run.
    """

    job_id: int
    missed_count: int
    dropped_count: int


class CatchUp:
    """The catch-up of one term on one shard.

    Parameters
    ----------
    rate
        Catch-up runs a second.
    """

    def __init__(self, rate: float) -> None:
        assert rate > 0, rate
        self._gap_us = US_PER_S / rate
        self._free_us: float = MINUS_INFINITY_US
        self._announced: Generations[int, int] = Generations(ANNOUNCED_MAX)

    def take_time(self, now_us: int) -> int | None:
        """Give the next run its time: None for now, else the instant to which it is put off."""
        at_us = max(self._free_us, float(now_us))
        self._free_us = at_us + self._gap_us
        return None if at_us < now_us + BURST_US else int(at_us)

    def is_news(self, job_id: int, scheduled_us: int, missed_count: int, now_us: int) -> bool:
        """Whether a judgement begins a large catch-up; the ones that follow in it do not."""
        if missed_count < LARGE_OCCURRENCES:
            return False
        until_us = self._announced.get(job_id)
        self._announced.put(job_id, now_us)
        return until_us is None or scheduled_us > until_us


class CatchUps:
    """The catch-up of every shard that one process leads, each for one term."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._by_shard: dict[int, tuple[int, CatchUp]] = {}

    def of(self, shard: int, term: int) -> CatchUp:
        """Return that term's; a new term begins anew.  One thread at a time for each shard."""
        known = self._by_shard.get(shard)
        if known is None or known[0] != term:
            known = self._by_shard[shard] = (term, CatchUp(self._rate))
        return known[1]
