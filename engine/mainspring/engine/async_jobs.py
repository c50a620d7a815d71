"""`engine.jobs` of an async host: the calls of `mainspring.jobs`, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, Unpack

from mainspring.engine.life import Life
from mainspring.jobs import Jobs
from mainspring.registration import JobFields, JobUpdate
from mainspring.shown import JobOut, JobRegistered, LetterOut, RunOut

_Answer = TypeVar("_Answer")
_Registered = list[JobRegistered]
_JobList = list[JobOut]
_RunList = list[RunOut]
_LetterList = list[LetterOut]


class AsyncJobs:
    """Jobs, their runs and dead letters; each method is that of `mainspring.jobs.Jobs`.

    A few calls go on at a time, in threads of the engine; further ones wait.  A call that is
    cancelled may have been carried out.  Each raises `Conflict` unless the engine runs.
    """

    def __init__(self, life: Life) -> None:
        self._life = life

    async def add(self, **fields: Unpack[JobFields]) -> JobRegistered:
        """Register a job; see `Jobs.add`."""
        return await self._call(lambda jobs: jobs.add(**fields))

    async def add_many(self, jobs: Iterable[Mapping[str, object]]) -> _Registered:
        """Register up to 10,000 jobs, all or none; see `Jobs.add_many`."""
        given = [*jobs]  # what the caller iterates over may belong to the loop's thread
        return await self._call(lambda known: known.add_many(given))

    async def get(self, job_id: str) -> JobOut:
        """Return a job; see `Jobs.get`."""
        return await self._call(lambda jobs: jobs.get(job_id))

    async def list(self, *, limit: int = 100, after: str | None = None) -> _JobList:
        """Return a page of jobs; see `Jobs.list`."""
        return await self._call(lambda jobs: jobs.list(limit=limit, after=after))

    async def update(
        self, job_id: str, *, if_rev: int | None = None, **fields: Unpack[JobUpdate]
    ) -> JobOut:
        """Change some fields of a job; see `Jobs.update`."""
        return await self._call(lambda jobs: jobs.update(job_id, if_rev=if_rev, **fields))

    async def pause(self, job_id: str, *, if_rev: int | None = None) -> JobOut:
        """Pause a job; see `Jobs.pause`."""
        return await self._call(lambda jobs: jobs.pause(job_id, if_rev=if_rev))

    async def resume(self, job_id: str, *, if_rev: int | None = None) -> JobOut:
        """Resume a paused job; see `Jobs.resume`."""
        return await self._call(lambda jobs: jobs.resume(job_id, if_rev=if_rev))

    async def delete(self, job_id: str) -> bool:
        """Delete a job; see `Jobs.delete`."""
        return await self._call(lambda jobs: jobs.delete(job_id))

    async def runs(self, job_id: str, *, limit: int = 20, before: RunOut | None = None) -> _RunList:
        """Return a page of a job's runs; see `Jobs.runs`."""
        return await self._call(lambda jobs: jobs.runs(job_id, limit=limit, before=before))

    async def recent_runs(self, *, limit: int = 20) -> _RunList:
        """Return the newest ended runs of all jobs; see `Jobs.recent_runs`."""
        return await self._call(lambda jobs: jobs.recent_runs(limit=limit))

    async def dead_letters(self, *, limit: int = 100) -> _LetterList:
        """Return dead letters, oldest first; see `Jobs.dead_letters`."""
        return await self._call(lambda jobs: jobs.dead_letters(limit=limit))

    async def redrive(self, run_id: str) -> None:
        """Give a dead letter attempts again; see `Jobs.redrive`."""
        await self._call(lambda jobs: jobs.redrive(run_id))

    async def _call(self, work: Callable[[Jobs], _Answer]) -> _Answer:
        if self._life.stand_in is not None:
            return work(self._life.stand_in)
        parts = self._life.running()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(parts.calls, work, parts.jobs)
