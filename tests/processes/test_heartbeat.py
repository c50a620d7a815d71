"""The heartbeat of real processes, on a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from mainspring.clock import monotonic_s, monotonic_us
from mainspring.devpg import DevPostgres
from mainspring.heartbeat import HeartbeatChild
from mainspring.store.statements import statement

BEAT_S = 0.1

PARENT = """
import ctypes, os, sys
from mainspring.heartbeat import HeartbeatChild
child = HeartbeatChild(sys.argv[1], int(sys.argv[2]), beat_s=0.1)
child.start()
print(child.pid, flush=True)
if sys.argv[3] == "fork" and os.fork() == 0:
    # Holds the pipe to the heartbeat open after the end of its parent, until the test ends.
    sys.stdin.read()
    os._exit(0)
if sys.argv[3] == "hold":
    # PyDLL keeps the interpreter's lock: no thread of this process runs meanwhile.
    ctypes.PyDLL(None).usleep(3_000_000)
    print("held", flush=True)
sys.stdin.read()
"""


def until(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    """Ask again and again, a bounded time."""
    end_s = monotonic_s() + seconds
    pause = threading.Event()
    while not is_so():
        assert monotonic_s() < end_s, "it did not come about in time"
        pause.wait(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def connection(dsn: str) -> Iterator[psycopg.Connection[tuple[int]]]:
    with psycopg.connect(dsn, autocommit=True) as made:
        yield made


def register(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute(
        statement("register_holder"),
        {"now": None, "kind": "worker", "address": "tcp://127.0.0.1:1", "name": "test"},
    ).fetchone()
    assert row is not None
    return row[0]


def beats(connection: psycopg.Connection[tuple[int]], holder_id: int) -> int:
    row = connection.execute(
        "SELECT beat FROM holders WHERE holder_id = %s", (holder_id,)
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def child(dsn: str, connection: psycopg.Connection[tuple[int]]) -> Iterator[HeartbeatChild]:
    made = HeartbeatChild(dsn, register(connection), beat_s=BEAT_S)
    made.start()
    yield made
    made.stop()


def fresh_us(child: HeartbeatChild, after_us: int = 0) -> int:
    """Poll until a beat was sent after that instant; return when."""

    def is_fresh() -> bool:
        child.poll()
        return (child.last_sent_us() or 0) > after_us

    until(is_fresh)
    sent_us = child.last_sent_us()
    assert sent_us is not None
    return sent_us


def test_beats_arrive_and_their_sending_is_known(
    child: HeartbeatChild, connection: psycopg.Connection[tuple[int]]
) -> None:
    """None before the first; then instants of our own clock, and a beat in the database each."""
    assert child.last_sent_us() is None
    before_us = monotonic_us()
    first_us = fresh_us(child)
    second_us = fresh_us(child, first_us)

    assert before_us - 1_000_000 < first_us < second_us <= monotonic_us()
    assert beats(connection, child._holder_id) >= 2
    assert not child.is_dead()


StartParent = Callable[[int, str], tuple[subprocess.Popen[str], int]]


@pytest.fixture
def start_parent(dsn: str) -> Iterator[StartParent]:
    """Starts a process that has a heartbeat child; gives it and the child's process id."""
    parents: list[subprocess.Popen[str]] = []

    def start(holder_id: int, what: str) -> tuple[subprocess.Popen[str], int]:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, dsn, str(holder_id), what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        parents.append(parent)
        assert parent.stdout is not None
        return parent, int(parent.stdout.readline())

    yield start
    for parent in parents:
        parent.kill()
        parent.wait()
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.close()
        parent.stdout.close()


@pytest.mark.slow
def test_a_parent_that_holds_the_interpreter_keeps_beating(
    start_parent: StartParent, connection: psycopg.Connection[tuple[int]]
) -> None:
    """While no thread of it runs for three seconds, beats go on arriving."""
    holder_id = register(connection)
    parent, _ = start_parent(holder_id, "hold")
    until(lambda: beats(connection, holder_id) > 0)
    begun_beats = beats(connection, holder_id)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "held\n"

    assert beats(connection, holder_id) - begun_beats >= 8


@pytest.mark.slow
@pytest.mark.parametrize("what", ["wait", "fork"])
def test_a_killed_parent_stops_beating_within_a_second(
    start_parent: StartParent, connection: psycopg.Connection[tuple[int]], what: str
) -> None:
    """After kill -9 the child is gone in less than a second and no beat comes after that.

    Also where a fork of the parent still holds its end of the child's pipe.
    """
    holder_id = register(connection)
    parent, child_pid = start_parent(holder_id, what)
    until(lambda: beats(connection, holder_id) > 0)
    parent.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(child_pid), seconds=1.0)
    count = beats(connection, holder_id)
    threading.Event().wait(4 * BEAT_S)

    assert beats(connection, holder_id) == count


@pytest.mark.slow
def test_a_child_in_a_frozen_statement_ends_with_its_parent(
    start_parent: StartParent, connection: psycopg.Connection[tuple[int]]
) -> None:
    """Also while it waits for a lock on its row, and the beat it waits to write never comes."""
    holder_id = register(connection)
    parent, child_pid = start_parent(holder_id, "wait")
    until(lambda: beats(connection, holder_id) > 0)
    with connection.transaction():
        connection.execute("SELECT beat FROM holders WHERE holder_id = %s FOR UPDATE", (holder_id,))
        threading.Event().wait(3 * BEAT_S)
        parent.send_signal(signal.SIGKILL)
        until(lambda: not is_alive(child_pid), seconds=1.0)


@pytest.mark.parametrize("what", ["declare_dead", "leave"])
def test_a_holder_that_is_dead_or_gone_is_reported(
    child: HeartbeatChild, connection: psycopg.Connection[tuple[int]], what: str
) -> None:
    """No beat is counted any more, the child ends, and none is started in its place."""
    fresh_us(child)
    pid = child.pid
    assert pid is not None

    def is_ended() -> bool:
        # The death is only written if no beat came in between, so it may take a few tries.
        connection.execute(
            statement(what),
            {"now": None, "holder": child._holder_id, "beat": beats(connection, child._holder_id)},
        )
        child.poll()
        return child.is_dead()

    until(is_ended)
    count = beats(connection, child._holder_id)
    until(lambda: not is_alive(pid))
    for _ in range(100):
        child.poll()
        threading.Event().wait(0.01)

    assert (child.pid, child.restart_count) == (None, 0)
    assert beats(connection, child._holder_id) == count


def test_a_new_id_starts_from_nothing(
    child: HeartbeatChild, connection: psycopg.Connection[tuple[int]]
) -> None:
    """After restart the old id's beat does not count; the new id beats and is not dead."""
    fresh_us(child)
    old_id, new_id = child._holder_id, register(connection)
    child.restart(new_id)

    assert child.last_sent_us() is None
    count = beats(connection, old_id)
    fresh_us(child)
    assert beats(connection, new_id) > 0
    assert beats(connection, old_id) == count


def test_a_child_that_dies_is_replaced(child: HeartbeatChild) -> None:
    """After its kill -9 another one beats, and what the dead one sent is not forgotten."""
    sent_us = fresh_us(child)
    first_pid = child.pid
    assert first_pid is not None
    os.kill(first_pid, signal.SIGKILL)
    until(lambda: not is_alive(first_pid))
    child.poll()

    assert (child.last_sent_us() or 0) >= sent_us
    fresh_us(child, monotonic_us())
    assert child.pid not in {None, first_pid}
    assert child.restart_count == 1


def test_signals_meant_for_the_worker_do_not_end_its_heartbeat(child: HeartbeatChild) -> None:
    """SIGTERM, SIGINT and SIGHUP to the child change nothing: the worker drains first."""
    fresh_us(child)
    pid = child.pid
    assert pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    fresh_us(child, monotonic_us() + 100_000)

    assert child.pid == pid


def test_stop_ends_the_child_and_poll_does_not_bring_it_back(child: HeartbeatChild) -> None:
    """Nor does a second stop hurt."""
    fresh_us(child)
    pid = child.pid
    assert pid is not None
    begun_s = monotonic_s()
    child.stop()
    assert monotonic_s() - begun_s < 1  # it went by itself, nobody had to kill it
    child._started_us = 0  # long enough ago for a restart
    child.poll()

    assert not is_alive(pid)
    assert child.pid is None
    child.stop()


def test_the_dsn_is_not_on_the_command_line(child: HeartbeatChild, dsn: str) -> None:
    """Everybody on the machine can read that."""
    fresh_us(child)
    line = Path(f"/proc/{child.pid}/cmdline").read_bytes().decode()

    assert "mainspring._beating" in line
    assert dsn not in line


@pytest.mark.slow
def test_a_restart_of_the_server_is_survived() -> None:
    """Failed beats are no death; the same child beats again when the server is back."""
    with DevPostgres(settings={"fsync": "off"}) as server:
        dsn = server.create_database("beats")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE holders (holder_id bigint, beat bigint, dead_at timestamptz,"
                " left_at timestamptz)"
            )
            connection.execute("INSERT INTO holders VALUES (5, 0)")
        child = HeartbeatChild(dsn, 5, beat_s=BEAT_S)
        child.start()
        fresh_us(child)
        pid = child.pid
        server.restart("immediate")

        fresh_us(child, monotonic_us())
        assert (child.pid, child.is_dead()) == (pid, False)
        child.stop()
