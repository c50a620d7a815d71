"""New rules of time zones; the rules of sql/zone.sql."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.instants import INFINITY_US
from mainspring.model import FiringId, JobStatus
from mainspring.store.memory.state import Facet, Firing, State
from mainspring.store.zones import CursorMove, ZoneChange, ZoneCount, ZonedCursor


class MemoryZones(Facet):
    """The facet `ZoneStore`."""

    def zone_versions(self, shard: int | None = None) -> dict[int, str]:
        """Return {shard: release of tzdata}, of all shards or of one."""
        with self._state.lock:
            return {
                each: row.tzdata
                for each, row in sorted(self._state.shards.items())
                if shard in {None, each}
            }

    def zoned_cursors(
        self, shard: int, holder_id: int, *, after: tuple[int, int], limit: int
    ) -> list[ZonedCursor]:
        """Return cursors in (due_us, firing_id) order beyond `after`, parked ones left out."""
        state = self._state
        page: list[ZonedCursor] = []
        with state.lock:
            for due_us, firing_id in state.due[shard].scan_beyond(after):
                if due_us == INFINITY_US or len(page) >= limit:
                    break
                row = state.firings[FiringId(firing_id)]
                if row.is_cursor:
                    page.append(_zoned(state, row, holder_id))
        return page

    def move_cursors(self, shard: int, term: int, moves: Sequence[CursorMove]) -> set[FiringId]:
        """Move cursors, in one step; returns those that had the fence and were moved."""
        state = self._state
        found: set[FiringId] = set()
        due: list[tuple[int, int]] = []
        with state.lock:
            state.require_term(shard, term, None)
            for move in moves:
                row = state.firings.get(move.firing_id)
                if row is None or not row.is_cursor or row.shard != shard:
                    continue
                is_held = row.started_us is not None and move.to_us is not None
                if row.fence != move.fence or is_held:
                    continue
                found.add(row.firing_id)
                row.rev += 1
                if move.to_us is not None:
                    _move(state, row, move.to_us)
                    if move.to_us != INFINITY_US:
                        due.append(row.due_key)
        if due:
            due_us, firing_id = min(due)
            state.send_hints([(shard, due_us, firing_id if len(due) == 1 else 0)])
        return found

    def note_zone_version(
        self,
        shard: int,
        term: int,
        *,
        from_version: str,
        to_version: str,
        counts: Sequence[ZoneCount],
    ) -> None:
        """Note the release by which the shard is computed from now on, and what it changed."""
        state = self._state
        with state.lock:
            state.require_term(shard, term, None)
            state.shards[shard].tzdata = to_version
            now_us = state.database_now()
            for each in counts:
                key = each.timezone, from_version, to_version
                before = state.zone_changes.get(
                    key, ZoneChange(now_us, each.timezone, 0, 0, "", "")
                )
                state.zone_changes[key] = ZoneChange(
                    max(now_us, before.changed_us),
                    each.timezone,
                    before.moved_count + each.moved_count,
                    before.parked_count + each.parked_count,
                    from_version,
                    to_version,
                )

    def zone_changes(self, *, limit: int) -> list[ZoneChange]:
        """Return what changes of the zone data did, newest first, then by zone."""
        with self._state.lock:
            changes = sorted(
                self._state.zone_changes.items(), key=lambda item: (-item[1].changed_us, item[0])
            )
        return [change for _, change in changes[:limit]]


def _zoned(state: State, row: Firing, holder_id: int) -> ZonedCursor:
    job = state.jobs[row.job_id]
    is_started = row.started_us is not None
    return ZonedCursor(
        firing_id=row.firing_id,
        fence=row.fence,
        due_us=row.due_us,
        scheduled_us=row.scheduled_us,
        previous_us=row.previous_us,
        anchor_us=job.anchor_us,
        timed_us=job.timed_us,
        is_started=is_started,
        is_framed=is_started or row.locked_by not in {None, holder_id},
        is_active=job.status is JobStatus.ACTIVE,
        schedule=job.definition.schedule,
        timezone=job.definition.timezone,
        dst_gap=job.definition.dst_gap.value,
        dst_overlap=job.definition.dst_overlap.value,
    )


def _move(state: State, row: Firing, to_us: int) -> None:
    """Let an unstarted cursor wait for another occurrence; no lease of it stands."""
    row.fence += 1
    row.locked_by = None
    row.scheduled_us = to_us
    row.attempt = row.attempts_spent = row.lost_count = 0
    row.catch_up = False
    state.move_firing(row, to_us)
