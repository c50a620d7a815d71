"""What a store must do when the rules of time zones change: cursors read, moved, and reported.

The occurrence that a cursor waits for was computed by the zone data of its day.  A shard remembers
which release of tzdata that was; a leader with a newer one walks over the shard's cursors, moves
those that fall on other instants by it, and then notes its own release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mainspring.model import FiringId


@dataclass(frozen=True, slots=True)
class ZonedCursor:
    """A cursor that is due at some time, with all that its occurrence is computed from.

    `previous_us` is the occurrence of its job that ran last, `anchor_us` and `timed_us` are the
    job's.  `is_framed`: a frame with the occurrence that follows may be out, made by another than
    the leader that asks; it is started, or leased by another holder.
    """

    firing_id: FiringId
    fence: int
    due_us: int
    scheduled_us: int
    previous_us: int
    anchor_us: int
    timed_us: int
    is_started: bool
    is_framed: bool
    is_active: bool
    schedule: str
    timezone: str
    dst_gap: str
    dst_overlap: str

    @property
    def due_key(self) -> tuple[int, int]:
        """Place in the order of pages."""
        return self.due_us, self.firing_id


@dataclass(frozen=True, slots=True)
class CursorMove:
    """What becomes of a cursor, if its fence still is that one.

    It waits for the occurrence at `to_us` instead, INFINITY_US parks it, and no frame with what it
    was can be started.  None leaves its times and raises its rev alone: what ends it reads the
    definition, and trusts no occurrence that came in a frame.
    """

    firing_id: FiringId
    fence: int
    to_us: int | None


@dataclass(frozen=True, slots=True)
class ZoneCount:
    """How many cursors of one zone were moved, and how many parked since they cannot be read."""

    timezone: str
    moved_count: int
    parked_count: int


@dataclass(frozen=True, slots=True)
class ZoneChange:
    """What a change of the zone data did to one zone, over all shards; `changed_us` is the last."""

    changed_us: int
    timezone: str
    moved_count: int
    parked_count: int
    from_version: str
    to_version: str


class ZoneStore(Protocol):
    """Cursors and the zone data that they were computed by."""

    def zone_versions(self, shard: int | None = None) -> dict[int, str]:
        """Return {shard: release of tzdata}, of all shards or of one; '' before any was noted."""

    def zoned_cursors(
        self, shard: int, holder_id: int, *, after: tuple[int, int], limit: int
    ) -> list[ZonedCursor]:
        """Return cursors in (due_us, firing_id) order beyond `after`, parked ones left out.

        `holder_id` asks: what it has leased itself is not framed by another.
        """

    def move_cursors(self, shard: int, term: int, moves: Sequence[CursorMove]) -> set[FiringId]:
        """Move cursors, in one transaction; returns those that had the fence and were moved.

        A started one keeps its times whatever is asked.  What is due again is announced by a
        hint.  Raises `TermLost`.
        """

    def note_zone_version(
        self,
        shard: int,
        term: int,
        *,
        from_version: str,
        to_version: str,
        counts: Sequence[ZoneCount],
    ) -> None:
        """Note the release by which the shard is computed from now on, and what it changed.

        Raises `TermLost`.
        """

    def zone_changes(self, *, limit: int) -> list[ZoneChange]:
        """Return what changes of the zone data did, newest first, then by zone."""
