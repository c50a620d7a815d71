"""Where the truth is kept: the protocol of the store, in prose, and its names.

**The life of a firing, as statements.**  `add_jobs` writes a definition and its cursor, the firing
whose id is the job's.  `refill` tells a leader which firings fall due soon.  `claim_page` and
`claim_ids` lease those that are due and unstarted (fence + 1, attempt at least 1).  `record_missed`
moves a late one to its catch-up occurrence under the same lease.  `hand_back` ends leases that were
not used (fence + 1).  `start` gives a leased firing to a worker, by its fence.  `complete` ends the
run (fence + 1) and in the same step writes its history and moves, retries, parks or removes the
firing.  `end_lost` is the same step taken by the leader for a dead worker; `sweep_unleased` and
`sweep_ended` find what nobody holds any more.  `redrive` makes a firing of a dead letter.

**Fence.**  Raised by every write that gives or *ends* a lease, carried by `start`, lowered by
nothing.  A write with another fence than the row's changes nothing and says so.  Since a completion
raises the fence too, its replay cannot match the next occurrence.

**Rev.**  Raised by every change of the job, on each of its firings, in the change's transaction.  A
completion whose fence stands but whose rev does not is answered CHANGED: the caller reads the
definition and decides anew.

**Term.**  Only the leader of a shard's standing term claims from it or ends its dead runs.  These
lock the shard's row FOR SHARE, so that none of them overlaps the next `take_term`.

**Locking order.**  Shard row, then job rows, then firings; each in ascending order of its key.
Claim and start skip what is locked; completion waits for it.  What is waited for is decided on
the row as it is after the wait.

**Errors.**  `StoreUnavailable`: the database cannot be reached or did not answer in time, and
whether the call was applied is *unknown*.  It comes within seconds, never minutes.
`StatementRetry`, a kind of it: nothing was applied, deadlocks and lock time-outs went on through
all repeats.  `TermLost`: the shard has another leader and nothing was done.

**Duties of a caller.**

1. Repeat after `StoreUnavailable` with the same arguments, or find out what happened: `start` and
   `complete` answer a repeat as they answered the first time.  A claim that was lost in this way is
   found by the next full sweep.
2. After a repeated `start`, ask `read_started` for the firings it left out, for the first copy may
   still have held their locks.  Those that are started with your id and fence are yours to run.
3. Release nothing whose claim did not return.
4. Begin nothing outside your own trust window; the store cannot know that you were frozen.
5. Answer CHANGED by reading the job again, STALE by dropping the result.
6. After a `TermLost` throw wheel, ledger and frames of that shard away.
7. Sweep after a lost connection: hints that fell into the gap are gone.
8. Make the partitions of the coming days long before midnight UTC (`make_partitions`).
9. Keep error and output short and clean; the store cuts what is not.

Two implementations keep this protocol: `mainspring.store.postgres` and `mainspring.store.memory`.
One suite, `tests/conformance`, holds them to the same answers.  Neither is imported from here.
"""

from __future__ import annotations

from mainspring.store.protocol import (
    Acceptance,
    Action,
    CompletionAnswer,
    FiringStore,
    HistoryStore,
    HolderBeat,
    HolderReading,
    HolderStore,
    JobStore,
    Missed,
    RunEnd,
    ShardState,
    ShardStore,
    StartedRun,
    Starts,
    Store,
)

__all__ = [
    "Acceptance",
    "Action",
    "CompletionAnswer",
    "FiringStore",
    "HistoryStore",
    "HolderBeat",
    "HolderReading",
    "HolderStore",
    "JobStore",
    "Missed",
    "RunEnd",
    "ShardState",
    "ShardStore",
    "StartedRun",
    "Starts",
    "Store",
]
