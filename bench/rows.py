"""Claimed firings to measure with: the shapes of a hot second, in memory and in a database."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray

from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.model import Definition, NewJob, RunStatus
from mainspring.store.postgres import PostgresStore
from mainspring.store.protocol import Acceptance, Action, RunEnd, Starts

PAYLOAD = (
    b'{"report":"weekly","recipients":["a@example.com","b@example.com"],"pad":"'
    + b"x" * 220
    + b'"}'
)
TASK: Final = "report"
START_US: Final = 1_780_920_000_000_000
HOUR_US: Final = 3_600_000_000
START_ROWS: Final = 500
"""What a worker with room for as many starts at once."""

COMPLETE_ROWS: Final = 2_000
"""The default of `complete_rows_max`."""

Int64s = NDArray[np.int64]

# The state before a claim, freshly written and vacuumed, as if the hour before had been quiet.
RESET = """
TRUNCATE firings, job_runs, dead_letters;
INSERT INTO firings (firing_id, job_id, shard, due_at, scheduled_at)
SELECT job_id, job_id, shard, anchor_at, anchor_at FROM jobs ORDER BY job_id
"""
FLOOR = """
UPDATE firings SET fence = fence + 1, locked_by = 1, attempt = greatest(attempt, 1)
WHERE shard = 0 AND due_at <= now() AND started_at IS NULL
"""


def batch_of(count: int) -> ClaimBatch:
    """Return a batch of firings that are due in one second."""
    return ClaimBatch.from_rows([row_of(number) for number in range(1, count + 1)])


def row_of(number: int) -> ClaimRow:
    """Return one firing."""
    return ClaimRow(
        firing_id=number, job_id=number, due_us=START_US, scheduled_us=START_US, fence=1, rev=1,
        attempt=1, trigger=0, catch_up=False, lost_count=0, first_claim=True, claimed_us=START_US,
        anchor_us=START_US, previous_us=START_US - 3_600_000_000, timeout_s=300, grace_s=60,
        task=TASK, queue="default", schedule=f"{number % 60} * * * *", zone="America/New_York",
        dst_gap="next_valid", dst_overlap="first", template=None, name="report", payload=PAYLOAD,
    )  # fmt: skip


def ticks_of(count: int, *, spread: int) -> Int64s:
    """Return due ticks, all of one slot or spread over many."""
    return np.arange(count, dtype=np.int64) % spread + 1_000


class Field:
    """A database with firings that are due, one leader, and one worker that never dies."""

    def __init__(self, dsn: str, session: psycopg.Connection[Any], rows: int) -> None:
        self.dsn = dsn
        self.session = session
        self.rows = rows
        self.store = PostgresStore(dsn, application_name="mainspring bench")
        self.store.make_shards(1)
        self.store.make_partitions(days_ahead=2)
        self.leader = self.store.register_holder("scheduler", "", "bench:1")
        self.worker = self.store.register_holder("worker", "", "bench:2")
        self.term = self.store.take_term(0, self.leader)
        self.now_us = self.store.database_us()
        for first in range(0, rows, 5_000):
            count = min(5_000, rows - first)
            self.store.add_jobs([self._job(first + number) for number in range(count)])

    def close(self) -> None:
        """Give the store's connections up."""
        self.store.close()

    def reset(self) -> None:
        """Make all firings due and unclaimed, on fresh pages."""
        self.session.execute(RESET)
        self.session.execute("VACUUM (ANALYZE) firings")
        self.session.execute("CHECKPOINT")

    def claim(self, page_rows: int) -> list[ClaimBatch]:
        """Claim all, page by page."""
        pages: list[ClaimBatch] = []
        after = (0, 0)
        while True:
            page = self.store.claim_page(
                0, self.term, self.leader, after=after, until_us=self.now_us, limit=page_rows
            )
            if not len(page):
                return pages
            pages.append(page)
            after = (int(page.due_us[-1]), int(page.firing_id[-1]))

    def start(self, claimed: list[tuple[Int64s, Int64s]]) -> list[Starts]:
        """Start what was claimed."""
        return [
            self.store.start(self.worker, ids, fences, np.full(len(ids), 300), slack_s=30)
            for ids, fences in claimed
        ]

    def complete(self, ends: list[list[RunEnd]]) -> int:
        """Complete what was started; returns how many ends were accepted."""
        answers = [self.store.complete(batch).acceptances for batch in ends]
        return sum(answer.count(Acceptance.ACCEPTED) for answer in answers)

    def ends_of(self, starts: list[Starts]) -> list[list[RunEnd]]:
        """Return a success for each, in the batches of a worker."""
        ends = [
            RunEnd(
                firing_id=firing_id, fence=fence, rev=1, job_id=firing_id,
                scheduled_us=self.now_us, status=RunStatus.SUCCESS, action=Action.MOVE,
                next_us=self.now_us + HOUR_US, output="12",
            )
            for each in starts
            for firing_id, fence in zip(each.firing_id.tolist(), each.fence.tolist(), strict=True)
        ]  # fmt: skip
        return [ends[first : first + COMPLETE_ROWS] for first in range(0, len(ends), COMPLETE_ROWS)]

    def _job(self, number: int) -> NewJob:
        definition = Definition(
            name=TASK, task=TASK, schedule=f"{number % 60} * * * *", timezone="America/New_York",
            payload=PAYLOAD.decode(),
        )  # fmt: skip
        return NewJob(
            definition=definition, first_us=self.now_us, anchor_us=self.now_us, is_once=False
        )


def batches_of(pages: list[ClaimBatch], rows: int) -> list[tuple[Int64s, Int64s]]:
    """Cut what was claimed into (firing ids, fences) of `rows` each."""
    ids = np.concatenate([page.firing_id for page in pages])
    fences = np.concatenate([page.fence for page in pages])
    return [(ids[i : i + rows], fences[i : i + rows]) for i in range(0, len(ids), rows)]
