"""A store on a test's own database: one leader, one worker, and a clock that is moved by hand."""

from __future__ import annotations

from mainspring.model import Definition, NewJob
from mainspring.store.postgres import PostgresStore

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
