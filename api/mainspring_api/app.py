"""Puts the API together: routes, problems and the threads behind them.

Closed to everything it does not know: no redirects, no cross-origin headers, no cookies.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from mainspring.clock import Clock, SystemClock
from mainspring.config import ApiSettings
from mainspring.store.protocol import Store
from mainspring_api.calls import BoundedCalls
from mainspring_api.changes import ChangeRoutes
from mainspring_api.database_time import DatabaseTime
from mainspring_api.health import HealthRoutes
from mainspring_api.jobs import PATH, JobRoutes
from mainspring_api.observer import ApiObserver, Observed
from mainspring_api.paths import ID
from mainspring_api.problems import exception_handlers
from mainspring_api.registrar import Registrar
from mainspring_api.runs import RunRoutes

BODY_S_MAX: Final = 30.0
"""A body of the largest size needs 35 kbit/s to arrive in time."""


def create_app(
    store: Store,
    settings: ApiSettings,
    *,
    clock: Clock | None = None,
    observer: ApiObserver | None = None,
    body_seconds_max: float = BODY_S_MAX,
) -> Starlette:
    """Return the ASGI application over a store.

    Parameters
    ----------
    store
        In.  Thread safe; the caller closes it after the application's shutdown.
    observer
        In.  Told of registrations and responses; None, the default, counts nothing.
    """
    clock = clock or SystemClock()
    calls = BoundedCalls(settings.pool_connections)
    registrar = Registrar(
        store, calls, registered=None if observer is None else observer.jobs_registered
    )
    changes = ChangeRoutes(store, calls, settings, body_seconds_max=body_seconds_max)
    jobs = JobRoutes(
        store,
        calls,
        registrar,
        DatabaseTime(store, calls, clock),
        changes,
        settings,
        body_seconds_max=body_seconds_max,
    )
    runs = RunRoutes(store, calls)
    health = HealthRoutes(store)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await registrar.close()

    job = f"{PATH}/{{job_id:{ID}}}"
    app = Starlette(
        routes=[
            Route(PATH, jobs.collection, methods=["POST"]),
            Route(f"{job}:pause", changes.pause, methods=["POST"]),
            Route(f"{job}:resume", changes.resume, methods=["POST"]),
            Route(job, jobs.member, methods=["GET", "PATCH", "DELETE"]),
            Route(f"{job}/runs", runs.of_job, methods=["GET"]),
            Route("/livez", health.live, methods=["GET"]),
            Route("/readyz", health.ready, methods=["GET"]),
        ],
        middleware=[] if observer is None else [Middleware(Observed, observer, clock)],
        exception_handlers=exception_handlers(),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app
