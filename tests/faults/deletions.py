"""Deletes some jobs during the burst, shortly before their time, through every fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from faults.expected import Deletion
from faults.load import Registered
from mainspring.errors import MainspringError
from mainspring.store.postgres import PostgresStore

RETRY_S = 0.1
GIVE_UP_S = 60.0


def wall_us() -> int:
    """Return the wall clock, which on this machine is the database's too."""
    return time.time_ns() // 1_000


def delete(store: PostgresStore, job: Registered) -> Deletion:
    """Delete a job, asking again until the store has acknowledged it."""
    asked_us = wall_us()
    give_up_s = time.monotonic() + GIVE_UP_S
    while True:
        try:
            store.delete_job(job.number)
        except MainspringError:
            assert time.monotonic() < give_up_s, "a deletion was never acknowledged"
            threading.Event().wait(RETRY_S)
        else:
            return Deletion(job.job_id, asked_us, wall_us())


class Deleter:
    """A thread that works a plan of deletions off."""

    def __init__(self, store: PostgresStore, jobs: Sequence[Registered]) -> None:
        self.deletions: dict[str, Deletion] = {}
        self._store = store
        self._jobs = sorted(jobs, key=_at_us)
        self._stopping = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="deleter", daemon=True)
        self._thread.start()

    def join(self) -> dict[str, Deletion]:
        """Wait for the last deletion; returns all by job id."""
        self._thread.join(GIVE_UP_S)
        assert not self._thread.is_alive(), "the deletions did not come to an end"
        if self._problem is not None:
            raise self._problem
        return self.deletions

    def stop(self) -> None:
        """Begin no further deletion."""
        self._stopping.set()
        self._thread.join(GIVE_UP_S)

    def _run(self) -> None:
        try:
            for job in self._jobs:
                if self._stopping.wait(max(0, _at_us(job) - wall_us()) / 1e6):
                    return
                self.deletions[job.job_id] = delete(self._store, job)
        except BaseException as problem:  # noqa: BLE001  handed to the test
            self._problem = problem


def _at_us(job: Registered) -> int:
    return job.planned.first_us - job.planned.delete_ahead_us
