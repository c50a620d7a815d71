"""The API as a process: how it starts, why it refuses to, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import psycopg
import pytest

from processes.api.stage import (
    COMMAND,
    JOBS,
    JSON,
    WAIT_S,
    ApiProcess,
    api_environment,
    prepare,
    rows_of,
    wait_until,
)

pytestmark = pytest.mark.slow

GOOD = b'{"name": "x", "schedule": "0 9 * * 1"}'
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


def run(dsn: str | None, **settings: str) -> tuple[int, dict[str, str], str]:
    """Run the API to its end; returns exit code, the line on stdout, and stderr."""
    done = subprocess.run(
        COMMAND,
        env=api_environment(dsn, **settings),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("dsn", "settings", "word"),
    [
        (None, {}, "database"),
        ("   ", {}, "database"),
        ("postgresql://u:secret@[bad/db", {}, "MAINSPRING_DSN"),
        (NOWHERE, {"MAINSPRING_HOST": "0.0.0.0"}, "0.0.0.0"),
        (NOWHERE, {"MAINSPRING_HOST": "::"}, "::"),
        (NOWHERE, {"MAINSPRING_HOST": "192.0.2.7"}, "192.0.2.7"),
        (NOWHERE, {"MAINSPRING_HOST": "example.org"}, "example.org"),
        (NOWHERE, {"MAINSPRING_PORT": "http"}, "port"),
        (NOWHERE, {"MAINSPRING_PORT": "70000"}, "port"),
        (NOWHERE, {"MAINSPRING_BODY_BYTES_MAX": "0"}, "body_bytes_max"),
        (NOWHERE, {"MAINSPRING_DIE_WITH_PARENT": "yes"}, "MAINSPRING_DIE_WITH_PARENT"),
    ],
)
def test_a_wrong_setting_ends_it_with_2_and_says_which(
    dsn: str | None, settings: dict[str, str], word: str
) -> None:
    code, line, stderr = run(dsn, **settings)
    assert code == 2
    assert word in line["problem"]
    assert line["hint"]
    assert line["problem"] in stderr
    assert "secret" not in json.dumps(line) + stderr


def test_a_port_that_is_taken_ends_it_with_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, line, stderr = run(NOWHERE, MAINSPRING_PORT=str(port))
    assert code == 1
    assert str(port) in line["problem"]
    assert "Traceback" not in stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_it_listens_on_any_loopback_address_and_on_no_other(host: str) -> None:
    with ApiProcess(NOWHERE, MAINSPRING_HOST=host) as api:
        address = api.url.removeprefix("http://").rpartition(":")[0].strip("[]")
        assert address == {"localhost": "127.0.0.1"}.get(host, host)
        connection = http.client.HTTPConnection(address, api.port, WAIT_S)
        connection.request("GET", "/livez")
        assert connection.getresponse().status == 200
        connection.close()
        other = "127.0.0.3" if ":" not in host else "127.0.0.1"
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((other, api.port), WAIT_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(number: signal.Signals) -> None:
    with ApiProcess(NOWHERE) as api:
        api.process.send_signal(number)
        assert api.process.wait(WAIT_S) == 0


def test_sigterm_lets_the_request_under_way_be_answered(dsn: str) -> None:
    prepare(dsn)
    with psycopg.connect(dsn) as blocker, ApiProcess(dsn) as api:
        blocker.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        answers: list[int] = []

        def register() -> None:
            answers.append(api.call("POST", JOBS, GOOD).status)

        thread = threading.Thread(target=register)
        thread.start()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: rows_of(dsn, waiting), "the insert waits for the lock")
        api.process.send_signal(signal.SIGTERM)

        def is_closed() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", api.port)) != 0

        wait_until(is_closed, "no new connections are taken")
        blocker.rollback()
        thread.join(WAIT_S)
        assert answers == [201]
        assert api.process.wait(WAIT_S) == 0
    assert rows_of(dsn, "SELECT count(*) FROM jobs") == [(1,)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of it")
def test_it_ends_when_its_parent_is_killed() -> None:
    script = (
        "import os, subprocess, sys\n"
        "env = dict(os.environ, MAINSPRING_DIE_WITH_PARENT=str(os.getpid()))\n"
        "child = subprocess.Popen([sys.executable, '-m', 'mainspring_api'], env=env)\n"
        "child.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        env=api_environment(NOWHERE),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        line = json.loads(parent.stdout.readline())
        parent.kill()
        parent.wait()

        def is_gone() -> bool:
            with socket.socket() as probe:
                address = ("127.0.0.1", int(line["url"].rpartition(":")[2]))
                return probe.connect_ex(address) != 0

        wait_until(is_gone, "the API ends with its parent")


def test_a_parent_that_is_gone_already_ends_it_at_once() -> None:
    done = subprocess.run(
        COMMAND,
        env=api_environment(NOWHERE, MAINSPRING_DIE_WITH_PARENT=str(2**22)),
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert os.getpid() != 2**22


def test_half_a_request_that_breaks_off_stores_nothing_and_harms_nobody(dsn: str) -> None:
    prepare(dsn)
    head = f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    with ApiProcess(dsn) as api:
        for sent in (
            head[:20],
            head,
            head + b"Content-Length: 38\r\n\r\n" + GOOD[:-1],
            head + b"Content-Length: 38\r\n\r\n",
            head + b"Transfer-Encoding: chunked\r\n\r\n26\r\n" + GOOD + b"\r\n",
            head + b"Content-Length: 999999\r\n\r\n" + GOOD,
        ):
            with socket.create_connection(("127.0.0.1", api.port), WAIT_S) as raw:
                raw.sendall(sent)
        assert api.call("GET", "/readyz").status == 200
        assert api.call("POST", JOBS, GOOD).status == 201
        assert api.stop() == 0
    assert rows_of(dsn, "SELECT count(*) FROM jobs") == [(1,)]


def test_a_body_that_comes_in_drips_is_taken_when_it_is_whole(dsn: str) -> None:
    prepare(dsn)
    head = (
        f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(GOOD)}\r\n\r\n"
    ).encode()
    with (
        ApiProcess(dsn) as api,
        socket.create_connection(("127.0.0.1", api.port), WAIT_S) as raw,
    ):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in head + GOOD[:-1]:
            raw.sendall(bytes([byte]))
        assert api.call("GET", "/livez").status == 200  # others are served meanwhile
        assert rows_of(dsn, "SELECT count(*) FROM jobs") == [(0,)]
        raw.sendall(GOOD[-1:])
        assert raw.recv(65_536).startswith(b"HTTP/1.1 201 ")
    assert rows_of(dsn, "SELECT count(*) FROM jobs") == [(1,)]


def test_a_hundred_silent_connections_hold_nobody_up(dsn: str) -> None:
    prepare(dsn)
    with ApiProcess(dsn) as api:
        silent = [socket.create_connection(("127.0.0.1", api.port), WAIT_S) for _ in range(100)]
        for raw in silent:
            raw.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nContent-Type: application/json\r\n"
                        b"Host: x\r\nContent-Length: 1000\r\n\r\n{")  # fmt: skip
        assert api.call("POST", JOBS, GOOD, JSON).status == 201
        for raw in silent:
            raw.close()
