"""One shard's leader: when to refill, claim, sweep and release.  Pure; see core/__init__.

State is a cache of Postgres and can be thrown away at any moment: a wheel of what is due soon, a
page cursor beyond which nothing was claimed yet, and a ledger of the frames this leader has
leased.  A lease is claimed anew by its fence only: whatever happened to the firing since wins.

The wheel says *when* to claim, the claim says *who* gets the firing, the fence says whether that
is *still* so.

Known limit: firings whose task no worker knows stay in the ledger.  Once they fill it, nothing
more of the shard is claimed until such a worker comes or the jobs are deleted; `Dispatch.waiting`
shows them by task.  A limit per task would only move the waiting into the sweep, which would claim
them again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainspring.core.ledger import Ledger
from mainspring.core.now import Now
from mainspring.core.requests import (
    Answer,
    ClaimIds,
    ClaimPage,
    Ended,
    Failed,
    Prepared,
    PreparedFrame,
    Refill,
    Refilled,
    Request,
    SweepEnded,
    SweepUnleased,
    Swept,
)
from mainspring.instants import INFINITY_US
from mainspring.wheel import DEFAULT_GEOMETRY, Wheel

Int64s = NDArray[np.int64]
BEGINNING = (-(2**63), 0)  # Postgres' -infinity
ID_MAX = 2**63 - 1
SWEEP_GAP_MIN_US = 100_000  # a storm of hints makes at most ten sweeps a second
FULL_SWEEP_US = 15_000_000
SWEEP_ROWS = 10_000
SWEEP_SHARE = 100
"""A sweep walks all that is due in the shard, so in a burst it rests a hundred times as long as it
took: at most a hundredth of the time for either kind and shard, and never longer than ten periods.
"""

SWEEP_REST_PERIODS_MAX = 10
FAILURE_PAUSE_US = 100_000  # a store that is down is not asked in a busy loop
SET_BACK_US = 1_000_000  # less is waited for: readings of the clock differ a little
NOT_MINE = -1


@dataclass(frozen=True, slots=True)
class LeaderTimes:
    """The periods of a leader, microseconds; see SchedulerSettings for their reasons."""

    tick_us: int
    arm_ahead_us: int
    refill_us: int
    horizon_us: int
    sweep_us: int
    claim_us: int = 1_000_000
    """A range claim runs this often whatever the wheel expects, so a lost hint costs a second."""


@dataclass(frozen=True, slots=True)
class LeaderLimits:
    """The bounds of a leader's memory and of its statements, in firings."""

    page_rows: int
    queue_firings: int


class ShardLeader:
    """The decisions of one term on one shard."""

    def __init__(self, shard: int, times: LeaderTimes, limits: LeaderLimits, now: Now) -> None:
        self.shard = shard
        self._times = times
        self._limits = limits
        self._wheel = self._new_wheel(now)
        self._ledger = Ledger(times.tick_us, now.low_us)
        self._cursor = BEGINNING
        self._named: dict[int, int] = {}
        self._request: Request | None = None
        self._fresh_hints: list[tuple[Int64s, Int64s]] = []
        self._horizon_us = 0
        self._is_page_wanted = True
        self._is_full_sweep_wanted = True
        self._next_claim_us = now.monotonic_us
        self._next_sweep_us = now.monotonic_us
        self._next_ended_us = now.monotonic_us
        self._next_refill_us = now.monotonic_us
        self._next_full_sweep_us = now.monotonic_us + FULL_SWEEP_US
        self._next_request_us = now.monotonic_us
        self._asked_us = now.monotonic_us
        self._reached_us = now.low_us
        self._swept_us = now.monotonic_us - SWEEP_GAP_MIN_US
        self.overdue_unleased_count = 0
        self._overdue: set[int] = set()
        # Whoever had its turn goes to the end, so that a long backlog of pages starves nothing.
        self._turns: list[Callable[[Now, int], Request | None]] = [
            self._page,
            self._claim_named,
            self._sweep_unleased,
            self._sweep_ended,
            self._refill,
        ]

    @property
    def ledger_firings(self) -> int:
        """How many firings this leader has leased and not yet seen finished."""
        return len(self._ledger)

    @property
    def timers(self) -> int:
        """How many timers the wheel holds."""
        return len(self._wheel)

    def poll(self, now: Now, extension_us: int) -> tuple[Request | None, list[PreparedFrame]]:
        """Return the next request, if none is under way, and the frames whose time has come."""
        self._expire(now)
        released = self._ledger.release(now.low_us)
        if self._request is not None or now.monotonic_us < self._next_request_us:
            return None, released
        for place, choose in enumerate(self._turns):
            self._request = choose(now, extension_us)
            if self._request is not None:
                self._asked_us = now.monotonic_us
                self._turns.append(self._turns.pop(place))
                break
        return self._request, released

    def next_wake_us(self, now: Now) -> int:
        """Return the monotonic instant at which `poll` may have something to do, at the latest.

        After a `poll` that asked for nothing it is later than `now`.  What else there is to do
        comes with an answer, a hint, or the end of a frame.
        """
        monotonic_minus_database_us = now.monotonic_us - now.low_us
        instants = [now.monotonic_us + self._times.claim_us]
        release_us = self._ledger.next_release_us()
        if release_us is not None:
            instants.append(release_us + monotonic_minus_database_us)
        if self._request is None:
            wanted = [self._next_sweep_us, self._next_ended_us, self._next_refill_us]
            due_tick = self._wheel.next_due_tick()
            if self._room > 0:
                wanted.append(self._next_claim_us)
                if self._is_page_wanted or self._named:
                    wanted.append(now.monotonic_us)
                if due_tick is not None:
                    # A database clock a little behind what was reached is waited for.
                    due_tick = max(due_tick, self._wheel.now_tick)
                    claim_us = due_tick * self._times.tick_us - self._times.arm_ahead_us
                    wanted.append(claim_us + monotonic_minus_database_us)
            instants.append(max(min(wanted), self._next_request_us))
        return max(now.monotonic_us, min(instants))

    def on_answer(self, answer: Answer, now: Now) -> None:
        """Take the answer to the request under way."""
        request, self._request = self._request, None
        assert request is not None, "an answer without a request"
        match answer:
            case Prepared():
                self._on_prepared(request, answer)
            case Refilled():
                self._on_refilled(request, answer, now)
            case Swept():
                self._next_sweep_us = self._rested_us(self._next_sweep_us, now)
                self._on_swept(request, answer)
            case Ended():
                self._next_ended_us = self._rested_us(self._next_ended_us, now)
                if answer.is_full:
                    self._next_ended_us = now.monotonic_us
                self.on_hints(
                    np.array([run.firing_id for run in answer.runs], np.int64),
                    np.array(answer.due_us, np.int64),
                )
            case Failed():
                self._on_failed(request, now)

    def on_hints(self, firing_ids: Int64s, due_us: Int64s) -> None:
        """Take news of firings that are due again; id 0 stands for any firing of that time.

        A hint is never needed for correctness: the sweep and the next refill find the rows.
        """
        is_early = due_us <= self._cursor[0]
        for firing_id in firing_ids[is_early].tolist():
            if firing_id:
                self._named.setdefault(firing_id, NOT_MINE)
            else:
                self._next_sweep_us = min(self._next_sweep_us, self._swept_us + SWEEP_GAP_MIN_US)
        horizon_us = self._horizon_us
        if isinstance(self._request, Refill):
            horizon_us = max(horizon_us, self._request.until_us)
        is_soon = ~is_early & (due_us < max(horizon_us, self._cursor[0] + 1))
        if is_soon.any():
            self._insert(firing_ids[is_soon], due_us[is_soon])
            if isinstance(self._request, Refill):
                # The wheel that is being read may not have them.
                self._fresh_hints.append((firing_ids[is_soon], due_us[is_soon]))

    def on_hints_lost(self, now: Now) -> None:
        """Take that hints may have been missed: sweep and refill at once."""
        self._next_sweep_us = now.monotonic_us
        self._next_refill_us = now.monotonic_us

    def on_worker_gone(self, now: Now) -> None:
        """Take that a worker is dead or has left: its runs are to be ended at once."""
        self._next_ended_us = now.monotonic_us

    def on_finished(self, frame_no: int) -> None:
        """Take that a worker is through with a frame; what it did not start it has returned."""
        self._ledger.forget(frame_no)

    def on_unanswered(self, frame_no: int, firing_ids: Iterable[int] | None = None) -> None:
        """Claim a frame anew, or some of its firings: lost, returned, or with a dead worker."""
        self._named.update(self._ledger.take_out(frame_no, firing_ids))

    def hand_back(self) -> tuple[Int64s, Int64s]:
        """Return (ids, fences) of everything in the ledger, which is then empty: the end."""
        return self._ledger.hand_back()

    @property
    def _room(self) -> int:
        return self._limits.queue_firings - len(self._ledger)

    def _until_us(self, now: Now) -> int:
        return now.low_us + self._times.arm_ahead_us

    def _page(self, now: Now, _extension_us: int) -> Request | None:
        is_due = self._is_page_wanted or now.monotonic_us >= self._next_claim_us
        if not is_due or self._room <= 0:
            return None
        self._is_page_wanted = False
        self._next_claim_us = now.monotonic_us + self._times.claim_us
        limit = min(self._room, self._limits.page_rows)
        return ClaimPage(self._cursor, self._until_us(now), limit)

    def _claim_named(self, now: Now, _extension_us: int) -> Request | None:
        if not self._named or self._room <= 0:
            return None
        chosen = sorted(self._named)[: min(self._room, self._limits.page_rows)]
        fences = [self._named.pop(firing_id) for firing_id in chosen]
        return ClaimIds(np.array(chosen, np.int64), np.array(fences, np.int64), self._until_us(now))

    def _sweep_unleased(self, now: Now, _extension_us: int) -> Request | None:
        monotonic_us = now.monotonic_us
        if monotonic_us < self._next_sweep_us:
            return None
        is_full = self._is_full_sweep_wanted or monotonic_us >= self._next_full_sweep_us
        self._next_sweep_us = monotonic_us + self._times.sweep_us
        self._swept_us = monotonic_us
        if not is_full:
            return SweepUnleased(self._cursor, full=False, limit=SWEEP_ROWS)
        self._is_full_sweep_wanted = False
        self._next_full_sweep_us = monotonic_us + FULL_SWEEP_US
        # What an earlier term of this holder, or a claim whose answer was lost, has leased may lie
        # beyond the cursor, where no page finds it: pages pass over what this holder has.
        bound = max(self._cursor, (self._until_us(now), ID_MAX))
        return SweepUnleased(bound, full=True, limit=SWEEP_ROWS + len(self._ledger))

    def _sweep_ended(self, now: Now, extension_us: int) -> Request | None:
        if now.monotonic_us < self._next_ended_us:
            return None
        self._next_ended_us = now.monotonic_us + self._times.sweep_us
        return SweepEnded(extension_us, now.high_us)

    def _rested_us(self, planned_us: int, now: Now) -> int:
        """Return when the sweep that has just been answered may be repeated."""
        if planned_us != self._asked_us + self._times.sweep_us:
            return planned_us  # wanted anew while it was under way
        rest_us = SWEEP_SHARE * (now.monotonic_us - self._asked_us)
        rest_us = min(rest_us, SWEEP_REST_PERIODS_MAX * self._times.sweep_us)
        return max(planned_us, self._asked_us + rest_us)

    def _refill(self, now: Now, _extension_us: int) -> Request | None:
        if now.monotonic_us < self._next_refill_us:
            return None
        self._next_refill_us = now.monotonic_us + self._times.refill_us
        from_us = max(self._cursor[0], now.low_us)
        return Refill(from_us, max(from_us, now.high_us) + self._times.horizon_us)

    def _on_prepared(self, request: Request, answer: Prepared) -> None:
        self._ledger.add(answer.frames)
        if isinstance(request, ClaimPage):
            if answer.last is not None:
                assert answer.last > request.after, "a page lies beyond its cursor"
                # Not past what `_set_back` may have chosen meanwhile: pages are cheap.
                if self._cursor == request.after:
                    self._cursor = answer.last
            if answer.claimed_count >= request.limit:
                self._is_page_wanted = True
        if len(answer.put_off_ids):
            self.on_hints(answer.put_off_ids, answer.put_off_us)

    def _on_refilled(self, request: Request, answer: Refilled, now: Now) -> None:
        assert isinstance(request, Refill)
        self._wheel = self._new_wheel(now)
        self._horizon_us = request.until_us
        if answer.is_full and len(answer.due_us):
            # More than the wheel may hold: its horizon ends where the answer does.
            self._horizon_us = int(answer.due_us[-1])
            self._next_refill_us = now.monotonic_us + self._times.refill_us // 4
        self._insert(answer.firing_ids, answer.due_us)
        self._take_fresh_hints()

    def _on_swept(self, request: Request, answer: Swept) -> None:
        assert isinstance(request, SweepUnleased)
        foreign = answer.firing_ids[answer.is_mine == 0].tolist()
        if not request.full:  # a full sweep reaches beyond what is overdue
            found = set(foreign)
            self.overdue_unleased_count = len(self._overdue & found)
            self._overdue = found
        for firing_id in foreign:
            self._named.setdefault(firing_id, NOT_MINE)
        is_mine = answer.is_mine == 1
        if is_mine.any():
            mine = self._ledger.unknown(answer.firing_ids[is_mine], answer.fences[is_mine])
            self._named.update(mine)
        if answer.is_full:
            self._next_sweep_us = self._swept_us + SWEEP_GAP_MIN_US
            self._is_full_sweep_wanted |= request.full

    def _on_failed(self, request: Request, now: Now) -> None:
        # Whether a claim was committed is unknown: what it leased is ours and not in the ledger.
        self._next_request_us = now.monotonic_us + FAILURE_PAUSE_US
        match request:
            case ClaimPage():
                self._is_page_wanted = True
                self._want_full_sweep()
            case ClaimIds():
                for firing_id, fence in zip(
                    request.firing_ids.tolist(), request.fences.tolist(), strict=True
                ):
                    self._named.setdefault(firing_id, fence)
                self._want_full_sweep()
            case SweepUnleased():
                if request.full:
                    self._want_full_sweep()
            case SweepEnded():
                self._next_ended_us = self._next_request_us
            case Refill():
                self._next_refill_us = self._next_request_us
                self._take_fresh_hints()

    def _want_full_sweep(self) -> None:
        self._is_full_sweep_wanted = True
        self._next_sweep_us = min(self._next_sweep_us, self._swept_us + SWEEP_GAP_MIN_US)

    def _expire(self, now: Now) -> None:
        if now.low_us < self._reached_us - SET_BACK_US:
            self._set_back(now)
        self._reached_us = max(self._reached_us, now.low_us)
        until_tick = self._until_us(now) // self._times.tick_us
        if until_tick >= self._wheel.now_tick:
            firing_ids, _ = self._wheel.advance(until_tick)
            self._is_page_wanted |= len(firing_ids) > 0
        self._wheel.cascade(10_000)

    def _set_back(self, now: Now) -> None:
        """Go back with the database clock: what is due by it again must not wait for the wheels.

        Pages pass over what this leader has, so that walking again costs time and nothing else.
        """
        self._reached_us = now.low_us
        self._wheel = self._new_wheel(now)
        self._ledger.set_back(now.low_us)
        self._cursor = min(self._cursor, (self._until_us(now), ID_MAX))
        self._horizon_us = 0
        self._next_refill_us = now.monotonic_us
        self._is_page_wanted = True

    def _insert(self, firing_ids: Int64s, due_us: Int64s) -> None:
        is_finite = due_us < INFINITY_US
        ticks = -(-due_us[is_finite] // self._times.tick_us)
        self._wheel.insert(np.ascontiguousarray(firing_ids[is_finite]), ticks)

    def _take_fresh_hints(self) -> None:
        for firing_ids, due_us in self._fresh_hints:
            self._insert(firing_ids, due_us)
        self._fresh_hints.clear()

    def _new_wheel(self, now: Now) -> Wheel:
        return Wheel(now.low_us // self._times.tick_us, geometry=DEFAULT_GEOMETRY)
