"""A store on a test's own database: one leader, one worker, and a clock that is moved by hand."""

from __future__ import annotations

import numpy as np
import psycopg

from mainspring.claim import ClaimBatch
from mainspring.model import Definition, NewJob, RunStatus
from mainspring.store.postgres import PostgresStore
from mainspring.store.protocol import Action, RunEnd, Starts

NEXT_US = 60_000_000
"""From a completion to the next occurrence."""

START_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z


class Field:
    """A migrated database with shards and partitions, one leader, one worker, and its clock."""

    def __init__(self, dsn: str, shard_count: int) -> None:
        self.dsn = dsn
        self.now_us = START_US
        self._stores: list[PostgresStore] = []
        self.store = self.open_store()
        self.store.make_shards(shard_count)
        self.store.make_partitions(days_ahead=1)
        self.leader = self.store.register_holder("scheduler", "", "test:1")
        self.worker = self.store.register_holder("worker", "tcp://127.0.0.1:1", "test:2")
        self.terms = [self.store.take_term(shard, self.leader) for shard in range(shard_count)]

    def open_store(self, application_name: str = "mainspring test") -> PostgresStore:
        """Open another store, as another process would."""
        store = PostgresStore(
            self.dsn, application_name=application_name, database_now=lambda: self.now_us
        )
        self._stores.append(store)
        return store

    def close(self) -> None:
        for store in self._stores:
            store.close()


def new_job(first_us: int, *, is_once: bool = False, name: str = "report") -> NewJob:
    """A registration whose first occurrence is at `first_us`."""
    definition = Definition(name=name, task="report", schedule="* * * * *", payload="{}")
    return NewJob(definition=definition, first_us=first_us, anchor_us=first_us, is_once=is_once)


def start(field: Field, batch: ClaimBatch, store: PostgresStore | None = None) -> Starts:
    return (store or field.store).start(
        field.worker, batch.firing_id, batch.fence, np.array([30] * len(batch)), slack_s=30
    )


def ends_of(field: Field, starts: Starts) -> list[RunEnd]:
    return [
        RunEnd(
            firing_id=firing_id,
            fence=fence,
            rev=1,
            job_id=firing_id,
            scheduled_us=field.now_us,
            status=RunStatus.SUCCESS,
            action=Action.MOVE,
            next_us=field.now_us + NEXT_US,
            output="ok",
        )
        for firing_id, fence in zip(starts.firing_id.tolist(), starts.fence.tolist(), strict=True)
    ]


def wait_until_waiting(dsn: str) -> None:
    """Wait until some session waits for a lock."""
    with psycopg.connect(dsn, autocommit=True) as other:
        for _ in range(10_000):
            if other.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                return
    raise AssertionError("nobody waits for a lock")
