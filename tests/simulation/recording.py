"""A memory store that writes down what crosses its boundary, as a database's log would show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.claim import ClaimBatch
from mainspring.model import FiringId
from mainspring.store.memory import MemoryStore
from mainspring.store.protocol import (
    Acceptance,
    CompletionAnswer,
    Int64s,
    Missed,
    MissedStep,
    RunEnd,
    Starts,
)


@dataclass(frozen=True)
class Started:
    """A firing that a start gave to a worker; `place` orders it among all records."""

    place: int
    firing_id: int
    fence: int
    job_id: int
    due_us: int
    database_us: int
    is_holder_alive: bool


@dataclass(frozen=True)
class Claimed:
    """A lease given to a leader; `named_fence` is the one by which it was claimed, if by one.

    `is_led` says whether that holder led the shard in that term.
    """

    place: int
    firing_id: int
    fence: int
    is_led: bool
    named_fence: int | None = None


@dataclass(frozen=True)
class Ended:
    """A run that was ended, and the fence of its firing afterwards."""

    place: int
    firing_id: int
    fence: int
    fence_after: int


class RecordingStore(MemoryStore):
    """Records claims, first starts, ends, acknowledged deletions and redrives."""

    def __init__(
        self, database_now: Callable[[], int], *, hints: Callable[[int, int, int], None]
    ) -> None:
        super().__init__(database_now, hints=hints)
        self.started: list[Started] = []
        self.claimed: list[Claimed] = []
        self.ended: list[Ended] = []
        self.deleted: dict[int, int] = {}
        """Job id -> place of its deletion."""
        self.redriven: set[tuple[int, int]] = set()
        """(firing id, fence) of the letters."""
        self._place = 0

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
        batch = super().claim_page(
            shard, term, holder_id, after=after, until_us=until_us, limit=limit
        )
        return self._note_claim(batch, self._is_led(shard, term, holder_id), {})

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
        batch = super().claim_ids(shard, term, holder_id, firing_ids, fences, until_us=until_us)
        named = dict(zip(firing_ids.tolist(), fences.tolist(), strict=True))
        named = {each: fence for each, fence in named.items() if fence >= 0}
        return self._note_claim(batch, self._is_led(shard, term, holder_id), named)

    def record_missed(
        self, shard: int, term: int, holder_id: int, rows: Sequence[Missed]
    ) -> dict[FiringId, int]:
        """Note the lease that goes on under another fence."""
        fences = super().record_missed(shard, term, holder_id, rows)
        is_led = self._is_led(shard, term, holder_id)
        for row in rows:
            if row.step is MissedStep.RUN and row.firing_id in fences:
                self.claimed.append(
                    Claimed(self._next_place(), row.firing_id, fences[row.firing_id], is_led)
                )
        return fences

    def start(self, holder_id: int, firing_ids: Any, *arguments: Any, **keywords: Any) -> Starts:
        before = {
            each: row.started_us is not None
            for each in firing_ids.tolist()
            if (row := self._state.firings.get(FiringId(each))) is not None
        }
        starts = super().start(holder_id, firing_ids, *arguments, **keywords)
        for firing_id, fence in zip(starts.firing_id.tolist(), starts.fence.tolist(), strict=True):
            if before[firing_id]:
                continue  # the repeat of a start whose answer was lost
            row = self._state.firings[FiringId(firing_id)]
            self.started.append(
                Started(
                    self._next_place(),
                    firing_id,
                    fence,
                    row.job_id,
                    row.due_us,
                    self.database_us(),
                    self._state.is_alive(holder_id),
                )
            )
        return starts

    def complete(self, ends: Sequence[RunEnd]) -> CompletionAnswer:
        return self._note_ends(ends, super().complete(ends))

    def end_lost(self, shard: int, term: int, ends: Sequence[RunEnd]) -> CompletionAnswer:
        return self._note_ends(ends, super().end_lost(shard, term, ends))

    def delete_job(self, job_id: int) -> bool:
        is_deleted = super().delete_job(job_id)
        if is_deleted:
            self.deleted[job_id] = self._next_place()
        return is_deleted

    def redrive(self, firing_id: int, fence: int) -> FiringId:
        redriven_id = super().redrive(firing_id, fence)
        self.redriven.add((firing_id, fence))
        return redriven_id

    def _note_ends(self, ends: Sequence[RunEnd], answer: CompletionAnswer) -> CompletionAnswer:
        for end, acceptance in zip(ends, answer.acceptances, strict=True):
            row = self._state.firings.get(end.firing_id)
            if acceptance is Acceptance.ACCEPTED and row is not None:
                self.ended.append(Ended(self._next_place(), end.firing_id, end.fence, row.fence))
        return answer

    def _is_led(self, shard: int, term: int, holder_id: int) -> bool:
        row = self._state.shards[shard]
        return (row.term, row.leader) == (term, holder_id)

    def _note_claim(self, batch: ClaimBatch, is_led: bool, named: Mapping[int, int]) -> ClaimBatch:
        for firing_id, fence in zip(batch.firing_id.tolist(), batch.fence.tolist(), strict=True):
            self.claimed.append(
                Claimed(self._next_place(), firing_id, fence, is_led, named.get(firing_id))
            )
        return batch

    def _next_place(self) -> int:
        self._place += 1
        return self._place
