"""Routes that change a job: other fields, pause, resume; guarded by its ETag where one is sent.

The ETag of a job is its rev in quotes.  It is strong: the same rev has the same definition.

Source: RFC 9110, sections 8.8.3 and 13.1.1; RFC 5789.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from mainspring.change import changed, paused, read_change, resumed
from mainspring.changing import Decide, change_job
from mainspring.config import ApiSettings
from mainspring.model import Job, JobId
from mainspring.registration import Limits
from mainspring.shown import shown_job
from mainspring.store.protocol import Store
from mainspring_api.answers import json_response
from mainspring_api.body import read_json_body
from mainspring_api.calls import BoundedCalls
from mainspring_api.paths import job_id_of
from mainspring_api.problems import ProblemRaised
from mainspring_api.query import read_query

_ETAG: Final = re.compile(r'"([1-9][0-9]{0,9})"')


def etag_of(rev: int) -> str:
    """Return the ETag of a job at that rev."""
    return f'"{rev}"'


def job_response(job: Job, status: int = 200) -> Response:
    """Write a job with its ETag."""
    return json_response(
        shown_job(job, is_payload_text=True), status, headers={"ETag": etag_of(job.rev)}
    )


class ChangeRoutes:
    """PATCH of a job, and its `:pause` and `:resume`."""

    def __init__(
        self,
        store: Store,
        calls: BoundedCalls,
        settings: ApiSettings,
        *,
        body_seconds_max: float,
    ) -> None:
        self._store = store
        self._calls = calls
        self._body_bytes_max = settings.body_bytes_max
        self._body_seconds_max = body_seconds_max
        self._limits = Limits(
            payload_bytes_max=settings.payload_bytes_max, depth_max=settings.depth_max
        )

    async def update(self, request: Request) -> Response:
        """Change the fields that the body has."""
        read_query(request)
        job_id, if_rev = job_id_of(request), _if_match(request)
        body = await read_json_body(
            request, bytes_max=self._body_bytes_max, seconds_max=self._body_seconds_max
        )
        fields = read_change(body, limits=self._limits)
        return await self._change(
            job_id, lambda job, now_us: changed(job, fields, now_us, self._limits), if_rev
        )

    async def pause(self, request: Request) -> Response:
        """Pause a job; of a paused one nothing changes."""
        read_query(request)
        job_id, if_rev = job_id_of(request), _if_match(request)
        return await self._change(job_id, lambda job, _: paused(job), if_rev)

    async def resume(self, request: Request) -> Response:
        """Resume a job from now on; of an active one nothing changes."""
        read_query(request)
        job_id, if_rev = job_id_of(request), _if_match(request)
        return await self._change(job_id, resumed, if_rev)

    async def _change(self, job_id: JobId, decide: Decide, if_rev: int | None) -> Response:
        job = await self._calls.run(
            change_job,
            self._store,
            job_id,
            decide,
            now_us=self._store.database_us,
            if_rev=if_rev,
        )
        return job_response(job)


def _if_match(request: Request) -> int | None:
    """Return the rev that the caller has seen; None where it does not say, or says any."""
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    found = _ETAG.fullmatch(given.strip())
    if found is None:
        raise ProblemRaised(
            400,
            f"If-Match {given[:80]!a} is not an ETag of a job",
            hint='Send the ETag of the job as you read it, as in If-Match: "3".',
        )
    return int(found[1])
