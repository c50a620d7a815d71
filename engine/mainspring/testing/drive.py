"""Drives the cores of a scheduler and a worker in virtual time, in one thread.

What takes time between two processes takes none here: a request is answered, a frame delivered and
a beacon heard in the same step.  So the periods by which the real ones heal losses are out of the
way, and time jumps from one firing to the next.
"""

from __future__ import annotations

import itertools
import random
from typing import Final

import numpy as np

from mainspring.config import SchedulerSettings
from mainspring.core.carrying import carry_out
from mainspring.core.catch_up import CatchUps
from mainspring.core.completion import Chance, complete_runs
from mainspring.core.dispatch import Dispatch
from mainspring.core.execution import Execution, Work, WorkerLimits
from mainspring.core.leader import LeaderLimits, LeaderTimes, ShardLeader
from mainspring.core.now import Now
from mainspring.core.preparation import Leadership, Recipe
from mainspring.core.starting import start_firings
from mainspring.cron import OccurrenceMemo
from mainspring.errors import Conflict, MainspringError
from mainspring.frame import decode
from mainspring.handlers import Outcome, Tasks
from mainspring.instants import US_PER_DAY
from mainspring.metrics import WorkerCounts
from mainspring.model import Run
from mainspring.queue.answers import VERSION, Beacon, Envelope, Hints, Returned
from mainspring.store.memory import MemoryStore
from mainspring.store.protocol import Acceptance
from mainspring.testing.inline import InlineExecutor, is_loop_running
from mainspring.worker.context import context_of
from mainspring.worker.report import report_of

NEVER_US: Final = 10_000 * 365 * US_PER_DAY
"""A period that is never over: what it heals cannot go wrong here."""

REFILL_US: Final = 30 * US_PER_DAY
SLACK_S: Final = 30
STEPS_AT_ONCE_MAX: Final = 10_000
DAYS_AHEAD: Final = 7

TIMES: Final = LeaderTimes(
    tick_us=1,
    arm_ahead_us=0,
    refill_us=REFILL_US,
    horizon_us=2 * REFILL_US,
    sweep_us=NEVER_US,
    claim_us=NEVER_US,
)
LIMITS: Final = LeaderLimits(page_rows=1_000, queue_firings=200_000)


class Drive:
    """One scheduler that leads every shard, and one worker.

    Parameters
    ----------
    start_us
        Database time at first.
    concurrency
        Handlers at a time; what is beyond waits.
    """

    def __init__(
        self,
        tasks: Tasks,
        *,
        start_us: int,
        queues: tuple[str, ...],
        concurrency: int,
        seed: int,
        io_wait_s: float,
    ) -> None:
        self.now_us = start_us
        self.store = MemoryStore(lambda: self.now_us, hints=self._on_hint)
        self.store.make_shards(1)
        self._day = -1
        self._ended: list[Run] = []
        holder_id = self.store.register_holder("scheduler", "driven", "driven")
        worker_id = self.store.register_holder("worker", "driven", "driven")
        self._who = Leadership(0, self.store.take_term(0, holder_id), holder_id)
        frame_numbers = itertools.count(1)
        self._chance = Chance(OccurrenceMemo(), random.Random(seed).random)  # noqa: S311
        self._recipe = Recipe(
            self._chance.memo,
            TIMES.tick_us,
            256,
            lambda: next(frame_numbers),
            CatchUps(SchedulerSettings().catch_up_rate),
        )
        self._leader = ShardLeader(0, TIMES, LIMITS, self._now())
        self._dispatch = Dispatch(silence_us=NEVER_US, unanswered_us=NEVER_US)
        self._dispatch.on_workers({worker_id: "driven"}, self.now_us)
        self._execution = Execution(
            worker_id,
            WorkerLimits(
                concurrency=concurrency,
                window_firings=1_000_000,
                start_ahead_us=0,
                complete_rows=2_000,
                complete_delay_us=0,
                beacon_us=NEVER_US,
                hint_horizon_us=NEVER_US,
            ),
            queues=queues,
            tasks=tasks.names,
            counts=WorkerCounts(),
            on_dropped=_never_dropped,
        )
        self._execution.on_leaders({holder_id: "driven"})
        self._executor = InlineExecutor(
            tasks, lambda: self.now_us, self._on_run_end, io_wait_s=io_wait_s
        )

    def advance_to(self, until_us: int) -> list[Run]:
        """Let everything happen up to and at an instant, in order; returns the runs that ended.

        Raises
        ------
        Conflict
            This thread is within an event loop, whose turn the handlers' loop cannot take.
        MainspringError
            Too much happens at one instant.
        """
        if is_loop_running():
            raise Conflict(
                "the clock of a driven engine is moved from within an event loop",
                hint="Move it in a plain test, or `await asyncio.to_thread(driven.advance, ...)`.",
            )
        self._ended = []
        while True:
            self._do_all()
            next_us = self._next_us()
            if next_us > until_us:
                break
            self.now_us = next_us
        self.now_us = until_us
        return self._ended

    def close(self) -> None:
        """Cancel the handlers that still wait."""
        self._executor.close()

    def _now(self) -> Now:
        return Now(self.now_us, self.now_us, self.now_us)

    def _next_us(self) -> int:
        """Return the next instant at which something may happen, later than now.

        The worker's beacons, which give credit back, are of interest only while frames wait for it.
        """
        handlers_us = self._executor.next_us()
        instants = [self._leader.next_wake_us(self._now())]
        if handlers_us is not None:
            instants.append(handlers_us)
        if self._dispatch.waiting():
            instants.append(self._execution.next_wake_us(self.now_us))
        return max(self.now_us + 1, min(instants))

    def _do_all(self) -> None:
        """Do whatever is to be done at this instant, until there is nothing more."""
        if self.now_us // US_PER_DAY != self._day:
            self._day = self.now_us // US_PER_DAY
            self.store.make_partitions(days_ahead=DAYS_AHEAD)
        for _ in range(STEPS_AT_ONCE_MAX):
            # The worker as often as it has something to do: a look at the leader costs more.
            if not self._work() and not self._lead():
                return
        raise MainspringError(
            f"time stands still: more than {STEPS_AT_ONCE_MAX} steps at one instant",
            hint="Does a handler register a job that is due at once, again and again?",
        )

    def _lead(self) -> bool:
        request, released = self._leader.poll(self._now(), 0)
        self._dispatch.release(released)
        if request is not None:
            answer = carry_out(self.store, self._who, request, self._recipe, self._chance)
            self._leader.on_answer(answer, self._now())
        is_sent = False
        while (send := self._dispatch.next_send(self.now_us)) is not None:
            self._dispatch.on_sent(send, is_sent=True)
            envelope = Envelope(VERSION, self._who.holder_id, send.worker_id, send.seq, "driven")
            self._execution.on_delivery(envelope, decode(send.frame.data))
            is_sent = True
        return request is not None or bool(released) or is_sent

    def _work(self) -> bool:
        self._executor.settle()
        self._executor.expire()
        work = self._execution.poll(self.now_us, is_trusted=True)
        for told in work.answers:
            self._take(told.answer)
        if work.start is not None:
            starts = start_firings(self.store, work.start, slack_s=SLACK_S, wait=_never_wait)
            assert starts is not None
            self._execution.on_started(starts)
        for begin in work.begin:
            frame, i = begin.frame, begin.index
            self._executor.submit(
                begin.run_key,
                context_of(frame, i).facts,
                frame.payload(i),
                float(frame.timeout_s[i]),
            )
        if work.complete is not None:
            results = complete_runs(self.store, work.complete, self._chance)
            count = sum(each.acceptance is Acceptance.ACCEPTED for each in results)
            self._ended += reversed(self.store.recent_runs(limit=count))
            self._execution.on_completed(results, self.now_us)
        return work != Work()

    def _take(self, answer: Beacon | Returned | Hints) -> None:
        """Have the leader hear what the worker said."""
        match answer:
            case Beacon():
                finished, unanswered = self._dispatch.on_beacon(answer, self.now_us)
                assert not unanswered, "nothing is lost here"
                for name in finished:
                    self._leader.on_finished(name.frame_no)
            case Returned():
                place = self._dispatch.on_returned(answer)
                if place is not None:
                    self._leader.on_unanswered(place[0].frame_no, place[1])
            case Hints():
                self._leader.on_hints(
                    np.array(answer.firing_ids, np.int64), np.array(answer.due_us, np.int64)
                )

    def _on_hint(self, _shard: int, due_us: int, firing_id: int) -> None:
        self._leader.on_hints(np.array([firing_id], np.int64), np.array([due_us], np.int64))

    def _on_run_end(self, run_key: int, outcome: Outcome) -> None:
        self._execution.on_run_ended(run_key, report_of(outcome), self.now_us)


def _never_dropped(reason: str) -> None:
    raise AssertionError(f"dropped: {reason}")


def _never_wait(_tries: int) -> bool:
    return False  # a store in memory is always there
