"""The life of a firing up to its start, the claim apart: refill, sweep, missed, hand back, start.

The rules of the first part of sql/firing.sql.  Every write that gives or ends a lease raises the
fence; start only carries it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mainspring.instants import US_PER_S
from mainspring.model import FiringId, HolderId, JobId, Run, RunStatus, Trigger
from mainspring.store.memory.jobs import remove_finished_jobs
from mainspring.store.memory.state import Facet, Firing, State
from mainspring.store.protocol import Int64s, Missed, MissedStep, StartedRun, Starts


class MemoryFirings(Facet):
    """The facet `FiringStore` up to start."""

    def refill(
        self, shard: int, from_us: int, until_us: int, *, limit: int
    ) -> tuple[Int64s, Int64s]:
        """Return ids and due times with from_us <= due_us < until_us, earliest first."""
        state = self._state
        ids: list[int] = []
        dues: list[int] = []
        with state.lock:
            for due_us, firing_id in islice(state.due[shard].scan_from((from_us, 0)), limit):
                if due_us >= until_us:
                    break
                ids.append(firing_id)
                dues.append(due_us)
        return np.array(ids, np.int64), np.array(dues, np.int64)

    def sweep_unleased(
        self, shard: int, holder_id: int, *, cursor: tuple[int, int], full: bool, limit: int
    ) -> tuple[Int64s, Int64s, NDArray[np.uint8]]:
        """Return (firing ids, fences, is_mine) of unstarted rows at or before `cursor`."""
        state = self._state
        swept: list[Firing] = []
        with state.lock:
            for key in state.due[shard]:
                if key > cursor or len(swept) >= limit:
                    break
                row = state.firings[FiringId(key[1])]
                if row.started_us is None and (full or row.locked_by != holder_id):
                    swept.append(row)
            return (
                np.array([row.firing_id for row in swept], np.int64),
                np.array([row.fence for row in swept], np.int64),
                np.array([row.locked_by == holder_id for row in swept], np.uint8),
            )

    def sweep_ended(self, shard: int, *, extension_us: int, limit: int) -> list[StartedRun]:
        """Return started firings whose worker is dead or gone, or whose lease ran out."""
        state = self._state
        with state.lock:
            now_us = state.database_now()
            rows = (state.firings[firing_id] for firing_id in sorted(state.started[shard]))
            ended = (row for row in rows if _is_ended(state, row, now_us, extension_us))
            return [started_run(row) for row in islice(ended, limit)]

    def record_missed(
        self, shard: int, term: int, holder_id: int, rows: Sequence[Missed]
    ) -> dict[FiringId, int]:
        """Record what becomes of leased firings; a copy of the call matches nothing."""
        state = self._state
        fences: dict[FiringId, int] = {}
        over: list[JobId] = []
        with state.lock:
            state.require_term(shard, term, holder_id)
            now_us = state.database_now()
            for missed in rows:
                row = _leased(state, missed.firing_id, missed.fence, holder_id)
                if row is None:
                    continue
                if missed.dropped_count > 0:
                    state.record_run(_dropped(row, missed, now_us), now_us)
                row.fence += 1
                fences[row.firing_id] = row.fence
                if missed.step is MissedStep.REMOVE:
                    state.remove_firing(row)
                    over.append(row.job_id)
                    continue
                row.scheduled_us = missed.scheduled_us
                row.catch_up = missed.is_catch_up
                if missed.step is MissedStep.WAIT:
                    row.locked_by = None
                    row.attempt = 0
                    state.move_firing(row, missed.due_us)
            remove_finished_jobs(state, over)
        return fences

    def hand_back(self, holder_id: int, firing_ids: Int64s, fences: Int64s) -> Int64s:
        """End leases of this holder that were never started; returns the ids."""
        state = self._state
        ended: list[int] = []
        with state.lock:
            for firing_id, fence in zip(firing_ids.tolist(), fences.tolist(), strict=True):
                row = _leased(state, firing_id, fence, holder_id)
                if row is not None:
                    row.fence += 1
                    row.locked_by = None
                    ended.append(firing_id)
        return np.array(sorted(ended), np.int64)

    def start(
        self,
        holder_id: int,
        firing_ids: Int64s,
        fences: Int64s,
        timeouts_s: Int64s,
        *,
        slack_s: int,
    ) -> Starts:
        """Start those firings whose fence stands, that are due, and whose worker is alive."""
        state = self._state
        started: dict[int, Firing] = {}
        with state.lock:
            now_us = state.database_now()
            wanted = zip(firing_ids.tolist(), fences.tolist(), timeouts_s.tolist(), strict=True)
            for firing_id, fence, timeout_s in wanted if state.is_alive(holder_id) else ():
                row = state.firings.get(firing_id)
                if row is None or row.fence != fence or row.due_us > now_us:
                    continue
                if row.started_us is None:
                    row.started_us = now_us
                    state.started[row.shard].add(row.firing_id)
                elif row.locked_by != holder_id:
                    continue
                row.locked_by = HolderId(holder_id)
                row.locked_until_us = now_us + (timeout_s + slack_s) * US_PER_S
                started[firing_id] = row
            rows = [started[firing_id] for firing_id in sorted(started)]
            return Starts(
                np.array([row.firing_id for row in rows], np.int64),
                np.array([row.fence for row in rows], np.int64),
                np.array([row.started_us for row in rows], np.int64),
                np.array([row.locked_until_us for row in rows], np.int64),
            )


def started_run(row: Firing) -> StartedRun:
    """Show what a decision about a started firing depends on."""
    assert row.locked_by is not None, row.firing_id
    return StartedRun(
        row.firing_id,
        row.job_id,
        row.fence,
        row.rev,
        row.attempt,
        row.attempts_spent,
        row.trigger,
        row.scheduled_us,
        row.locked_by,
    )


def _is_ended(state: State, row: Firing, now_us: int, extension_us: int) -> bool:
    """Whether a started firing's worker is gone, or its lease ran out."""
    if row.due_us > now_us:
        return False
    assert row.locked_until_us is not None, row.firing_id
    return not state.is_alive(row.locked_by) or row.locked_until_us + extension_us < now_us


def _leased(state: State, firing_id: int, fence: int, holder_id: int) -> Firing | None:
    """Return the firing if this lease of it stands and nobody has started it."""
    row = state.firings.get(FiringId(firing_id))
    if row is None or row.fence != fence or row.started_us is not None:
        return None
    return row if row.locked_by == holder_id else None


def _dropped(row: Firing, missed: Missed, now_us: int) -> Run:
    """Return the history row for the occurrences that are not run."""
    return Run(
        firing_id=row.firing_id,
        fence=row.fence,
        job_id=row.job_id,
        scheduled_us=missed.dropped_us,
        attempt=row.attempt,
        status=RunStatus.MISSED,
        trigger=Trigger(row.trigger),
        catch_up=False,
        finished_us=now_us,
        missed_count=missed.dropped_count,
    )
