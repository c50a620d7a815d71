"""Routes of health: `/livez` for whoever restarts us, `/readyz` for whoever sends us requests."""

from __future__ import annotations

from typing import Final

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from mainspring.errors import MainspringError, StoreUnavailable
from mainspring.store.protocol import Store
from mainspring_api.answers import json_response
from mainspring_api.problems import LATER, problem_response
from mainspring_api.query import read_query

READY_S_MAX: Final = 2.0


class HealthRoutes:
    """Endpoints of `/livez` and `/readyz`.

    Readiness is asked for in threads of its own: store calls that hang must not make it hang.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._limiter = anyio.CapacityLimiter(2)

    async def live(self, request: Request) -> Response:
        """GET: the event loop turns.  Says nothing about the database."""
        read_query(request)
        return json_response({"status": "live"})

    async def ready(self, request: Request) -> Response:
        """GET: the database answers and has shards, so that a registration would be taken."""
        read_query(request)
        reason, hint = await self._why_not()
        if reason is None:
            return json_response({"status": "ready"})
        return problem_response(503, reason, hint=hint, headers=LATER)

    async def _why_not(self) -> tuple[str | None, str | None]:
        shard_count: int | None = None
        try:
            with anyio.move_on_after(READY_S_MAX):
                shard_count = await anyio.to_thread.run_sync(
                    self._store.count_shards, limiter=self._limiter, abandon_on_cancel=True
                )
        except StoreUnavailable:
            return "the database cannot be reached", "Check that it runs, and the address."
        except MainspringError as error:
            return f"the database is not usable: {error.message}", error.hint
        if shard_count is None:
            return f"the database did not answer within {READY_S_MAX:g} s", "Check its load."
        if shard_count == 0:
            return "the database has no shards", "Start a scheduler, which makes them."
        return None, None
