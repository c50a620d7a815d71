"""What the API counts: the protocol of a counter, and the wrapper that feeds it."""

from __future__ import annotations

from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.clock import Clock
from mainspring.metrics import ApiMetrics

UNROUTED = "none"


class ApiObserver(Protocol):
    """Counts what happened; called on the event loop, so it must not block."""

    def jobs_registered(self, count: int) -> None:
        """Take note of a committed batch of registrations."""

    def request_answered(self, method: str, route: str, status: int, duration_us: int) -> None:
        """Take note of a response that was begun.

        `method` and `route` come from bounded sets: an unknown method is `OTHER`, a path without a
        route is `UNROUTED`, and ids are not part of a route.
        """


class MetricsObserver:
    """Feeds the counters that Prometheus reads."""

    def __init__(self, metrics: ApiMetrics) -> None:
        self._metrics = metrics

    def jobs_registered(self, count: int) -> None:
        """Count a committed batch of registrations."""
        self._metrics.counts.registered += count

    def request_answered(self, method: str, route: str, status: int, duration_us: int) -> None:  # noqa: ARG002
        """Count a response that was begun."""
        self._metrics.requests[method, status] += 1
        self._metrics.counts.request_seconds.observe_one_us(duration_us)


_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})


class Observed:
    """ASGI wrapper that reports each response once it begins."""

    def __init__(self, app: ASGIApp, observer: ApiObserver, clock: Clock) -> None:
        self._app = app
        self._observer = observer
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_us = self._clock.monotonic_us()

        async def report_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else "OTHER"
                route = getattr(scope.get("route"), "path_format", UNROUTED)
                duration_us = self._clock.monotonic_us() - begun_us
                self._observer.request_answered(method, route, message["status"], duration_us)
            await send(message)

        await self._app(scope, receive, report_and_send)
