"""A worker's decisions: what to hold, start, run, complete and answer.  Pure; see core/__init__.

A frame that arrived is held; of what is held only as many firings are started as there is room
for, so a slow handler does not run out its neighbours' leases.  Live ones go before catch-up, which
also has no more than half of the slots: what falls due meanwhile finds one.  Started firings wait
in a short line for a slot.  Ends are completed in batches, one batch under way at a time.

What its leaders hear of it is `holding`'s part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mainspring.core.completion import Completed, PendingEnd
from mainspring.core.ending import Report
from mainspring.core.holding import AnswerTo, Held, Holding
from mainspring.frame import Frame
from mainspring.instants import INFINITY_US
from mainspring.metrics import WorkerCounts
from mainspring.model import RunStatus
from mainspring.queue.answers import Envelope
from mainspring.store.protocol import Acceptance, Action, Starts

Int64s = NDArray[np.int64]
START_ROWS_MAX = 2_000
RATE_WINDOW_US = 200_000
RATE_WEIGHT = 0.3
ACCEPTED = frozenset({Acceptance.ACCEPTED, Acceptance.REPLAYED})


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """How much a worker takes on; see WorkerSettings for the reasons."""

    concurrency: int
    window_firings: int
    start_ahead_us: int
    complete_rows: int
    complete_delay_us: int
    beacon_us: int
    hint_horizon_us: int


@dataclass(frozen=True, slots=True, eq=False)
class StartRequest:
    """Firings to start now, parallel arrays int64 of shape (n,)."""

    worker_id: int
    firing_ids: Int64s
    fences: Int64s
    timeouts_s: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class RunBegin:
    """A started firing to run now: row `index` of `frame`."""

    run_key: int
    frame: Frame
    index: int
    started_us: int


@dataclass(slots=True)
class Work:
    """What a driver is to do now."""

    start: StartRequest | None = None
    begin: list[RunBegin] = field(default_factory=list)
    complete: list[PendingEnd] | None = None
    answers: list[AnswerTo] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Run:
    held: Held
    index: int
    started_us: int


class Execution:
    """The decisions of one worker process."""

    def __init__(
        self,
        worker_id: int,
        limits: WorkerLimits,
        *,
        queues: tuple[str, ...],
        tasks: tuple[str, ...],
        counts: WorkerCounts,
        on_dropped: Callable[[str], None],
    ) -> None:
        self.counts = counts
        self._limits = limits
        self._holding = Holding(
            worker_id,
            window_firings=limits.window_firings,
            beacon_us=limits.beacon_us,
            queues=queues,
            tasks=tasks,
            on_dropped=on_dropped,
        )
        self._live: deque[Held] = deque()
        self._catch_up: deque[Held] = deque()
        self._catch_up_runs = 0
        self._starting: dict[int, tuple[Held, int]] | None = None
        self._runnable: deque[int] = deque()
        self._runs: dict[int, _Run] = {}
        self._running_count = 0
        self._next_key = 1
        self._ends: list[tuple[_Run, PendingEnd]] = []
        self._first_end_us = 0
        self._completing: list[tuple[_Run, PendingEnd]] | None = None
        self._rate_per_s = 0.0
        self._rate_since_us: int | None = None
        self._rate_count = 0

    @property
    def worker_id(self) -> int:
        """The holder id under which this worker starts firings."""
        return self._holding.worker_id

    @property
    def draining(self) -> bool:
        """Whether it takes nothing more."""
        return self._holding.draining

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, waits to run, or waits to be completed."""
        return not (self._runs or self._ends or self._completing or self._starting)

    @property
    def running_count(self) -> int:
        """How many handlers run now."""
        return self._running_count

    @property
    def held_count(self) -> int:
        """How many firings are in hand and not finished."""
        return self._holding.firing_count

    def on_leaders(self, addresses: dict[int, str]) -> None:
        """Take which schedulers are alive; what is not started of the others is dropped."""
        self._holding.on_leaders(addresses)
        self._live = deque(filter(self._holding.holds, self._live))
        self._catch_up = deque(filter(self._holding.holds, self._catch_up))

    def on_delivery(self, envelope: Envelope, frame: Frame) -> None:
        """Take a frame; what is not for this worker, or comes twice, is dropped and counted."""
        held = self._holding.on_delivery(envelope, frame)
        if held is not None:
            (self._catch_up if frame.catch_up(0) else self._live).append(held)

    def poll(self, monotonic_us: int, *, is_trusted: bool) -> Work:
        """Return what is to be done now; `is_trusted` says whether a start may be asked for."""
        self._measure(monotonic_us)
        work = Work()
        if is_trusted and not self.draining and self._starting is None:
            work.start = self._choose_starts()
        while self._runnable and self._running_count < self._limits.concurrency:
            run_key = self._runnable.popleft()
            run = self._runs[run_key]
            self._running_count += 1
            work.begin.append(RunBegin(run_key, run.held.frame, run.index, run.started_us))
        if self._completing is None and self._is_flush_due(monotonic_us):
            rows = self._limits.complete_rows
            self._completing, self._ends = self._ends[:rows], self._ends[rows:]
            self._first_end_us = monotonic_us
            work.complete = [pending for _, pending in self._completing]
        work.answers = self._holding.answers(monotonic_us)
        return work

    def next_wake_us(self, monotonic_us: int) -> int:
        """Return the monotonic instant at which `poll` may have something to do, at the latest."""
        instants = [self._holding.next_answer_us(monotonic_us)]
        if self._ends and self._completing is None:
            instants.append(self._first_end_us + self._limits.complete_delay_us)
        return max(monotonic_us, min(instants))

    def on_started(self, starts: Starts) -> None:
        """Take what the store started of the request under way; the rest is refused."""
        assert self._starting is not None, "starts without a request"
        starting, self._starting = self._starting, None
        rows = zip(
            starts.firing_id.tolist(),
            starts.fence.tolist(),
            starts.started_us.tolist(),
            strict=True,
        )
        for firing_id, fence, started_us in rows:
            held, index = starting.pop(firing_id)
            assert int(held.frame.fence[index]) == fence, "start carries the fence (I3)"
            run_key = self._next_key
            self._next_key += 1
            self._runs[run_key] = _Run(held, index, started_us)
            self._catch_up_runs += held.frame.catch_up(index)
            self._runnable.append(run_key)
            self.counts.started += 1
        refused: dict[int, tuple[Held, list[int]]] = {}
        for held, index in starting.values():
            refused.setdefault(id(held), (held, []))[1].append(index)
            self.counts.refused_starts += 1
        for held, indices in refused.values():
            self._holding.give_back(held, indices)

    def row_of(self, run_key: int) -> tuple[Frame, int]:
        """Return the frame and the row in it of a run that has not ended."""
        run = self._runs[run_key]
        return run.held.frame, run.index

    def letters_of(self, results: list[Completed]) -> list[tuple[Frame, int, Completed]]:
        """Return the rows of those that became dead letters; before `on_completed`."""
        assert self._completing is not None, "completions without a request"
        return [
            (run.held.frame, run.index, result)
            for (run, _), result in zip(self._completing, results, strict=True)
            if result.end.is_letter and result.acceptance in ACCEPTED
        ]

    def on_run_ended(self, run_key: int, report: Report, monotonic_us: int) -> None:
        """Take the end of a run; it is completed with the next batch."""
        run = self._runs.pop(run_key)
        self._catch_up_runs -= run.held.frame.catch_up(run.index)
        self._running_count -= 1
        self._rate_count += 1
        if not self._ends:
            self._first_end_us = monotonic_us
        frame, i = run.held.frame, run.index
        self._ends.append(
            (
                run,
                PendingEnd(
                    firing_id=int(frame.firing_id[i]),
                    fence=int(frame.fence[i]),
                    rev=int(frame.rev[i]),
                    job_id=int(frame.job_id[i]),
                    scheduled_us=int(frame.scheduled_us[i]),
                    next_us=int(frame.next_us[i]),
                    report=report,
                ),
            )
        )

    def on_completed(self, results: list[Completed], database_us: int) -> None:
        """Take the answers to the completion under way, parallel to what was asked."""
        assert self._completing is not None, "completions without a request"
        completing, self._completing = self._completing, None
        for (run, _), result in zip(completing, results, strict=True):
            self._holding.finish(run.held, 1)
            self._count(result)
            is_accepted = result.acceptance in ACCEPTED
            is_soon = result.due_us - database_us <= self._limits.hint_horizon_us
            if is_accepted and result.due_us != INFINITY_US and is_soon:
                self._holding.hint(run.held, result.pending.firing_id, result.due_us)

    def on_drain(self) -> None:
        """Stop taking and starting; give back what was not started, finish what was."""
        self._holding.on_drain()
        for held in (*self._live, *self._catch_up):
            self._holding.give_back(held, range(held.begun, len(held.frame)))
        self._live.clear()
        self._catch_up.clear()

    def on_new_identity(self, worker_id: int) -> None:
        """Take a new holder id: what the old one held and had not started is not ours any more.

        What was asked to be started under the old id is run if it was started; it ends by its
        fence, unless a leader has ended it as lost by then.
        """
        self._holding.on_new_identity(worker_id)
        self._live.clear()
        self._catch_up.clear()

    def _choose_starts(self) -> StartRequest | None:
        if not self._live and not self._catch_up:
            return None
        ahead = self._rate_per_s * self._limits.start_ahead_us / 1_000_000
        room = int(self._limits.concurrency + ahead) - len(self._runs)
        starting: dict[int, tuple[Held, int]] = {}
        parts = _take(self._live, min(room, START_ROWS_MAX), starting)
        slots = max(1, self._limits.concurrency // 2)
        room = min(room - len(starting), slots - self._catch_up_runs)
        parts += _take(self._catch_up, min(room, START_ROWS_MAX - len(starting)), starting)
        if not parts:
            return None
        self._starting = starting
        return StartRequest(
            self.worker_id,
            np.concatenate([held.frame.firing_id[a:b] for held, a, b in parts]),
            np.concatenate([held.frame.fence[a:b] for held, a, b in parts]),
            np.concatenate([held.frame.timeout_s[a:b].astype(np.int64) for held, a, b in parts]),
        )

    def _is_flush_due(self, monotonic_us: int) -> bool:
        if not self._ends:
            return False
        return (
            len(self._ends) >= self._limits.complete_rows
            or monotonic_us - self._first_end_us >= self._limits.complete_delay_us
            or not self._runs
        )

    def _count(self, result: Completed) -> None:
        match result.acceptance:
            case Acceptance.ACCEPTED | Acceptance.REPLAYED:
                self.counts.completed += result.end.status is RunStatus.SUCCESS
                self.counts.retried += result.end.action is Action.RETRY
                self.counts.dead += result.end.is_letter
            case Acceptance.STALE | Acceptance.CHANGED:
                self.counts.stale_completions += 1

    def _measure(self, monotonic_us: int) -> None:
        if self._rate_since_us is None:
            self._rate_since_us = monotonic_us
            return
        span_us = monotonic_us - self._rate_since_us
        if span_us < RATE_WINDOW_US:
            return
        rate = self._rate_count * 1_000_000 / span_us
        self._rate_per_s += RATE_WEIGHT * (rate - self._rate_per_s)
        self._rate_since_us, self._rate_count = monotonic_us, 0


def _take(
    backlog: deque[Held], room: int, starting: dict[int, tuple[Held, int]]
) -> list[tuple[Held, int, int]]:
    """Take up to `room` firings off a backlog into `starting`; returns (frame, first, last)."""
    parts: list[tuple[Held, int, int]] = []
    while room > 0 and backlog:
        held = backlog[0]
        first, last = held.begun, min(held.begun + room, len(held.frame))
        ids = held.frame.firing_id[first:last].tolist()
        # One statement cannot start a firing twice: a second copy waits for the next.
        if any(firing_id in starting for firing_id in ids):
            break
        starting.update((firing_id, (held, first + k)) for k, firing_id in enumerate(ids))
        parts.append((held, first, last))
        held.begun = last
        room -= last - first
        if held.begun == len(held.frame):
            backlog.popleft()
    return parts
