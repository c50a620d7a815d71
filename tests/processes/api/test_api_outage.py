"""The database goes away and comes back: 503 while it is gone, and nothing to restart after."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from mainspring.devpg import DevPostgres
from mainspring.store.migrate import migrate
from processes.api.stage import JOBS, ApiProcess, prepare, rows_of, wait_until

pytestmark = pytest.mark.slow

GOOD = b'{"name": "x", "schedule": "0 9 * * 1"}'


@pytest.fixture(scope="module")
def own_server() -> Iterator[DevPostgres]:
    with DevPostgres(settings={"shared_buffers": "16MB"}) as server:
        yield server


def test_a_dead_database_is_503_everywhere_and_recovers_by_itself(own_server: DevPostgres) -> None:
    dsn = own_server.create_database("outage")
    migrate(dsn)
    prepare(dsn)
    with ApiProcess(dsn) as api:
        location = api.register().headers["location"]
        assert api.call("GET", "/readyz").status == 200
        os.kill(own_server.pid, signal.SIGQUIT)
        wait_until(lambda: not own_server.is_running, "the server ends")
        for method, path, body in (
            ("POST", JOBS, GOOD),
            ("GET", location, None),
            ("DELETE", location, None),
            ("GET", location + "/runs", None),
            ("GET", "/readyz", None),
        ):
            answer = api.call(method, path, body)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.headers["content-type"] == "application/problem+json"
            assert "cannot be reached" in answer.value["detail"]
            assert ("not known" in answer.value["detail"]) == (method != "GET")
        assert api.call("GET", "/livez").status == 200
        assert api.call("GET", JOBS + "/not-an-id").status == 404
        own_server.restart()
        assert api.call("GET", "/readyz").status == 200
        assert api.call("GET", location).status == 200
        assert api.call("POST", JOBS, GOOD).status == 201
        assert api.stop() == 0
    assert rows_of(dsn, "SELECT count(*) FROM jobs") == [(2,)]


def test_a_database_that_hangs_makes_it_unready_within_seconds(dsn: str) -> None:
    prepare(dsn)
    with psycopg.connect(dsn) as blocker, ApiProcess(dsn) as api:
        assert api.call("GET", "/readyz").status == 200
        blocker.execute("LOCK TABLE shards IN ACCESS EXCLUSIVE MODE")
        answer = api.call("GET", "/readyz")
        assert answer.status == 503
        assert api.call("GET", "/livez").status == 200
        blocker.rollback()
        wait_until(lambda: api.call("GET", "/readyz").status == 200, "ready again")


def test_a_database_that_was_never_set_up_is_unready_and_says_why(
    postgres_server: DevPostgres, dsn: str
) -> None:
    with ApiProcess(dsn) as api:
        ready, registered = api.call("GET", "/readyz"), api.call("POST", JOBS, GOOD)
        assert [ready.status, registered.status] == [503, 503]
        assert "no shards" in ready.value["detail"]
        assert "no shards" in registered.value["detail"]
        prepare(dsn)
        assert api.call("GET", "/readyz").status == 200
        assert api.call("POST", JOBS, GOOD).status == 201
    empty = postgres_server.create_database("test_api_empty")
    with ApiProcess(empty) as api:
        ready, registered = api.call("GET", "/readyz"), api.call("POST", JOBS, GOOD)
        assert [ready.status, registered.status] == [503, 503]
        assert "migrate" in ready.value["hint"]
        assert "migrate" in registered.value["hint"]
    postgres_server.drop_database("test_api_empty")
