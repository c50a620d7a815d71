"""A real API process, and a client that says exactly what it sends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import psycopg

from mainspring.store.postgres import PostgresStore

JOBS = "/api/v1/jobs"
JSON = {"Content-Type": "application/json"}
EXAMPLE = {
    "name": "send-weekly-report",
    "schedule": "0 9 * * 1",
    "timezone": "America/New_York",
    "payload": {"report_type": "weekly"},
    "idempotency_key_template": "report-{{week}}",
    "max_retries": 3,
    "retry_backoff": "exponential",
    "missed_window": "RUN_ONCE",
    "timeout_seconds": 120,
}
WAIT_S = 30.0


@dataclass(frozen=True)
class Answer:
    """A response; `value` is its body read as JSON, None if it has none."""

    status: int
    headers: Mapping[str, str]
    value: Any

    @property
    def pointer(self) -> str | None:
        return self.value.get("pointer") if isinstance(self.value, dict) else None


def api_environment(dsn: str | None, **settings: str) -> dict[str, str]:
    """Environment of an API process: ours, without other settings of mainspring."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MAINSPRING_")}
    ours = {} if dsn is None else {"MAINSPRING_DSN": dsn}
    return kept | ours | {"MAINSPRING_PORT": "0", "MAINSPRING_DIE_WITH_PARENT": "1"} | settings


COMMAND = [sys.executable, "-m", "mainspring_api"]


class ApiProcess:
    """`python -m mainspring_api` on a free port of loopback; ends with its context."""

    def __init__(self, dsn: str, **settings: str) -> None:
        self.process = subprocess.Popen(
            COMMAND, env=api_environment(dsn, **settings), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the API ended with {self.process.wait()}"
        said = json.loads(line)
        self.url = str(said["url"])
        self.metrics_port = int(said["metrics_port"])
        self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def connect(self) -> contextlib.closing[http.client.HTTPConnection]:
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, WAIT_S))

    def call(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] = JSON,
        *,
        connection: http.client.HTTPConnection | None = None,
    ) -> Answer:
        """Send one request and read its answer whole."""
        if connection is None:
            with self.connect() as own:
                return self.call(method, path, body, headers, connection=own)
        chunked = body is not None and not isinstance(body, bytes)
        connection.request(method, path, body, dict(headers), encode_chunked=chunked)
        response = connection.getresponse()
        text = response.read()
        fields = {key.lower(): value for key, value in response.getheaders()}
        return Answer(response.status, fields, json.loads(text) if text else None)

    def register(self, **changes: object) -> Answer:
        """POST a job that is right but for `changes`."""
        fields = {"name": "report", "schedule": "0 9 * * 1"} | changes
        return self.call("POST", JOBS, json.dumps(fields).encode())

    def talk(self, sent: bytes) -> bytes:
        """Send raw bytes and return all that comes back until the API closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), WAIT_S) as raw:
            raw.sendall(sent)
            received = b""
            while piece := raw.recv(65_536):
                received += piece
        return received


def prepare(dsn: str) -> str:
    """Make shards and partitions, as a scheduler does at its start."""
    store = PostgresStore(dsn, application_name="test")
    try:
        store.make_shards(8)
        store.make_partitions(days_ahead=1)
    finally:
        store.close()
    return dsn


def rows_of(dsn: str, query: str, **parameters: object) -> list[tuple[Any, ...]]:
    """Ask the database behind the API's back."""
    with psycopg.connect(dsn, autocommit=True) as session:
        cursor = session.execute(query.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def count_stored(dsn: str) -> int:
    """Count everything a registration writes."""
    ((count,),) = rows_of(
        dsn, "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM firings)"
    )
    return int(count)


def wait_until(condition: Any, what: str) -> None:
    """Ask again and again until it is so, or fail."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"gave up waiting: {what}"
        time.sleep(0.02)
