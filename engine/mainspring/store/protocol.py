"""What a store must do, in the words of DESIGN: the protocol both implementations keep.

Each method is one serializable step.  A method that raises `StoreUnavailable` may or may not have
been applied; every write can be repeated by its key (fence, holder, term, id).  `StatementRetry`
means it was not applied.  Implementations are thread safe.

Instants are int64 microseconds since the Unix epoch by the *database* clock.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mainspring.claim import ClaimBatch
from mainspring.model import (
    DeadLetter,
    FiringId,
    HolderId,
    Job,
    JobChange,
    JobId,
    NewJob,
    Run,
    RunStatus,
)
from mainspring.store.zones import ZoneStore

Int64s = NDArray[np.int64]


class Action(enum.IntEnum):
    """What becomes of a firing when its run ends."""

    MOVE = 0
    """The cursor moves to its next occurrence."""
    RETRY = 1
    """The same occurrence again, one attempt higher, after a delay."""
    REMOVE = 2
    """The firing is done: a one-off, an extra firing, a deleted job."""
    PARK = 3
    """The cursor waits at infinity: its job is paused."""
    HOLD = 4
    """The same occurrence waits at infinity, one attempt higher: a paused one-off."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of one run and the next step of its firing.

    `next_us` is the next occurrence, for MOVE; `delay_us` counts from the database's now, for
    RETRY.  `status` is SUCCESS, FAILED, DEAD, LOST or CANCELLED; `is_letter` writes a dead letter.
    `scheduled_us` and `job_id` only serve to look a replay up.
    """

    firing_id: FiringId
    fence: int
    rev: int
    job_id: JobId
    scheduled_us: int
    status: RunStatus
    action: Action
    next_us: int = 0
    delay_us: int = 0
    is_letter: bool = False
    error: str | None = None
    output: str | None = None


class Acceptance(enum.Enum):
    """What became of one `RunEnd`."""

    ACCEPTED = "accepted"
    REPLAYED = "replayed"
    """An earlier copy of this end, of the same fence and status, had been accepted."""
    CHANGED = "changed"
    """The fence stands but the job's definition changed: read it and decide again."""
    STALE = "stale"
    """The lease was ended by another; nothing of this run may be written."""


@dataclass(frozen=True, slots=True)
class CompletionAnswer:
    """Parallel to the `RunEnd`s given: what became of each and when its firing is due again.

    `due_us` is INFINITY_US where nothing follows or nothing was accepted.
    """

    acceptances: list[Acceptance]
    due_us: list[int]


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A firing as `read_started` and `sweep_ended` see it: what its next step depends on."""

    firing_id: FiringId
    job_id: JobId
    fence: int
    rev: int
    attempt: int
    attempts_spent: int
    trigger: int
    scheduled_us: int
    locked_by: HolderId


@dataclass(frozen=True, slots=True)
class Starts:
    """Firings that were started, a struct of arrays in no particular order."""

    firing_id: Int64s
    fence: Int64s
    started_us: Int64s
    locked_until_us: Int64s


class MissedStep(enum.IntEnum):
    """What becomes of a firing that was claimed late."""

    RUN = 0
    """It is run now: the lease goes on."""
    WAIT = 1
    """It is due at another time: the lease ends, and its next claim is its first."""
    REMOVE = 2
    """It is over: a one-off that is not run."""


@dataclass(frozen=True, slots=True)
class Missed:
    """What becomes of a late firing: the judgement of cron.missed, to be recorded.

    `scheduled_us` is the occurrence it stands for from now on, `due_us` counts for WAIT.
    `dropped_count` occurrences from `dropped_us` on are not run; 0 writes no row.
    """

    firing_id: FiringId
    fence: int
    job_id: JobId
    step: MissedStep
    scheduled_us: int
    due_us: int
    is_catch_up: bool
    dropped_us: int
    dropped_count: int


@dataclass(frozen=True, slots=True)
class HolderBeat:
    """One row of `read_holders`."""

    holder_id: HolderId
    kind: str
    address: str
    name: str
    beat: int
    started_us: int


@dataclass(frozen=True, slots=True)
class HolderReading:
    """All living holders, with the identity and the clock of the server that said so."""

    holders: list[HolderBeat]
    server_started_us: int
    read_us: int


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard, its term and its leader (None between terms)."""

    shard: int
    term: int
    leader: HolderId | None
    renewed_us: int | None


class JobStore(Protocol):
    """Definitions: registered, read, deleted."""

    def take_ids(self, count: int) -> list[int]:
        """Give out ids that were never given out before."""

    def was_given_out(self, job_id: int) -> bool:
        """Return whether this id was ever given out."""

    def add_jobs(self, jobs: Sequence[NewJob]) -> list[JobId]:
        """Register definitions and their cursors, all or none; announces them by a hint."""

    def get_jobs(self, job_ids: Sequence[int]) -> dict[JobId, Job]:
        """Return the definitions that exist, also those with status DELETED."""

    def list_jobs(self, *, after_id: int = 0, limit: int = 100) -> list[Job]:
        """Return a page of jobs that are not deleted, in id order."""

    def change_job(self, change: JobChange) -> Job | None:
        """Change a job and the firings of it, and return it as it is then.

        None if its rev is not that of the change any more, or it is deleted: decide again.  What
        is not started gets another fence and is announced by a hint; a run that goes on ends by
        the new definition.  No firing is made.
        """

    def delete_job(self, job_id: int) -> bool:
        """Delete a job; no start of it is possible afterwards.  False if there was none.

        A run that is going on ends with its true status and takes the definition with it.
        """


class FiringStore(Protocol):
    """The life of a firing."""

    def refill(
        self, shard: int, from_us: int, until_us: int, *, limit: int
    ) -> tuple[Int64s, Int64s]:
        """Return ids and due times with from_us <= due_us < until_us, earliest first."""

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
        """Lease the next firings in (due_us, firing_id) order beyond `after`, up to `until_us`.

        Raises `TermLost`.  A full page means more may be due.
        """

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
        """Lease those of the named firings that are unstarted and due by `until_us`.

        `fences` is parallel to `firing_ids`: a fence >= 0 leases the firing only if its fence is
        still that one, whoever leased it (a frame that nobody answered is claimed anew); -1 leases
        it only if `holder_id` has not leased it (found by a sweep or a hint).  Raises `TermLost`.
        """

    def sweep_unleased(
        self, shard: int, holder_id: int, *, cursor: tuple[int, int], full: bool, limit: int
    ) -> tuple[Int64s, Int64s, NDArray[np.uint8]]:
        """Return (firing ids, fences, is_mine) of unstarted rows at or before `cursor`.

        Only those not leased by `holder_id`, unless `full`.
        """

    def sweep_ended(self, shard: int, *, extension_us: int, limit: int) -> list[StartedRun]:
        """Return started firings whose worker is dead or gone, or whose lease ran out."""

    def record_missed(
        self, shard: int, term: int, holder_id: int, rows: Sequence[Missed]
    ) -> dict[FiringId, int]:
        """Record what becomes of leased firings; returns the new fence of each it recorded.

        A one-off that is over takes its definition along.  Raises `TermLost`.
        """

    def hand_back(self, holder_id: int, firing_ids: Int64s, fences: Int64s) -> Int64s:
        """End leases of this holder that were never started; returns the ids."""

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

    def read_started(self, firing_ids: Sequence[int]) -> dict[FiringId, StartedRun]:
        """Return those of the named firings that are started, as they are now."""

    def complete(self, ends: Sequence[RunEnd]) -> CompletionAnswer:
        """End runs, all in one transaction; each by its fence and rev."""

    def end_lost(self, shard: int, term: int, ends: Sequence[RunEnd]) -> CompletionAnswer:
        """End dead runs as the shard's leader, in one transaction.  Raises `TermLost`."""


class HolderStore(Protocol):
    """Live processes."""

    def register_holder(self, kind: str, address: str, name: str) -> HolderId:
        """Draw a new id for a process start, or for a holder that found itself dead."""

    def beat(self, holder_id: int) -> bool:
        """Beat once; False means that this holder was declared dead, or left."""

    def read_holders(self) -> HolderReading:
        """Return the living and their beats."""

    def declare_dead(self, holder_id: int, beat: int) -> bool:
        """Declare a holder dead, unless it has beaten since `beat` was read."""

    def leave(self, holder_id: int) -> bool:
        """Say that this holder exits cleanly."""

    def database_us(self) -> int:
        """Read the database clock."""


class ShardStore(Protocol):
    """Terms.  Who may ask for one is the elector's business."""

    def make_shards(self, count: int) -> None:
        """Make shards 0 to count-1; `Conflict` if the database has another number of them."""

    def count_shards(self) -> int:
        """Return how many shards this database has; 0 before `make_shards`."""

    def take_term(self, shard: int, holder_id: int) -> int:
        """Begin a new term, one higher than the last, led by `holder_id`."""

    def renew_terms(self, holder_id: int, terms: dict[int, int]) -> set[int]:
        """Renew {shard: term}; returns the shards whose term still stands."""

    def end_term(self, shard: int, term: int, holder_id: int) -> bool:
        """Resign."""

    def read_shards(self) -> list[ShardState]:
        """Return all shards in order."""


class HistoryStore(Protocol):
    """What happened."""

    def runs_of_job(
        self, job_id: int, *, limit: int, before: tuple[int, int, int, int] | None = None
    ) -> list[Run]:
        """Return runs, newest scheduled_at first, then highest attempt.

        `before` is (scheduled_us, attempt, firing_id, fence) of the last run of the page before.
        A waiting firing shows as PENDING, a started one as RUNNING.
        """

    def recent_runs(self, *, limit: int) -> list[Run]:
        """Return the newest recorded runs of all jobs, within the last day."""

    def list_dead_letters(
        self, *, limit: int, after: tuple[int, int, int] | None = None
    ) -> list[DeadLetter]:
        """Return letters, oldest first; `after` is (died_us, firing_id, fence)."""

    def redrive(self, firing_id: int, fence: int) -> FiringId:
        """Give a dead letter attempts again, as a firing that is due now; returns its id.

        `NotFound` if there is no such letter, `Conflict` if its job is deleted.
        """

    def make_partitions(self, *, days_ahead: int) -> int:
        """Make today's and the following partitions of the history; returns how many were new."""

    def drop_partitions(self, *, history_days: int) -> int:
        """Drop partitions older than `history_days`; returns how many."""

    def default_partition_rows(self) -> int:
        """Return how many rows had no partition of their day (up to 1,000); must be 0."""

    def prune_keys(self, *, history_days: int, limit: int) -> int:
        """Forget idempotency keys older than `history_days`, oldest first; returns how many.

        `limit` of them means that there may be more.  A key stays while its firing is unfinished
        or a dead letter, however old it is.
        """


class Store(JobStore, FiringStore, HolderStore, ShardStore, HistoryStore, ZoneStore, Protocol):
    """All of it, plus its end."""

    def close(self) -> None:
        """Give up connections; the store is unusable afterwards."""
