"""Registers jobs over HTTP, many at a time, with the standard library's client."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainspring.clock import monotonic_s
from mainspring.errors import MainspringError

THREADS = 16
TIMEOUT_S = 30.0
IDLE_S_MAX = 5.0


class DemoClient:
    """A client with one kept connection per thread."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port
        self._local = threading.local()

    def post_job(self, body: dict[str, Any]) -> dict[str, Any]:
        """Register a job; returns the answer."""
        return self._ask("POST", "/api/v1/jobs", body, 201)

    def delete_job(self, job_id: str) -> None:
        """Delete a job."""
        self._ask("DELETE", f"/api/v1/jobs/{job_id}", None, 204)

    def runs(self, job_id: str) -> list[dict[str, Any]]:
        """Return the newest runs of a job."""
        answer: Any = self._ask("GET", f"/api/v1/jobs/{job_id}/runs?limit=500", None, 200)
        return list(answer)

    def post_many(
        self, bodies: Sequence[dict[str, Any]], on_progress: Callable[[int], None]
    ) -> list[str]:
        """Register jobs from several threads; returns their ids in order."""
        done = 0
        lock = threading.Lock()

        def post(body: dict[str, Any]) -> str:
            nonlocal done
            answer = self.post_job(body)
            with lock:
                done += 1
                on_progress(done)
            return str(answer["job_id"])

        with ThreadPoolExecutor(THREADS, thread_name_prefix="demo-client") as pool:
            return list(pool.map(post, bodies))

    def _connection(self) -> http.client.HTTPConnection:
        """Return this thread's connection; a new one after a pause, since servers hang up."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        now_s = monotonic_s()
        if connection is None or now_s - self._local.used_s > IDLE_S_MAX:
            if connection is not None:
                connection.close()
            connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
            self._local.connection = connection
        self._local.used_s = now_s
        return connection

    def _ask(self, method: str, path: str, body: Any, expected_status: int) -> dict[str, Any]:
        connection = self._connection()
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        connection.request(method, path, body=data, headers=headers)
        response = connection.getresponse()
        text = response.read()
        if response.status != expected_status:
            raise MainspringError(
                f"{method} {path} answered {response.status} instead of {expected_status}",
                detail=text[:500].decode(errors="replace"),
            )
        answer: dict[str, Any] = msgspec.json.decode(text) if text else {}
        return answer
