"""One shard's leader: when to refill, claim, sweep and release.  Pure; see core/__init__.

State is a cache of Postgres and can be thrown away at any moment: a wheel of what is due soon, a
page cursor beyond which nothing was claimed yet, and a ledger of the frames this leader has
leased.  A lease, which is a firing and its fence, is in at most one frame of the ledger (I8), and
is claimed anew by that fence only: whatever happened to the firing since wins.

The wheel says *when* to claim, the claim says *who* gets the firing, the fence says whether that
is *still* so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
BEGINNING = (-(2**62), 0)
SWEEP_GAP_MIN_US = 100_000  # a storm of hints makes at most ten sweeps a second
FULL_SWEEP_US = 15_000_000
SWEEP_ROWS = 10_000
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
        self._release_wheel = self._new_wheel(now)
        self._waiting: dict[int, PreparedFrame] = {}
        self._ledger: dict[int, PreparedFrame] = {}
        self._ledger_firings = 0
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
        self._swept_us = now.monotonic_us - SWEEP_GAP_MIN_US
        self.overdue_unleased_count = 0
        self._overdue: set[int] = set()

    @property
    def ledger_firings(self) -> int:
        """How many firings this leader has leased and not yet seen finished."""
        return self._ledger_firings

    @property
    def timers(self) -> int:
        """How many timers the wheel holds."""
        return len(self._wheel)

    def poll(self, now: Now, extension_us: int) -> tuple[Request | None, list[PreparedFrame]]:
        """Return the next request, if none is under way, and the frames whose time has come."""
        self._expire(now)
        released = self._release(now)
        if self._request is not None:
            return None, released
        self._request = self._choose(now, extension_us)
        return self._request, released

    def next_wake_us(self, now: Now) -> int:
        """Return the monotonic instant at which `poll` may have something to do, at the latest."""
        tick_us = self._times.tick_us
        instants = [
            self._next_claim_us,
            self._next_sweep_us,
            self._next_ended_us,
            self._next_refill_us,
        ]
        for wheel, ahead_us in (
            (self._wheel, self._times.arm_ahead_us),
            (self._release_wheel, 0),
        ):
            due_tick = wheel.next_due_tick()
            if due_tick is not None:
                instants.append(now.monotonic_us + due_tick * tick_us - ahead_us - now.low_us)
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
                self._on_swept(request, answer)
            case Ended():
                hints = [
                    (run.firing_id, due)
                    for run, due in zip(answer.runs, answer.due_us, strict=True)
                ]
                self.on_hints(
                    np.array([firing_id for firing_id, _ in hints], np.int64),
                    np.array([due for _, due in hints], np.int64),
                )
            case Failed():
                self._on_failed(request)

    def on_hints(self, firing_ids: Int64s, due_us: Int64s) -> None:
        """Take news of firings that are due again; id 0 stands for any firing of that time.

        A hint is never needed for correctness: the sweep and the next refill find the rows.
        """
        is_early = due_us <= self._cursor[0]
        for firing_id in firing_ids[is_early].tolist():
            if firing_id:
                self._named.setdefault(firing_id, NOT_MINE)
            else:
                self._next_sweep_us = self._swept_us + SWEEP_GAP_MIN_US
        is_soon = ~is_early & (due_us < max(self._horizon_us, self._cursor[0] + 1))
        if is_soon.any():
            self._insert(firing_ids[is_soon], due_us[is_soon])
            if self._request is not None and isinstance(self._request, Refill):
                # The wheel that is being read may not have them.
                self._fresh_hints.append((firing_ids[is_soon], due_us[is_soon]))

    def on_hints_lost(self, now: Now) -> None:
        """Take that hints may have been missed: sweep and refill at once."""
        self._next_sweep_us = now.monotonic_us
        self._next_refill_us = now.monotonic_us

    def on_finished(self, frame_no: int) -> None:
        """Take that a worker is through with a frame; what it did not start it has returned."""
        self._forget(frame_no)

    def on_unanswered(self, frame_no: int, firing_ids: Iterable[int] | None = None) -> None:
        """Claim a frame anew, or some of its firings: lost, returned, or with a dead worker."""
        frame = self._ledger.get(frame_no)
        if frame is None:
            return
        fences = dict(zip(frame.firing_ids.tolist(), frame.fences.tolist(), strict=True))
        if firing_ids is None:
            chosen = list(fences)
            self._forget(frame_no)
        else:
            chosen = [firing_id for firing_id in firing_ids if firing_id in fences]
            self._shrink(frame, chosen)
        for firing_id in chosen:
            self._named[firing_id] = fences[firing_id]

    def hand_back(self) -> tuple[Int64s, Int64s]:
        """Return (ids, fences) of everything in the ledger, which is then empty: the end."""
        frames = list(self._ledger.values())
        self._ledger.clear()
        self._waiting.clear()
        self._ledger_firings = 0
        if not frames:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return (
            np.concatenate([frame.firing_ids for frame in frames]),
            np.concatenate([frame.fences for frame in frames]),
        )

    def _choose(self, now: Now, extension_us: int) -> Request | None:
        room = self._limits.queue_firings - self._ledger_firings
        until_us = now.low_us + self._times.arm_ahead_us
        monotonic_us = now.monotonic_us
        if room > 0 and (self._is_page_wanted or monotonic_us >= self._next_claim_us):
            self._is_page_wanted = False
            self._next_claim_us = monotonic_us + self._times.claim_us
            return ClaimPage(self._cursor, until_us, min(room, self._limits.page_rows))
        if self._named and room > 0:
            return self._claim_named(until_us, min(room, self._limits.page_rows))
        if self._is_full_sweep_wanted or monotonic_us >= self._next_sweep_us:
            full = self._is_full_sweep_wanted or monotonic_us >= self._next_full_sweep_us
            self._is_full_sweep_wanted = False
            self._next_sweep_us = monotonic_us + self._times.sweep_us
            self._swept_us = monotonic_us
            if full:
                self._next_full_sweep_us = monotonic_us + FULL_SWEEP_US
            limit = SWEEP_ROWS + (self._ledger_firings if full else 0)
            return SweepUnleased(self._cursor, full, limit)
        if monotonic_us >= self._next_ended_us:
            self._next_ended_us = monotonic_us + self._times.sweep_us
            return SweepEnded(extension_us)
        if monotonic_us >= self._next_refill_us:
            self._next_refill_us = monotonic_us + self._times.refill_us
            from_us = max(self._cursor[0], until_us - self._times.arm_ahead_us)
            return Refill(from_us, now.high_us + self._times.horizon_us)
        return None

    def _claim_named(self, until_us: int, limit: int) -> ClaimIds:
        chosen = sorted(self._named)[:limit]
        fences = [self._named.pop(firing_id) for firing_id in chosen]
        return ClaimIds(np.array(chosen, np.int64), np.array(fences, np.int64), until_us)

    def _on_prepared(self, request: Request, answer: Prepared) -> None:
        for frame in answer.frames:
            assert frame.frame_no not in self._ledger, "a frame number twice (I8)"
            self._ledger[frame.frame_no] = frame
            self._ledger_firings += len(frame)
            self._waiting[frame.frame_no] = frame
        if answer.frames:
            self._release_wheel.insert(
                np.array([frame.frame_no for frame in answer.frames], np.int64),
                np.array([frame.release_tick for frame in answer.frames], np.int64),
            )
        if isinstance(request, ClaimPage):
            if answer.last is not None:
                assert answer.last > self._cursor, "the page cursor goes forward only"
                self._cursor = answer.last
            if answer.claimed_count >= request.limit:
                self._is_page_wanted = True

    def _on_refilled(self, request: Request, answer: Refilled, now: Now) -> None:
        assert isinstance(request, Refill)
        self._wheel = self._new_wheel(now)
        self._horizon_us = request.until_us
        if answer.is_full and len(answer.due_us):
            # More than the wheel may hold: its horizon ends where the answer does.
            self._horizon_us = int(answer.due_us[-1])
            self._next_refill_us = now.monotonic_us + self._times.refill_us // 4
        self._insert(answer.firing_ids, answer.due_us)
        for firing_ids, due_us in self._fresh_hints:
            self._insert(firing_ids, due_us)
        self._fresh_hints.clear()

    def _on_swept(self, request: Request, answer: Swept) -> None:
        assert isinstance(request, SweepUnleased)
        foreign = answer.firing_ids[answer.is_mine == 0]
        found = set(foreign.tolist())
        self.overdue_unleased_count = len(self._overdue & found)
        self._overdue = found
        for firing_id in foreign.tolist():
            self._named.setdefault(firing_id, NOT_MINE)
        is_mine = answer.is_mine == 1
        if is_mine.any():
            held = [frame.firing_ids for frame in self._ledger.values()]
            known = np.concatenate(held) if held else np.empty(0, np.int64)
            is_lost = is_mine & ~np.isin(answer.firing_ids, known)
            for firing_id, fence in zip(
                answer.firing_ids[is_lost].tolist(), answer.fences[is_lost].tolist(), strict=True
            ):
                self._named[firing_id] = fence
        if answer.is_full:
            self._next_sweep_us = self._swept_us + SWEEP_GAP_MIN_US
            self._is_full_sweep_wanted = request.full and not self._named

    def _on_failed(self, request: Request) -> None:
        # Whether a claim was committed is unknown: what it leased is ours and not in the ledger.
        if isinstance(request, ClaimPage | ClaimIds):
            self._is_full_sweep_wanted = True
            self._is_page_wanted = True
        if isinstance(request, ClaimIds):
            for firing_id, fence in zip(
                request.firing_ids.tolist(), request.fences.tolist(), strict=True
            ):
                self._named.setdefault(firing_id, fence)
        if isinstance(request, SweepUnleased):
            self._is_full_sweep_wanted = request.full
        if isinstance(request, Refill):
            self._next_refill_us = self._next_claim_us
            for firing_ids, due_us in self._fresh_hints:
                self._insert(firing_ids, due_us)
            self._fresh_hints.clear()

    def _expire(self, now: Now) -> None:
        until_tick = (now.low_us + self._times.arm_ahead_us) // self._times.tick_us
        if until_tick >= self._wheel.now_tick:
            firing_ids, _ = self._wheel.advance(until_tick)
            self._is_page_wanted |= len(firing_ids) > 0
        self._wheel.cascade(10_000)

    def _release(self, now: Now) -> list[PreparedFrame]:
        tick = now.low_us // self._times.tick_us
        if tick < self._release_wheel.now_tick:
            return []  # the database clock was set back: nothing is released until it catches up
        frame_nos, _ = self._release_wheel.advance(tick)
        released = [self._waiting.pop(no) for no in frame_nos.tolist() if no in self._waiting]
        for frame in released:
            assert int(frame.due_us.max()) <= now.low_us, "a frame is early (I7)"
        return released

    def _insert(self, firing_ids: Int64s, due_us: Int64s) -> None:
        is_finite = due_us < INFINITY_US
        ticks = -(-due_us[is_finite] // self._times.tick_us)
        self._wheel.insert(np.ascontiguousarray(firing_ids[is_finite]), ticks)

    def _new_wheel(self, now: Now) -> Wheel:
        return Wheel(now.low_us // self._times.tick_us, geometry=DEFAULT_GEOMETRY)

    def _forget(self, frame_no: int) -> None:
        frame = self._ledger.pop(frame_no, None)
        self._waiting.pop(frame_no, None)
        if frame is not None:
            self._ledger_firings -= len(frame)

    def _shrink(self, frame: PreparedFrame, gone: list[int]) -> None:
        stays = ~np.isin(frame.firing_ids, np.array(gone, np.int64))
        self._ledger_firings -= len(frame) - int(stays.sum())
        self._ledger[frame.frame_no] = PreparedFrame(
            shard=frame.shard,
            frame_no=frame.frame_no,
            queue=frame.queue,
            task=frame.task,
            release_tick=frame.release_tick,
            firing_ids=frame.firing_ids[stays],
            fences=frame.fences[stays],
            due_us=frame.due_us[stays],
            data=frame.data,
        )
