"""The tables of the memory store as Python objects, with the indexes that its methods read.

Each table stands as a dict by primary key; whoever changes an indexed column of a row does it
through `State`, so that row and index cannot part.  The one lock makes every method of the store
one atomic step; hints are handed out after it is free, as NOTIFY is delivered after the commit.

What this does not do: decide anything.  The rules are in the modules beside it.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mainspring.errors import TermLost
from mainspring.instants import MINUS_INFINITY_US, US_PER_DAY
from mainspring.model import DeadLetter, FiringId, HolderId, Job, JobId, Run, RunStatus
from mainspring.store.memory.order import OrderedKeys
from mainspring.store.zones import ZoneChange

Hint = tuple[int, int, int]
"""(shard, due_us, firing id or 0): what one NOTIFY says."""


@dataclass(slots=True)
class Firing:
    """One row of `firings`; columns as in the first migration."""

    firing_id: FiringId
    job_id: JobId
    shard: int
    due_us: int
    scheduled_us: int
    fence: int = 0
    rev: int = 1
    attempt: int = 0
    attempts_spent: int = 0
    lost_count: int = 0
    trigger: int = 0
    catch_up: bool = False
    locked_by: HolderId | None = None
    locked_until_us: int | None = None
    started_us: int | None = None
    previous_us: int = MINUS_INFINITY_US

    @property
    def is_cursor(self) -> bool:
        """Whether it is its job's own schedule; others are extra firings."""
        return self.firing_id == FiringId(self.job_id)

    @property
    def due_key(self) -> tuple[int, int]:
        """Place in the index `firings_due`."""
        return self.due_us, self.firing_id


@dataclass(slots=True)
class Holder:
    """One row of `holders`."""

    holder_id: HolderId
    kind: str
    address: str
    name: str
    started_us: int
    beat: int = 0
    dead_us: int | None = None
    left_us: int | None = None

    @property
    def is_alive(self) -> bool:
        """Neither declared dead nor gone."""
        return self.dead_us is None and self.left_us is None


@dataclass(slots=True)
class Shard:
    """One row of `shards` and its row of `shard_leases`."""

    term: int = 0
    leader: HolderId | None = None
    lease_term: int = 0
    renewed_us: int | None = None
    tzdata: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One row of `job_runs`; `day` is its partition, None the default one."""

    recorded_us: int
    day: int | None
    run: Run


@dataclass(frozen=True, slots=True)
class Letter:
    """One row of `dead_letters`: what is shown of it, and the shard its redrive goes to."""

    shown: DeadLetter
    shard: int


def run_key(run: Run) -> tuple[int, int, int, int]:
    """Order of the runs of one job."""
    return run.scheduled_us, run.attempt, run.firing_id, run.fence


def recorded_key(row: Recorded) -> tuple[int, int, int]:
    """Order of the runs of all jobs."""
    return row.recorded_us, row.run.firing_id, row.run.fence


@dataclass(slots=True)
class State:
    """Everything a memory store knows."""

    database_now: Callable[[], int]
    announce: Callable[[int, int, int], None] | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    last_id: int = 0
    last_holder_id: int = 0
    jobs: dict[JobId, Job] = field(default_factory=dict)
    job_order: OrderedKeys[int] = field(default_factory=OrderedKeys[int])
    firings: dict[FiringId, Firing] = field(default_factory=dict)
    due: defaultdict[int, OrderedKeys[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(OrderedKeys[tuple[int, int]])
    )
    started: defaultdict[int, set[FiringId]] = field(default_factory=lambda: defaultdict(set))
    """Started firings by shard: a started row is due, so SQL finds them at the low end of due."""
    extras: defaultdict[JobId, set[FiringId]] = field(default_factory=lambda: defaultdict(set))
    holders: dict[HolderId, Holder] = field(default_factory=dict)
    shards: dict[int, Shard] = field(default_factory=dict)
    recorded: list[Recorded] = field(default_factory=list)
    runs_by_job: defaultdict[JobId, list[Run]] = field(default_factory=lambda: defaultdict(list))
    ended: dict[tuple[int, int], Recorded] = field(default_factory=dict)
    """By (firing id, fence) the run that ended there; misses and skips are not among them."""
    letters: dict[tuple[int, int], Letter] = field(default_factory=dict)
    letters_by_job: defaultdict[JobId, set[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    days: set[int] = field(default_factory=set)
    """Days since the epoch that have a partition."""
    zone_changes: dict[tuple[str, str, str], ZoneChange] = field(default_factory=dict)
    """Rows of `zone_changes`, added up by (timezone, from_version, to_version)."""

    def take_id(self) -> int:
        """Draw from the sequence that jobs and firings share."""
        self.last_id += 1
        return self.last_id

    def require_term(self, shard: int, term: int, holder_id: int | None) -> None:
        """Raise `TermLost` unless this holder, or with None anyone, leads in this term."""
        row = self.shards.get(shard)
        leader = None if row is None else row.leader
        is_led = leader is not None and holder_id in {None, leader}
        if row is None or row.term != term or not is_led:
            raise TermLost(
                f"term {term} of shard {shard} was lost",
                hint="Another process leads the shard; drop its firings and campaign again.",
            )

    def is_alive(self, holder_id: int | None) -> bool:
        """Whether the holder exists and is neither dead nor gone."""
        holder = None if holder_id is None else self.holders.get(HolderId(holder_id))
        return holder is not None and holder.is_alive

    def insert_firings(self, rows: Iterable[Firing]) -> None:
        """Add firings with fresh ids."""
        keys: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            assert row.firing_id not in self.firings, row.firing_id
            self.firings[row.firing_id] = row
            keys[row.shard].append(row.due_key)
            if not row.is_cursor:
                self.extras[row.job_id].add(row.firing_id)
        for shard, new in keys.items():
            self.due[shard].add_all(new)

    def remove_firing(self, row: Firing) -> None:
        """Delete a firing with its index entries."""
        del self.firings[row.firing_id]
        self.due[row.shard].remove(row.due_key)
        self.started[row.shard].discard(row.firing_id)
        if not row.is_cursor:
            self.extras[row.job_id].discard(row.firing_id)
            if not self.extras[row.job_id]:
                del self.extras[row.job_id]

    def move_firing(self, row: Firing, due_us: int) -> None:
        """Give a firing another due time."""
        if due_us != row.due_us:
            self.due[row.shard].remove(row.due_key)
            row.due_us = due_us
            self.due[row.shard].add(row.due_key)

    def firings_of_job(self, job_id: JobId) -> list[Firing]:
        """Return the job's cursor and its extra firings, in id order."""
        ids = set(self.extras.get(job_id, ()))
        if FiringId(job_id) in self.firings:
            ids.add(FiringId(job_id))
        return [self.firings[firing_id] for firing_id in sorted(ids)]

    def record_run(self, run: Run, now_us: int) -> None:
        """Append to the history, into the partition of the day it is written."""
        day = now_us // US_PER_DAY
        row = Recorded(now_us, day if day in self.days else None, run)
        insort(self.recorded, row, key=recorded_key)
        insort(self.runs_by_job[run.job_id], run, key=run_key)
        if run.status not in {RunStatus.MISSED, RunStatus.SKIPPED}:
            self.ended[run.firing_id, run.fence] = row

    def add_letter(self, letter: Letter) -> None:
        """Write a dead letter."""
        key = letter.shown.firing_id, letter.shown.fence
        assert key not in self.letters, key
        self.letters[key] = letter
        self.letters_by_job[letter.shown.job_id].add(key)

    def remove_letter(self, letter: Letter) -> None:
        """Delete a dead letter."""
        key = letter.shown.firing_id, letter.shown.fence
        del self.letters[key]
        self.letters_by_job[letter.shown.job_id].discard(key)
        if not self.letters_by_job[letter.shown.job_id]:
            del self.letters_by_job[letter.shown.job_id]

    def remove_job(self, job_id: JobId) -> None:
        """Delete a definition; its firings are the caller's business."""
        del self.jobs[job_id]
        self.job_order.remove(job_id)

    def send_hints(self, hints: Iterable[Hint]) -> None:
        """Announce what was committed; called without the lock, so that a listener may read."""
        if self.announce is not None:
            for shard, due_us, firing_id in hints:
                self.announce(shard, due_us, firing_id)


class Facet:
    """Base of the parts of the store: they share one state."""

    def __init__(self, state: State) -> None:
        self._state = state
