"""Routes of jobs: register, read, delete; `changes` has those that change one."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from mainspring.config import ApiSettings
from mainspring.errors import Conflict
from mainspring.instants import format_instant
from mainspring.model import JobId, JobStatus, NewJob, format_job_id
from mainspring.registration import Limits, placed, read_job
from mainspring.shown import JobRegistered
from mainspring.store.protocol import JobStore
from mainspring_api.answers import json_response
from mainspring_api.body import read_json_body
from mainspring_api.calls import BoundedCalls
from mainspring_api.changes import ChangeRoutes, etag_of, job_response
from mainspring_api.database_time import DatabaseTime
from mainspring_api.paths import job_id_of
from mainspring_api.problems import LATER, ProblemRaised
from mainspring_api.query import read_query
from mainspring_api.registrar import Registrar

PATH: Final = "/api/v1/jobs"

FIRST_REV: Final = 1

LARGE_BODY_BYTES: Final = 8_192
"""Reading this much takes 2 ms at worst; 128 KiB of nothing but `1,` take 25 ms."""


def never_given_out(job_id: int) -> ProblemRaised:
    """Give the problem that says so."""
    return ProblemRaised(
        404,
        f"job {format_job_id(job_id)} was never registered",
        hint="Use an id from the answer to a registration.",
    )


class JobRoutes:
    """Endpoints of `/api/v1/jobs` and `/api/v1/jobs/{job_id}`."""

    def __init__(
        self,
        store: JobStore,
        calls: BoundedCalls,
        registrar: Registrar,
        database_time: DatabaseTime,
        changes: ChangeRoutes,
        settings: ApiSettings,
        *,
        body_seconds_max: float,
    ) -> None:
        self._store = store
        self._calls = calls
        self._readers = BoundedCalls(1)
        self._registrar = registrar
        self._database_time = database_time
        self._changes = changes
        self._body_bytes_max = settings.body_bytes_max
        self._body_seconds_max = body_seconds_max
        self._limits = Limits(
            payload_bytes_max=settings.payload_bytes_max, depth_max=settings.depth_max
        )

    async def collection(self, request: Request) -> Response:
        """POST: register a job.  201 once it is committed."""
        read_query(request)
        body = await read_json_body(
            request, bytes_max=self._body_bytes_max, seconds_max=self._body_seconds_max
        )
        now_us = await self._database_time.now_us()
        job = await self._read(body, now_us)
        try:
            number = await self._registrar.add(job)
        except Conflict as error:  # nothing about the job is wrong: the cluster is not set up
            raise ProblemRaised(
                503,
                error.message,
                hint=error.hint,
                headers=LATER,
            ) from None
        job_id = format_job_id(number)
        answer = JobRegistered(job_id, format_instant(placed(job, number).first_us))
        headers = {"Location": f"{PATH}/{job_id}", "ETag": etag_of(FIRST_REV)}
        return json_response(answer, 201, headers)

    async def _read(self, body: bytes, now_us: int) -> NewJob:
        """Check a registration; a large one in a thread, so that it holds nobody else up."""
        if len(body) <= LARGE_BODY_BYTES:
            return read_job(body, now_us=now_us, limits=self._limits)
        return await self._readers.run(read_job, body, now_us=now_us, limits=self._limits)

    async def member(self, request: Request) -> Response:
        """GET, PATCH or DELETE one job."""
        if request.method == "PATCH":
            return await self._changes.update(request)
        read_query(request)
        job_id = job_id_of(request)
        if request.method == "DELETE":
            return await self._delete(job_id)
        jobs = await self._calls.run(self._store.get_jobs, [job_id])
        job = jobs.get(job_id)
        if job is not None and job.status is not JobStatus.DELETED:
            return job_response(job)
        if not await self._calls.run(self._store.was_given_out, job_id):
            raise never_given_out(job_id)
        name = format_job_id(job_id)
        raise ProblemRaised(
            404, f"job {name} is deleted or finished", hint=f"Its history is at {PATH}/{name}/runs."
        )

    async def _delete(self, job_id: JobId) -> Response:
        is_deleted = await self._calls.run(self._store.delete_job, job_id)
        if not is_deleted and not await self._calls.run(self._store.was_given_out, job_id):
            raise never_given_out(job_id)
        return Response(status_code=204)
