"""The claim: leases of due firings for the leader of their shard; from sql/firing.sql."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.model import FiringId, HolderId
from mainspring.store.memory.state import Facet, Firing, State
from mainspring.store.protocol import Int64s


class MemoryClaims(Facet):
    """The claims of the facet `FiringStore`."""

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
        state = self._state
        with state.lock:
            state.require_term(shard, term, holder_id)
            page: list[Firing] = []
            for due_us, firing_id in state.due[shard].scan_beyond(after):
                if due_us > until_us or len(page) >= limit:
                    break
                row = state.firings[FiringId(firing_id)]
                if row.started_us is None and row.locked_by != holder_id:
                    page.append(row)
            return _lease(state, page, holder_id)

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
        """Lease the named firings whose fence stands, or with -1 those that are not leased."""
        state = self._state
        due: dict[int, Firing] = {}
        with state.lock:
            state.require_term(shard, term, holder_id)
            for firing_id, fence in zip(firing_ids.tolist(), fences.tolist(), strict=True):
                row = state.firings.get(firing_id)
                if row is None or row.shard != shard or row.due_us > until_us:
                    continue
                is_wanted = row.fence == fence or (fence < 0 and row.locked_by != holder_id)
                if is_wanted and row.started_us is None:
                    due[firing_id] = row
            return _lease(state, sorted(due.values(), key=lambda row: row.due_key), holder_id)


def _lease(state: State, rows: Iterable[Firing], holder_id: int) -> ClaimBatch:
    """Give the leases of unstarted firings to a leader."""
    now_us = state.database_now()
    claimed: list[ClaimRow] = []
    for row in rows:
        is_first = row.attempt == 0
        row.fence += 1
        row.locked_by = HolderId(holder_id)
        row.attempt = max(row.attempt, 1)
        job = state.jobs[row.job_id]
        definition = job.definition
        claimed.append(
            ClaimRow(
                row.firing_id,
                row.job_id,
                row.due_us,
                row.scheduled_us,
                row.fence,
                row.rev,
                row.attempt,
                row.trigger,
                row.catch_up,
                row.lost_count,
                is_first,
                now_us,
                job.anchor_us,
                row.previous_us,
                definition.timeout_seconds,
                definition.misfire_grace_seconds,
                definition.task,
                definition.queue,
                definition.schedule,
                definition.timezone,
                definition.dst_gap,
                definition.dst_overlap,
                definition.idempotency_key_template,
                definition.name,
                definition.payload.encode(),
            )
        )
    return ClaimBatch.from_rows(claimed)
