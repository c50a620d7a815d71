"""Leases of firings in Postgres: refill, claim, sweep, missed, hand back, start."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mainspring.claim import ClaimBatch, decode_copy
from mainspring.model import FiringId
from mainspring.store.postgres.arrays import Bigints, Booleans, Instant, Instants, Integers
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.database import Part
from mainspring.store.protocol import Int64s, Missed, MissedStep, StartedRun, Starts


class PostgresFirings(Part):
    """The facet `FiringStore` up to the end of a run; see `mainspring.store.protocol`."""

    def refill(
        self, shard: int, from_us: int, until_us: int, *, limit: int
    ) -> tuple[Int64s, Int64s]:
        """Return ids and due times with from_us <= due_us < until_us, earliest first."""
        data = self._database.copy_of(
            "refill", shard=shard, from_at=Instant(from_us), until_at=Instant(until_us), limit=limit
        )
        firing_ids, due_us = _decode(data, "8t")
        return firing_ids, due_us

    def claim_page(
        self,
        shard: int,
        term: int,
        holder_id: int,
        *,
        after: tuple[int, int],
        until_us: int,
        limit: int,
    ) -> ClaimBatch:
        """Lease the next firings beyond `after`, up to `until_us`; raises `TermLost`."""
        data = self._database.copy_of(
            "claim_page",
            shard=shard,
            term=term,
            holder=holder_id,
            after_due_at=Instant(after[0]),
            after_id=after[1],
            until_at=Instant(until_us),
            limit=limit,
        )
        return self._claimed(data, shard, term, holder_id)

    def claim_ids(
        self,
        shard: int,
        term: int,
        holder_id: int,
        firing_ids: Int64s,
        fences: Int64s,
        *,
        until_us: int,
    ) -> ClaimBatch:
        """Lease the named firings by their fences, see the protocol; raises `TermLost`."""
        data = self._database.copy_of(
            "claim_ids",
            shard=shard,
            term=term,
            holder=holder_id,
            ids=Bigints(firing_ids),
            fences=Bigints(fences),
            until_at=Instant(until_us),
        )
        return self._claimed(data, shard, term, holder_id)

    def _claimed(self, data: bytes, shard: int, term: int, holder_id: int) -> ClaimBatch:
        """Decode a claim; one that leased nothing may have had no term to lease under."""
        batch = ClaimBatch.decode(data)
        if not len(batch):
            self._database.repeat(lambda session: self._hold(session, shard, term, holder_id))
        return batch

    def sweep_unleased(
        self, shard: int, holder_id: int, *, cursor: tuple[int, int], full: bool, limit: int
    ) -> tuple[Int64s, Int64s, NDArray[np.uint8]]:
        """Return (firing ids, fences, is_mine) of unstarted rows at or before `cursor`."""
        data = self._database.copy_of(
            "sweep_unleased",
            shard=shard,
            holder=holder_id,
            cursor_due_at=Instant(cursor[0]),
            cursor_id=cursor[1],
            full=full,
            limit=limit,
        )
        firing_ids, fences, is_mine = _decode(data, "88b")
        return firing_ids, fences, is_mine

    def sweep_ended(self, shard: int, *, extension_us: int, limit: int) -> list[StartedRun]:
        """Return started firings whose worker is dead or gone, or whose lease ran out."""
        rows = self._database.rows_of(
            "sweep_ended",
            shard=shard,
            extension=timedelta(microseconds=extension_us),
            limit=limit,
        )
        return [StartedRun(*row) for row in rows]

    def record_missed(
        self, shard: int, term: int, holder_id: int, rows: Sequence[Missed]
    ) -> dict[FiringId, int]:
        """Record what becomes of leased firings; returns the new fence of each it recorded."""
        wanted = sorted(rows, key=lambda row: row.firing_id)
        over = sorted({row.job_id for row in wanted if row.step is MissedStep.REMOVE})

        def work(session: Session) -> dict[FiringId, int]:
            execute = self._database.execute
            self._hold(session, shard, term, holder_id)
            finished: list[int] = []
            if over:
                locked = execute(session, "lock_finished_jobs", job_ids=Bigints(over))
                finished = [job_id for (job_id,) in locked]
            recorded = execute(
                session,
                "record_missed",
                holder=holder_id,
                ids=Bigints([row.firing_id for row in wanted]),
                fences=Bigints([row.fence for row in wanted]),
                steps=Integers([row.step for row in wanted]),
                scheduled_at=Instants([row.scheduled_us for row in wanted]),
                due_at=Instants([row.due_us for row in wanted]),
                catch_ups=Booleans([row.is_catch_up for row in wanted]),
                dropped_at=Instants([row.dropped_us for row in wanted]),
                dropped_counts=Integers([row.dropped_count for row in wanted]),
            )
            if finished:
                execute(session, "delete_finished_jobs", job_ids=Bigints(finished))
            return {FiringId(firing_id): fence for firing_id, fence in recorded}

        return self._database.transact(work)

    def hand_back(self, holder_id: int, firing_ids: Int64s, fences: Int64s) -> Int64s:
        """End leases of this holder that were never started; returns the ids."""
        rows = self._database.rows_of(
            "hand_back", holder=holder_id, ids=Bigints(firing_ids), fences=Bigints(fences)
        )
        return np.array(sorted(firing_id for (firing_id,) in rows), np.int64)

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
        data = self._database.copy_of(
            "start",
            holder=holder_id,
            ids=Bigints(firing_ids),
            fences=Bigints(fences),
            timeouts=Bigints(timeouts_s),
            slack_seconds=slack_s,
        )
        return Starts(*_decode(data, "88tt"))

    def read_started(self, firing_ids: Sequence[int]) -> dict[FiringId, StartedRun]:
        """Return those of the named firings that are started, as they are now."""
        rows = self._database.rows_of("read_started", ids=Bigints(firing_ids))
        runs = (StartedRun(*row) for row in rows)
        return {run.firing_id: run for run in runs}


def _decode(data: bytes, kinds: str) -> list[NDArray[Any]]:
    """Decode a COPY of fixed-width columns."""
    columns: list[Any] = decode_copy(data, kinds)
    return columns
