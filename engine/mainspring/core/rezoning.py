"""What new rules of time zones make of cursors that wait: which of them move, and where to.

`settle` is pure.  `rezone_shard` is the procedure a driver runs once for each term of a shard: it
reads nothing but the recorded release of tzdata while that is its own, and else walks over the
shard's cursors in pages.  A crash on the way leaves the old release recorded, so the next term
walks again; what was moved before computes to where it is by then, and stays.

Two nodes with two releases never move a cursor to and fro: the older one moves nothing.  But it is
noted, since this leader computes by it from now on, and the newer one then walks again.

The rules for an unstarted cursor of an active job whose occurrence is still to come:

- It goes to the first occurrence after now.  That is where it is already, if its zone is as it was.
- An occurrence that the new rules put into the past, and that did not run, is due now: late by the
  job's own policy, so that it is run, caught up or recorded as missed, and not lost.
- A one-off without an offset is local time of its zone, and goes to its new instant.
- `@every` and one-offs with an offset are no local time.
- What cannot be read any more is parked, as at the end of a run, and waits for a person.

A run that goes on, or that another leader's frame may still begin, would end with an occurrence
that was computed by the old rules.  Its rev is raised, so that its end reads the definition (I4).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mainspring.core.preparation import Leadership
from mainspring.cron import (
    Generations,
    Schedule,
    ScheduleKind,
    is_older_version,
    is_spread,
    latest_occurrence_us,
    next_occurrence_us,
    parse_schedule,
)
from mainspring.errors import InvalidSchedule
from mainspring.instants import INFINITY_US, MINUS_INFINITY_US
from mainspring.model import DstGap, DstOverlap
from mainspring.store.protocol import HolderStore
from mainspring.store.zones import CursorMove, ZoneCount, ZonedCursor, ZoneStore

PAGE_ROWS: Final = 1_000
"""Some 12 ms of processor time to read and as much to decide, beside the loop of a scheduler."""

TRIES_MAX: Final = 3
"""Of a page in which something else moved at the same time: claims near now, above all."""

SCHEDULES_MAX: Final = 8_192
FIXED_ZONES: Final = frozenset({"UTC", "Etc/UTC"})


class CursorStore(ZoneStore, HolderStore, Protocol):
    """What is needed of a store: its cursors and its clock."""


class Outcome(enum.Enum):
    """What became of one look at a shard."""

    SAME = "same"
    """Its cursors are computed by this release; nothing was read."""
    NOTED = "noted"
    """None was recorded before: a fresh database."""
    OLDER = "older"
    """This process has an older release than the shard's cursors; none was touched."""
    DONE = "done"
    """It was walked over to its end."""
    STOPPED = "stopped"
    """It was walked over in part, since the process is to end."""


@dataclass(slots=True)
class Rezoning:
    """What a walk did; the zones in which nothing changed are not in it."""

    outcome: Outcome
    from_version: str
    to_version: str
    moved: Counter[str] = field(default_factory=Counter)
    parked: Counter[str] = field(default_factory=Counter)

    def counts(self) -> list[ZoneCount]:
        """Return the zones in order."""
        return [
            ZoneCount(zone, self.moved[zone], self.parked[zone])
            for zone in sorted(self.moved.keys() | self.parked.keys())
        ]


class Schedules:
    """Schedules by their text, read once; None for one that cannot be read."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Generations[object, Schedule | InvalidSchedule] = Generations(SCHEDULES_MAX)

    def of(self, cursor: ZonedCursor) -> Schedule | None:
        """Return the schedule of a cursor's job; `@every` counts from no anchor."""
        spread_id = cursor.firing_id if is_spread(cursor.schedule) else 0
        key = (cursor.schedule, cursor.timezone, cursor.dst_gap, cursor.dst_overlap, spread_id)
        known = self._known.get(key)
        if known is None:
            known = _read(cursor)
            self._known.put(key, known)
        return None if isinstance(known, InvalidSchedule) else known


def settle(
    cursors: Sequence[ZonedCursor], now_us: int, schedules: Schedules | None = None
) -> list[CursorMove]:
    """Say what becomes of cursors by the zone data of this process; see the module.

    Parameters
    ----------
    cursors
        As they were read; what needs nothing is passed over.
    now_us
        The database's, read before the cursors were.
    schedules
        What is known from other pages.
    """
    known = Schedules() if schedules is None else schedules
    moves = []
    for cursor in cursors:
        if cursor.timezone in FIXED_ZONES or not (cursor.is_active or cursor.is_framed):
            continue
        schedule = known.of(cursor)
        is_movable = cursor.is_active and not cursor.is_started and cursor.scheduled_us > now_us
        to_us = _to_us(cursor, schedule, now_us) if is_movable else None
        if to_us == cursor.scheduled_us:
            to_us = None
        is_repeated = schedule is None or schedule.kind is ScheduleKind.CRON
        if to_us is not None or (cursor.is_framed and is_repeated):
            moves.append(CursorMove(cursor.firing_id, cursor.fence, to_us))
    return moves


def rezone_shard(
    store: CursorStore,
    who: Leadership,
    version: str,
    is_stopping: Callable[[], bool],
    page_rows: int = PAGE_ROWS,
) -> Rezoning:
    """Bring a shard's cursors to the zone data of this process; raises what the store raises.

    Parameters
    ----------
    version
        The release of tzdata that this process computes by.
    is_stopping
        Asked before each page.
    """
    recorded = store.zone_versions(who.shard)[who.shard]
    walk = Rezoning(Outcome.SAME, recorded, version)
    if recorded == version:
        return walk
    if not recorded:
        walk.outcome = Outcome.NOTED
    elif is_older_version(version, recorded):
        walk.outcome = Outcome.OLDER
    elif _walk(store, who, walk, is_stopping, page_rows):
        walk.outcome = Outcome.DONE
    else:
        walk.outcome = Outcome.STOPPED
        return walk
    store.note_zone_version(
        who.shard, who.term, from_version=recorded, to_version=version, counts=walk.counts()
    )
    return walk


def _walk(
    store: CursorStore,
    who: Leadership,
    walk: Rezoning,
    is_stopping: Callable[[], bool],
    page_rows: int,
) -> bool:
    """Go over all cursors; False if it was stopped."""
    schedules = Schedules()
    after = (MINUS_INFINITY_US, 0)
    while not is_stopping():
        page = _settle_page(store, who, walk, schedules, after, page_rows)
        if not page:
            return True
        after = page[-1].due_key
    return False


def _settle_page(
    store: CursorStore,
    who: Leadership,
    walk: Rezoning,
    schedules: Schedules,
    after: tuple[int, int],
    page_rows: int,
) -> list[ZonedCursor]:
    """Settle one page, again where others moved some of it meanwhile; returns it."""
    page: list[ZonedCursor] = []
    for _ in range(TRIES_MAX):
        now_us = store.database_us()
        page = store.zoned_cursors(who.shard, who.holder_id, after=after, limit=page_rows)
        moves = settle(page, now_us, schedules)
        if not moves:
            break
        applied = store.move_cursors(who.shard, who.term, moves)
        zones = {cursor.firing_id: cursor.timezone for cursor in page}
        for move in moves:
            if move.to_us is not None and move.firing_id in applied:
                count = walk.parked if move.to_us == INFINITY_US else walk.moved
                count[zones[move.firing_id]] += 1
        if len(applied) == len(moves):
            break
    return page


def _to_us(cursor: ZonedCursor, schedule: Schedule | None, now_us: int) -> int:
    """Return the occurrence for which an unstarted cursor waits by the new rules."""
    if schedule is None:
        return INFINITY_US
    if schedule.kind is ScheduleKind.ONCE:
        return schedule.at_us
    if schedule.kind is ScheduleKind.EVERY:
        return cursor.scheduled_us
    # Never one that ran already, not even after the database's clock was set back.
    next_us = next_occurrence_us(schedule, max(now_us, cursor.previous_us))
    next_us = INFINITY_US if next_us is None else next_us
    if next_us == cursor.scheduled_us:
        return next_us
    # The old rules are gone, so which occurrence this was is told by which one is nearest.
    last_us = latest_occurrence_us(schedule, now_us)
    base_us = max(cursor.previous_us, cursor.timed_us, cursor.anchor_us)
    if last_us is None or last_us <= base_us:
        return next_us
    is_nearer = cursor.scheduled_us - last_us < abs(next_us - cursor.scheduled_us)
    return last_us if is_nearer else next_us


def _read(cursor: ZonedCursor) -> Schedule | InvalidSchedule:
    try:
        return parse_schedule(
            cursor.schedule,
            cursor.timezone,
            anchor_us=0,
            job_id=cursor.firing_id,
            dst_gap=DstGap(cursor.dst_gap),
            dst_overlap=DstOverlap(cursor.dst_overlap),
        )
    except InvalidSchedule as error:
        return error
