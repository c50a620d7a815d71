"""The application over a store in memory: deadlines, unexpected errors, and what is counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette

from mainspring.config import ApiSettings
from mainspring.errors import MainspringError, StoreUnavailable
from mainspring.instants import parse_instant
from mainspring.store.memory import MemoryStore
from mainspring_api import body, health
from mainspring_api.app import create_app
from mainspring_api.observer import UNROUTED

NOW_US = parse_instant("2026-06-03T12:00:00Z")
GOOD = b'{"name": "x", "schedule": "0 9 * * 1"}'


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def value(self) -> Any:
        return json.loads(self.body)


async def exchange(
    app: Starlette,
    method: str,
    path: str,
    pieces: tuple[bytes, ...],
    answer: Answer,
    ending: str = "end",
) -> None:
    """Call the application directly.  After its pieces the body ends, hangs, or breaks off."""
    events = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if ending == "end":
        events[-1]["more_body"] = False
    elif ending == "break":
        events.append({"type": "http.disconnect"})

    async def receive() -> dict[str, Any]:
        if not events:
            await asyncio.Event().wait()
        return events.pop(0)

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            answer.status = event["status"]
            answer.headers = {key.decode(): value.decode() for key, value in event["headers"]}
        else:
            answer.body += event["body"]

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": [(b"content-type", b"application/json")],
        "client": None, "server": None,
    }  # fmt: skip
    await app(scope, receive, send)  # type: ignore[arg-type]


def call(
    app: Starlette,
    method: str,
    path: str,
    pieces: tuple[bytes, ...] = (b"",),
    *,
    ending: str = "end",
    answer: Answer | None = None,
) -> Answer:
    """Exchange one request and its answer in an event loop of their own."""
    answer = answer or Answer()
    asyncio.run(asyncio.wait_for(exchange(app, method, path, pieces, answer, ending), 20))
    return answer


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(lambda: NOW_US)
    store.make_shards(4)
    return store


def test_a_job_in_memory_is_registered_read_and_deleted(store: MemoryStore) -> None:
    def app() -> Starlette:  # one for each event loop
        return create_app(store, ApiSettings())

    registered = call(app(), "POST", "/api/v1/jobs", (GOOD[:10], GOOD[10:]))
    assert (registered.status, registered.value) == (
        201,
        {"job_id": "j_1", "next_run_at": "2026-06-08T09:00:00Z"},
    )
    assert call(app(), "GET", "/api/v1/jobs/j_1").value["name"] == "x"
    assert call(app(), "DELETE", "/api/v1/jobs/j_1").status == 204
    assert call(app(), "GET", "/api/v1/jobs/j_1").status == 404


def test_a_body_that_does_not_arrive_in_time_is_408(store: MemoryStore) -> None:
    app = create_app(store, ApiSettings(), body_seconds_max=0.05)
    answer = call(app, "POST", "/api/v1/jobs", (GOOD[:5],), ending="hang")
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert answer.value["type"] == "urn:mainspring:problem:timeout"
    assert store.list_jobs() == []


def test_a_body_that_breaks_off_stores_nothing(store: MemoryStore) -> None:
    app = create_app(store, ApiSettings())
    assert call(app, "POST", "/api/v1/jobs", (GOOD,), ending="break").status == 400
    assert store.list_jobs() == []


def test_a_body_over_the_limit_that_ends_with_the_piece_too_much_is_413_at_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "DRAIN_S_MAX", 3_600.0)
    app = create_app(store, ApiSettings(body_bytes_max=1_024))
    assert call(app, "POST", "/api/v1/jobs", (b" " * 1_024, b" ")).status == 413
    assert call(app, "POST", "/api/v1/jobs", (GOOD, b" " * (1_024 - len(GOOD)))).status == 201


class Slow(MemoryStore):
    """A store whose answers wait for a gate."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW_US)
        self.entered, self.gate = threading.Event(), threading.Event()

    def count_shards(self) -> int:
        assert self.gate.wait(20)
        return super().count_shards()

    def add_jobs(self, jobs: Any) -> Any:
        self.entered.set()
        assert self.gate.wait(20)
        return super().add_jobs(jobs)


def test_readiness_does_not_wait_for_a_database_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "READY_S_MAX", 0.05)
    store = Slow()
    opener = threading.Timer(1.0, store.gate.set)  # after the answer, for the thread left behind
    opener.start()
    answer = call(create_app(store, ApiSettings()), "GET", "/readyz")
    opener.join()
    assert (answer.status, answer.value["detail"]) == (
        503,
        "the database did not answer within 0.05 s",
    )


def test_shutdown_waits_for_a_registration_whose_request_was_cancelled() -> None:
    store = Slow()
    store.make_shards(4)
    app = create_app(store, ApiSettings())

    async def whole() -> None:
        lifespan = app.router.lifespan_context(app)
        await lifespan.__aenter__()
        request = asyncio.create_task(exchange(app, "POST", "/api/v1/jobs", (GOOD,), Answer()))
        while not store.entered.is_set():
            await asyncio.sleep(0)
        request.cancel()
        ending = asyncio.create_task(lifespan.__aexit__(None, None, None))  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
        assert not ending.done()
        store.gate.set()
        await asyncio.wait_for(ending, 20)
        assert len(store.list_jobs()) == 1

    asyncio.run(whole())


class Broken(MemoryStore):
    """A store whose every read fails as told."""

    error: Exception

    def get_jobs(self, job_ids: Any) -> Any:
        raise self.error

    def count_shards(self) -> int:
        raise self.error


def broken(error: Exception) -> Starlette:
    store = Broken(lambda: NOW_US)
    store.error = error
    return create_app(store, ApiSettings())


def test_an_error_of_ours_with_a_detail_shows_its_first_part_only() -> None:
    error = StoreUnavailable("gone", detail="SELECT secret FROM jobs")
    answer = call(broken(error), "GET", "/api/v1/jobs/j_1")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert b"secret" not in answer.body


@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", ":pause")])
def test_of_a_change_without_the_database_it_is_not_known_whether_it_was_made(
    method: str, path: str
) -> None:
    app = broken(StoreUnavailable("gone"))
    answer = call(app, method, f"/api/v1/jobs/j_1{path}", (b'{"max_retries": 1}',))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.value["detail"].endswith("whether the request took effect is not known")


class Stormed(MemoryStore):
    """A store in which somebody else is always faster."""

    def change_job(self, change: Any) -> Any:
        return None


def test_a_change_that_others_keep_overtaking_is_409() -> None:
    store = Stormed(lambda: NOW_US)
    store.make_shards(1)
    assert call(create_app(store, ApiSettings()), "POST", "/api/v1/jobs", (GOOD,)).status == 201
    app = create_app(store, ApiSettings())
    answer = call(app, "PATCH", "/api/v1/jobs/j_1", (b'{"max_retries": 1}',))
    assert (answer.status, answer.value["detail"]) == (
        409,
        "job j_1 was changed 5 times during this change",
    )


@pytest.mark.parametrize("error", [RuntimeError("secret in jobs.py"), MainspringError("secret")])
def test_an_unexpected_error_is_a_500_problem_without_its_text(error: Exception) -> None:
    answer = Answer()
    with contextlib.suppress(
        RuntimeError, MainspringError
    ):  # raised again after the answer, for the log
        call(broken(error), "GET", "/api/v1/jobs/j_1", answer=answer)
    assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")
    assert b"secret" not in answer.body


@dataclass
class Counts:
    registered: list[int] = field(default_factory=list)
    answered: list[tuple[str, str, int]] = field(default_factory=list)

    def jobs_registered(self, count: int) -> None:
        self.registered.append(count)

    def request_answered(self, method: str, route: str, status: int, duration_us: int) -> None:
        assert duration_us >= 0
        self.answered.append((method, route, status))


def test_requests_are_counted_by_route_and_never_by_id(store: MemoryStore) -> None:
    counts = Counts()
    for method, path, sent in (
        ("POST", "/api/v1/jobs", GOOD),
        ("POST", "/api/v1/jobs", b"{"),
        ("GET", "/api/v1/jobs/j_1", b""),
        ("GET", "/api/v1/jobs/j_zz/runs", b""),
        ("PATCH", "/api/v1/jobs/j_1", b'{"max_retries": 1}'),
        ("POST", "/api/v1/jobs/j_1:pause", b""),
        ("POST", "/api/v1/jobs/j_zz:resume", b""),
        ("BREW", "/livez", b""),
        ("GET", "/secret/j_1", b""),
    ):
        call(create_app(store, ApiSettings(), observer=counts), method, path, (sent,))
    assert counts.registered == [1]
    assert counts.answered == [
        ("POST", "/api/v1/jobs", 201),
        ("POST", "/api/v1/jobs", 400),
        ("GET", "/api/v1/jobs/{job_id}", 200),
        ("GET", "/api/v1/jobs/{job_id}/runs", 404),
        ("PATCH", "/api/v1/jobs/{job_id}", 200),
        ("POST", "/api/v1/jobs/{job_id}:pause", 200),
        ("POST", "/api/v1/jobs/{job_id}:resume", 404),
        ("OTHER", "/livez", 405),
        ("GET", UNROUTED, 404),
    ]
