"""Registration, reading and deletion of jobs; the rules of sql/job.sql."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from mainspring.errors import Conflict, InvalidInput
from mainspring.instants import INFINITY_US
from mainspring.model import (
    Definition,
    FiringId,
    Job,
    JobChange,
    JobId,
    JobStatus,
    NewJob,
    Run,
    RunStatus,
    Trigger,
    shard_of,
)
from mainspring.registration import placed
from mainspring.store.memory.state import Facet, Firing, Hint, State


class MemoryJobs(Facet):
    """The facet `JobStore`."""

    def take_ids(self, count: int) -> list[int]:
        """Give out ids that were never given out before."""
        with self._state.lock:
            return [self._state.take_id() for _ in range(count)]

    def was_given_out(self, job_id: int) -> bool:
        """Return whether this id was ever given out."""
        with self._state.lock:
            return 0 < job_id <= self._state.last_id

    def add_jobs(self, jobs: Sequence[NewJob]) -> list[JobId]:
        """Register definitions and their cursors, and hint each shard's earliest due time.

        Raises
        ------
        Conflict
            There are no shards yet.
        InvalidInput
            Postgres could not keep a value of these.
        """
        if not jobs:
            return []
        state = self._state
        with state.lock:
            if not state.shards:
                raise Conflict("the database has no shards", hint="Make the shards first.")
            now_us = state.database_now()
            ids = [JobId(state.take_id()) for _ in jobs]  # taken even where a value is refused
            jobs = [placed(new, job_id) for new, job_id in zip(jobs, ids, strict=True)]
            for new in jobs:
                _require_storable(new.definition)
            added = [
                Job(
                    job_id=job_id,
                    shard=shard_of(job_id, len(state.shards)),
                    rev=1,
                    status=JobStatus.ACTIVE,
                    definition=new.definition,
                    anchor_us=new.anchor_us,
                    is_once=new.is_once,
                    created_us=now_us,
                    updated_us=now_us,
                    next_us=new.first_us,
                )
                for job_id, new in zip(ids, jobs, strict=True)
            ]
            cursors = [
                Firing(FiringId(job.job_id), job.job_id, job.shard, new.first_us, new.first_us)
                for job, new in zip(added, jobs, strict=True)
            ]
            state.jobs.update((job.job_id, job) for job in added)
            state.job_order.add_all(job.job_id for job in added)
            state.insert_firings(cursors)
        state.send_hints(_earliest_by_shard(cursors))
        return [job.job_id for job in added]

    def get_jobs(self, job_ids: Sequence[int]) -> dict[JobId, Job]:
        """Return the definitions that exist, also those with status DELETED."""
        state = self._state
        with state.lock:
            found = sorted(JobId(job_id) for job_id in set(job_ids) if job_id in state.jobs)
            return {job_id: _shown(state, job_id) for job_id in found}

    def list_jobs(self, *, after_id: int = 0, limit: int = 100) -> list[Job]:
        """Return a page of jobs that are not deleted, in id order."""
        state = self._state
        page: list[Job] = []
        with state.lock:
            for job_id in state.job_order.scan_beyond(after_id):
                if len(page) >= limit:
                    break
                if state.jobs[JobId(job_id)].status is not JobStatus.DELETED:
                    page.append(_shown(state, JobId(job_id)))
        return page

    def delete_job(self, job_id: int) -> bool:
        """Delete a job, or mark it where a run of it is going on."""
        state = self._state
        with state.lock:
            job = state.jobs.get(JobId(job_id))
            if job is None or job.status is JobStatus.DELETED:
                return False
            started = 0
            for row in state.firings_of_job(job.job_id):
                if row.started_us is None:
                    state.remove_firing(row)
                else:
                    row.rev += 1
                    started += 1
            if started:
                state.jobs[job.job_id] = msgspec.structs.replace(
                    job,
                    status=JobStatus.DELETED,
                    rev=job.rev + 1,
                    updated_us=state.database_now(),
                )
            else:
                state.remove_job(job.job_id)
            return True

    def change_job(self, change: JobChange) -> Job | None:
        """Change a job that still has the rev of the change; None if it has not, or is gone."""
        state = self._state
        hints: list[Hint] = []
        with state.lock:
            job = state.jobs.get(change.job_id)
            if job is None or job.rev != change.rev or job.status is JobStatus.DELETED:
                return None
            _require_storable(change.definition)
            now_us = state.database_now()
            state.jobs[job.job_id] = msgspec.structs.replace(
                job,
                rev=job.rev + 1,
                status=change.status,
                definition=change.definition,
                anchor_us=change.anchor_us,
                is_once=change.is_once,
                timed_us=change.timed_us,
                updated_us=now_us,
            )
            for row in state.firings_of_job(job.job_id):
                row.rev += 1
                if row.started_us is not None:
                    continue
                row.fence += 1
                row.locked_by = None
                if row.is_cursor:
                    _change_cursor(state, row, change, now_us)
                if row.due_us != INFINITY_US:
                    hints.append((row.shard, row.due_us, row.firing_id))
            shown = _shown(state, job.job_id)
        state.send_hints(hints)
        return shown


def _change_cursor(state: State, row: Firing, change: JobChange, now_us: int) -> None:
    """Give an unstarted cursor its new times; an occurrence that was due is recorded as skipped."""
    scheduled_us = change.scheduled_us
    if scheduled_us is not None and scheduled_us != row.scheduled_us:
        if row.scheduled_us <= now_us:
            state.record_run(_skipped(row, now_us), now_us)
        row.scheduled_us = scheduled_us
        row.attempt = row.attempts_spent = row.lost_count = 0
        row.catch_up = False
    if change.due_us is not None:
        state.move_firing(row, change.due_us)


def _skipped(row: Firing, now_us: int) -> Run:
    return Run(
        firing_id=row.firing_id,
        fence=row.fence,
        job_id=row.job_id,
        scheduled_us=row.scheduled_us,
        attempt=max(row.attempt, 1),
        status=RunStatus.SKIPPED,
        trigger=Trigger(row.trigger),
        catch_up=False,
        finished_us=now_us,
    )


def remove_finished_jobs(state: State, job_ids: Iterable[JobId]) -> None:
    """Delete definitions that go with their last firing: one-offs and deleted jobs.

    A one-off stays until its last dead letter is gone.
    """
    for job_id in set(job_ids):
        job = state.jobs.get(job_id)
        if job is None or FiringId(job_id) in state.firings or job_id in state.extras:
            continue
        is_deleted = job.status is JobStatus.DELETED
        if is_deleted or (job.is_once and job_id not in state.letters_by_job):
            state.remove_job(job_id)


def _require_storable(definition: Definition) -> None:
    """Raise `InvalidInput` for what a column of the table `jobs` cannot hold."""
    for name, value in msgspec.structs.asdict(definition).items():
        is_storable = not isinstance(value, int) or -(2**31) <= value < 2**31
        if isinstance(value, str):
            is_storable = re.search("[\0\ud800-\udfff]", value) is None
        if not is_storable or (name == "timeout_seconds" and value <= 0):
            raise InvalidInput(
                "a value of a job does not fit its column", detail=f"{name} is {value!a:.40}"
            )


def _shown(state: State, job_id: JobId) -> Job:
    """Return the definition with its cursor's nominal time."""
    cursor = state.firings.get(FiringId(job_id))
    job = state.jobs[job_id]
    is_parked = job.status is JobStatus.PAUSED or (
        cursor is not None and INFINITY_US in {cursor.due_us, cursor.scheduled_us}
    )
    next_us = None if cursor is None or is_parked else cursor.scheduled_us
    return msgspec.structs.replace(job, next_us=next_us)


def _earliest_by_shard(cursors: Iterable[Firing]) -> list[Hint]:
    """Return one hint for each shard; it names the firing only if there is one."""
    by_shard: dict[int, list[Firing]] = {}
    for row in cursors:
        by_shard.setdefault(row.shard, []).append(row)
    return [
        (shard, min(row.due_us for row in rows), rows[0].firing_id if len(rows) == 1 else 0)
        for shard, rows in sorted(by_shard.items())
    ]
