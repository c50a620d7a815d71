"""Route of a job's history: its runs, newest first, page by page."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from mainspring.instants import INSTANT_MAX_US
from mainspring.model import Run, format_job_id
from mainspring.shown import shown_run
from mainspring.store.protocol import Store
from mainspring_api.answers import json_response
from mainspring_api.calls import BoundedCalls
from mainspring_api.jobs import PATH, never_given_out
from mainspring_api.paths import job_id_of
from mainspring_api.problems import ProblemRaised
from mainspring_api.query import read_limit, read_query

LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 500

Cursor = tuple[int, int, int, int]
"""(scheduled_us, attempt, firing_id, fence) of the last run of a page."""

_CURSOR: Final = struct.Struct(">Bqiqq")
_CURSOR_VERSION: Final = 1
_CURSOR_LENGTH_MAX: Final = 64


def encode_cursor(run: Run) -> str:
    """Write where the next page begins; opaque to clients."""
    packed = _CURSOR.pack(_CURSOR_VERSION, run.scheduled_us, run.attempt, run.firing_id, run.fence)
    return base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def decode_cursor(text: str) -> Cursor:
    """Read what `encode_cursor` wrote; raises a problem of status 400 for anything else."""
    try:
        packed = base64.b64decode(
            text[:_CURSOR_LENGTH_MAX].encode("ascii") + b"=" * (-len(text) % 4),
            altchars=b"-_",
            validate=True,
        )
        version, scheduled_us, attempt, firing_id, fence = _CURSOR.unpack(packed)
    except (UnicodeEncodeError, binascii.Error, struct.error):
        version = 0
    if (
        version != _CURSOR_VERSION
        or not 0 <= scheduled_us <= INSTANT_MAX_US
        or min(attempt, firing_id, fence) < 0
    ):
        raise ProblemRaised(
            400,
            "cursor is not one of ours",
            parameter="cursor",
            hint='Follow the Link header of the page before, rel="next".',
        )
    return scheduled_us, attempt, firing_id, fence


class RunRoutes:
    """Endpoint of `/api/v1/jobs/{job_id}/runs`."""

    def __init__(self, store: Store, calls: BoundedCalls) -> None:
        self._store = store
        self._calls = calls

    async def of_job(self, request: Request) -> Response:
        """GET: a page of runs, also of a job that is deleted or finished."""
        values = read_query(request, ("cursor", "limit"))
        limit = read_limit(values, default=LIMIT_DEFAULT, limit_max=LIMIT_MAX)
        before = decode_cursor(values["cursor"]) if "cursor" in values else None
        job_id = job_id_of(request)
        runs = await self._calls.run(
            self._store.runs_of_job, job_id, limit=limit + 1, before=before
        )
        if not runs and not await self._calls.run(self._store.was_given_out, job_id):
            raise never_given_out(job_id)
        headers: dict[str, str] = {}
        if len(runs) > limit:
            runs = runs[:limit]
            target = f"{PATH}/{format_job_id(job_id)}/runs"
            query = f"limit={limit}&cursor={encode_cursor(runs[-1])}"
            headers["Link"] = f'<{target}?{query}>; rel="next"'
        return json_response([shown_run(run) for run in runs], headers=headers)
