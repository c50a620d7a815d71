"""Definitions in Postgres: registered, read, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from mainspring.errors import Conflict, InvalidInput
from mainspring.instants import INFINITY_US
from mainspring.model import (
    Backoff,
    Definition,
    DstGap,
    DstOverlap,
    Job,
    JobChange,
    JobId,
    JobStatus,
    MissedWindow,
    NewJob,
    shard_of,
)
from mainspring.registration import placed
from mainspring.store.postgres.arrays import Bigints, Booleans, Instant, Instants, Integers, Texts
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.database import Database, Part


class PostgresJobs(Part):
    """The facet `JobStore`; see `mainspring.store.protocol`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._shard_count = 0

    def take_ids(self, count: int) -> list[int]:
        """Give out ids that were never given out before."""
        return [number for (number,) in self._database.rows_of("take_ids", count=count)]

    def was_given_out(self, job_id: int) -> bool:
        """Return whether this id was ever given out."""
        ((last_id,),) = self._database.rows_of("last_id")
        return 0 < job_id <= int(last_id)

    def add_jobs(self, jobs: Sequence[NewJob]) -> list[JobId]:
        """Register definitions and their cursors, all or none; announces them by a hint.

        Raises
        ------
        Conflict
            The database has no shards yet.
        InvalidInput
            A value does not fit its column; the caller's validation let it through.
        """
        if not jobs:
            return []
        shard_count = self._count_shards_once()
        job_ids = [JobId(number) for number in self.take_ids(len(jobs))]
        jobs = [placed(new, job_id) for new, job_id in zip(jobs, job_ids, strict=True)]
        shards = [shard_of(job_id, shard_count) for job_id in job_ids]
        columns = _columns(job_ids, shards, jobs)
        try:
            self._database.rows_of("insert_jobs", **columns)
        except (psycopg.DataError, psycopg.IntegrityError, OverflowError, UnicodeError) as error:
            raise _does_not_fit(error) from error
        return job_ids

    def _count_shards_once(self) -> int:
        """Return the number of shards, which never changes while processes run."""
        if not self._shard_count:
            ((self._shard_count,),) = self._database.rows_of("count_shards")
        if not self._shard_count:
            raise Conflict("the database has no shards", hint="Make the shards first.")
        return self._shard_count

    def get_jobs(self, job_ids: Sequence[int]) -> dict[JobId, Job]:
        """Return the definitions that exist, also those with status DELETED."""
        rows = self._database.rows_of("get_jobs", job_ids=Bigints(sorted(set(job_ids))))
        jobs = sorted((_job(*row) for row in rows), key=lambda job: job.job_id)
        return {job.job_id: job for job in jobs}

    def list_jobs(self, *, after_id: int = 0, limit: int = 100) -> list[Job]:
        """Return a page of jobs that are not deleted, in id order."""
        rows = self._database.rows_of("list_jobs", after_id=after_id, limit=limit)
        return [_job(*row) for row in rows]

    def delete_job(self, job_id: int) -> bool:
        """Delete a job, or mark it where a run of it is going on; False if there was none."""

        def work(session: Session) -> bool:
            execute = self._database.execute
            statuses = execute(session, "lock_job", job_id=job_id)
            if not statuses or statuses[0][0] == JobStatus.DELETED:
                return False
            firings = execute(session, "lock_firings_of_job", job_id=job_id)
            execute(session, "delete_unstarted_firings", job_id=job_id)
            if any(is_started for _, is_started in firings):
                execute(session, "mark_started_firings", job_id=job_id)
                execute(session, "mark_job_deleted", job_id=job_id)
            else:
                execute(session, "delete_job", job_id=job_id)
            return True

        return self._database.transact(work)

    def change_job(self, change: JobChange) -> Job | None:
        """Change a job that still has the rev of the change; None if it has not, or is gone."""
        definition = change.definition
        columns = {
            "job_id": change.job_id,
            "rev": change.rev,
            "status": change.status.value,
            "anchor_at": Instant(change.anchor_us),
            "is_once": change.is_once,
            "timed_at": Instant(change.timed_us),
            "name": definition.name,
            "task": definition.task,
            "queue": definition.queue,
            "schedule": definition.schedule,
            "timezone": definition.timezone,
            "payload": definition.payload,
            "template": definition.idempotency_key_template,
            "max_retries": definition.max_retries,
            "backoff": definition.retry_backoff.value,
            "base_seconds": definition.retry_base_seconds,
            "cap_seconds": definition.retry_cap_seconds,
            "timeout_seconds": definition.timeout_seconds,
            "missed_window": definition.missed_window.value,
            "max_missed": definition.max_missed,
            "grace_seconds": definition.misfire_grace_seconds,
            "dst_gap": definition.dst_gap.value,
            "dst_overlap": definition.dst_overlap.value,
        }

        def work(session: Session) -> bool:
            execute = self._database.execute
            changed = execute(session, "change_job", **columns)
            if not changed:
                return False
            execute(session, "lock_firings_of_job", job_id=change.job_id)
            execute(
                session,
                "change_firings",
                job_id=change.job_id,
                shard=changed[0][0],
                scheduled_at=_instant(change.scheduled_us),
                due_at=_instant(change.due_us),
            )
            return True

        try:
            is_changed = self._database.transact(work)
        except (psycopg.DataError, psycopg.IntegrityError, OverflowError, UnicodeError) as error:
            raise _does_not_fit(error) from error
        return self.get_jobs([change.job_id]).get(change.job_id) if is_changed else None


def _instant(instant_us: int | None) -> Instant | None:
    return None if instant_us is None else Instant(instant_us)


def _does_not_fit(error: Exception) -> InvalidInput:
    said = str(error).strip().split("\n", maxsplit=1)[0]
    return InvalidInput("a value of a job does not fit its column", detail=said)


def _columns(job_ids: list[JobId], shards: list[int], jobs: Sequence[NewJob]) -> dict[str, Any]:
    """Turn registrations into the parameters of `insert_jobs`."""
    definitions = [job.definition for job in jobs]
    return {
        "job_ids": Bigints(job_ids),
        "shards": Integers(shards),
        "first_at": Instants([job.first_us for job in jobs]),
        "anchor_at": Instants([job.anchor_us for job in jobs]),
        "is_once": Booleans([job.is_once for job in jobs]),
        "names": Texts([each.name for each in definitions]),
        "tasks": Texts([each.task for each in definitions]),
        "queues": Texts([each.queue for each in definitions]),
        "schedules": Texts([each.schedule for each in definitions]),
        "timezones": Texts([each.timezone for each in definitions]),
        "payloads": Texts([each.payload for each in definitions]),
        "templates": Texts([each.idempotency_key_template for each in definitions]),
        "max_retries": Integers([each.max_retries for each in definitions]),
        "backoffs": Texts([each.retry_backoff.value for each in definitions]),
        "base_seconds": Integers([each.retry_base_seconds for each in definitions]),
        "cap_seconds": Integers([each.retry_cap_seconds for each in definitions]),
        "timeout_seconds": Integers([each.timeout_seconds for each in definitions]),
        "missed_windows": Texts([each.missed_window.value for each in definitions]),
        "max_missed": Integers([each.max_missed for each in definitions]),
        "grace_seconds": Integers([each.misfire_grace_seconds for each in definitions]),
        "dst_gaps": Texts([each.dst_gap.value for each in definitions]),
        "dst_overlaps": Texts([each.dst_overlap.value for each in definitions]),
    }


def _job(
    job_id: int,
    shard: int,
    rev: int,
    status: str,
    name: str,
    task: str,
    queue: str,
    schedule: str,
    timezone: str,
    payload: str,
    template: str | None,
    max_retries: int,
    backoff: str,
    base_seconds: int,
    cap_seconds: int,
    timeout_seconds: int,
    *rest: Any,
) -> Job:
    """Read one row of `get_jobs` or `list_jobs`."""
    (
        missed_window,
        max_missed,
        grace_seconds,
        dst_gap,
        dst_overlap,
        anchor_us,
        is_once,
        timed_us,
        created_us,
        updated_us,
        next_us,
    ) = rest
    definition = Definition(
        name=name,
        task=task,
        queue=queue,
        schedule=schedule,
        timezone=timezone,
        payload=payload,
        idempotency_key_template=template,
        max_retries=max_retries,
        retry_backoff=Backoff(backoff),
        retry_base_seconds=base_seconds,
        retry_cap_seconds=cap_seconds,
        timeout_seconds=timeout_seconds,
        missed_window=MissedWindow(missed_window),
        max_missed=max_missed,
        misfire_grace_seconds=grace_seconds,
        dst_gap=DstGap(dst_gap),
        dst_overlap=DstOverlap(dst_overlap),
    )
    return Job(
        job_id=JobId(job_id),
        shard=shard,
        rev=rev,
        status=JobStatus(status),
        definition=definition,
        anchor_us=anchor_us,
        is_once=is_once,
        timed_us=timed_us,
        created_us=created_us,
        updated_us=updated_us,
        next_us=None if next_us == INFINITY_US else next_us,
    )
