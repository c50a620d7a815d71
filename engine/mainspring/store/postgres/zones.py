"""New rules of time zones in Postgres: cursors read, moved, and reported."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.instants import INFINITY_US
from mainspring.model import FiringId
from mainspring.store.postgres.arrays import Bigints, Booleans, Instant, Instants, Texts
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.database import Part
from mainspring.store.zones import CursorMove, ZoneChange, ZoneCount, ZonedCursor


class PostgresZones(Part):
    """The facet `ZoneStore`; see `mainspring.store.zones`."""

    def zone_versions(self, shard: int | None = None) -> dict[int, str]:
        """Return {shard: release of tzdata}, of all shards or of one."""
        return dict(sorted(self._database.rows_of("zone_versions", shard=shard)))

    def zoned_cursors(
        self, shard: int, holder_id: int, *, after: tuple[int, int], limit: int
    ) -> list[ZonedCursor]:
        """Return cursors in (due_us, firing_id) order beyond `after`, parked ones left out."""
        rows = self._database.rows_of(
            "zoned_cursors",
            shard=shard,
            holder=holder_id,
            after_due_at=Instant(after[0]),
            after_id=after[1],
            limit=limit,
        )
        return [ZonedCursor(*row) for row in rows]

    def move_cursors(self, shard: int, term: int, moves: Sequence[CursorMove]) -> set[FiringId]:
        """Move cursors, in one transaction; returns those that had the fence and were moved."""
        wanted = sorted(moves, key=lambda move: move.firing_id)

        def work(session: Session) -> set[FiringId]:
            execute = self._database.execute
            self._hold(session, shard, term, None)
            found = execute(
                session,
                "move_cursors",
                shard=shard,
                ids=Bigints([move.firing_id for move in wanted]),
                fences=Bigints([move.fence for move in wanted]),
                is_moved=Booleans([move.to_us is not None for move in wanted]),
                to_at=Instants([INFINITY_US if m.to_us is None else m.to_us for m in wanted]),
            )
            due = [(due_us, firing_id) for firing_id, is_due, due_us in found if is_due]
            if due:
                due_us, firing_id = min(due)
                named = firing_id if len(due) == 1 else 0
                execute(
                    session, "announce_due", shard=shard, due_at=Instant(due_us), firing_id=named
                )
            return {FiringId(firing_id) for firing_id, _, _ in found}

        return self._database.transact(work)

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

        def work(session: Session) -> None:
            execute = self._database.execute
            self._hold(session, shard, term, None)
            execute(session, "note_zone_version", shard=shard, term=term, to_version=to_version)
            if counts:
                execute(
                    session,
                    "insert_zone_changes",
                    shard=shard,
                    from_version=from_version,
                    to_version=to_version,
                    moved_counts=Bigints([each.moved_count for each in counts]),
                    parked_counts=Bigints([each.parked_count for each in counts]),
                    timezones=Texts([each.timezone for each in counts]),
                )

        self._database.transact(work)

    def zone_changes(self, *, limit: int) -> list[ZoneChange]:
        """Return what changes of the zone data did, newest first, then by zone."""
        return [ZoneChange(*row) for row in self._database.rows_of("zone_changes", limit=limit)]
