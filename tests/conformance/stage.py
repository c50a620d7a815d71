"""A store with what most facts need around it: a clock, hints, jobs, a leader and a worker.

`Stage` drives either implementation through the protocol alone, so a test reads the same for both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.instants import US_PER_S
from mainspring.model import Definition, FiringId, HolderId, JobId, NewJob, RunStatus
from mainspring.store.protocol import (
    Acceptance,
    Action,
    CompletionAnswer,
    Int64s,
    Missed,
    MissedStep,
    RunEnd,
    Starts,
    Store,
)

START_US = 1_780_963_200_000_000  # 2026-06-09T00:00:00Z
HOUR_US = 3_600 * US_PER_S
BEFORE_ALL = (0, 0)
SLACK_S = 30


class HandClock:
    """A database clock that is moved by hand."""

    def __init__(self, now_us: int = START_US) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us

    def pass_s(self, seconds: float) -> int:
        """Move forward; returns the new now."""
        self.now_us += round(seconds * US_PER_S)
        return self.now_us


def int64s(values: Sequence[int]) -> Int64s:
    """Make an id array."""
    return np.array(list(values), np.int64)


def new_job(first_us: int, *, is_once: bool = False, **definition: object) -> NewJob:
    """Make a registration; recurring ones claim to be hourly, which no store looks at."""
    named = {
        "name": "report",
        "task": "report",
        "schedule": "at" if is_once else "0 * * * *",
        **definition,
    }
    return NewJob(
        definition=Definition(**named),  # type: ignore[arg-type]
        first_us=first_us,
        anchor_us=START_US,
        is_once=is_once,
    )


def missed(row: ClaimRow, scheduled_us: int, **changes: object) -> Missed:
    """Make the record of a late firing that is run as a catch-up of another occurrence."""
    plain = Missed(
        firing_id=FiringId(row.firing_id),
        fence=row.fence,
        job_id=JobId(row.job_id),
        step=MissedStep.RUN,
        scheduled_us=scheduled_us,
        due_us=0,
        is_catch_up=True,
        dropped_us=0,
        dropped_count=0,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def rows_of(batch: ClaimBatch) -> list[ClaimRow]:
    """Read a batch as rows."""
    return [batch.row(index) for index in range(len(batch))]


@dataclass
class Stage:
    """One store under test, with one shard, its leader in a first term, and one worker."""

    store: Store
    clock: HandClock
    read_hints: Callable[[], list[tuple[int, int, int]]]
    leader: HolderId = field(init=False)
    worker: HolderId = field(init=False)
    term: int = field(init=False)
    shard: int = 0

    def __post_init__(self) -> None:
        self.store.make_shards(1)
        self.store.make_partitions(days_ahead=7)
        self.leader = self.store.register_holder("scheduler", "tcp://127.0.0.1:1", "host:1")
        self.worker = self.store.register_holder("worker", "tcp://127.0.0.1:2", "host:2")
        self.term = self.store.take_term(self.shard, self.leader)

    @property
    def now_us(self) -> int:
        """What the database clock reads."""
        return self.clock.now_us

    def add(self, first_us: int | None = None, *, is_once: bool = False, **named: object) -> JobId:
        """Register one job, due now unless said otherwise."""
        first = self.now_us if first_us is None else first_us
        return self.store.add_jobs([new_job(first, is_once=is_once, **named)])[0]

    def claim(
        self,
        *,
        after: tuple[int, int] = BEFORE_ALL,
        until_us: int | None = None,
        limit: int = 100,
        term: int | None = None,
        holder: int | None = None,
    ) -> list[ClaimRow]:
        """Claim a page as the leader, up to now unless said otherwise."""
        return rows_of(
            self.store.claim_page(
                self.shard,
                self.term if term is None else term,
                self.leader if holder is None else holder,
                after=after,
                until_us=self.now_us if until_us is None else until_us,
                limit=limit,
            )
        )

    def claim_ids(
        self, wanted: Sequence[tuple[int, int]], *, until_us: int | None = None, **other: int
    ) -> list[ClaimRow]:
        """Claim (firing id, fence) pairs as the leader, up to now unless said otherwise."""
        return rows_of(
            self.store.claim_ids(
                other.get("shard", self.shard),
                other.get("term", self.term),
                other.get("holder", self.leader),
                int64s([firing_id for firing_id, _ in wanted]),
                int64s([fence for _, fence in wanted]),
                until_us=self.now_us if until_us is None else until_us,
            )
        )

    def start(
        self,
        wanted: Sequence[tuple[int, int]],
        *,
        worker: int | None = None,
        timeout_s: int = 300,
    ) -> Starts:
        """Start (firing id, fence) pairs as the worker."""
        return self.store.start(
            self.worker if worker is None else worker,
            int64s([firing_id for firing_id, _ in wanted]),
            int64s([fence for _, fence in wanted]),
            int64s([timeout_s] * len(wanted)),
            slack_s=SLACK_S,
        )

    def run(self, first_us: int | None = None, **named: object) -> ClaimRow:
        """Register a job, claim it and start it; returns the claimed row."""
        job_id = self.add(first_us, **named)  # type: ignore[arg-type]
        return self.restart(job_id)

    def restart(self, firing_id: int) -> ClaimRow:
        """Claim and start a firing that is due; returns the claimed row."""
        [row] = self.claim_ids([(firing_id, -1)])
        assert self.start([(firing_id, row.fence)]).firing_id.tolist() == [firing_id]
        return row

    def complete(self, *ends: RunEnd) -> CompletionAnswer:
        """Complete as the worker does."""
        return self.store.complete(ends)

    def die(self, row: ClaimRow, action: Action = Action.REMOVE, next_us: int = 0) -> None:
        """End a started run as a dead letter."""
        end = ending(
            row,
            RunStatus.DEAD,
            action,
            next_us=next_us,
            is_letter=True,
            error="no such table",
        )
        assert self.complete(end).acceptances == [Acceptance.ACCEPTED]


def ending(
    row: ClaimRow,
    status: RunStatus = RunStatus.SUCCESS,
    action: Action = Action.REMOVE,
    **other: object,
) -> RunEnd:
    """Make the end of the run that was claimed as `row`."""
    fields: dict[str, object] = {
        "firing_id": FiringId(row.firing_id),
        "fence": row.fence,
        "rev": row.rev,
        "job_id": JobId(row.job_id),
        "scheduled_us": row.scheduled_us,
        "status": status,
        "action": action,
        **other,
    }
    return RunEnd(**fields)  # type: ignore[arg-type]
