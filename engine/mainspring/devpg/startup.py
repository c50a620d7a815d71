"""Starts the server process of a prepared data folder until it is ready, and ends it.

Readiness is read from the pid file, as pg_ctl does; no connection is needed for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mainspring.clock import monotonic_s, sleep_s
from mainspring.devpg.binaries import Binaries
from mainspring.devpg.child import ServerProcess
from mainspring.devpg.datafolder import LOG_NAME, DataFolder, last_lines, reach_hint
from mainspring.devpg.leftovers import end_backends
from mainspring.devpg.pidfile import is_ready
from mainspring.devpg.privilege import RunAs
from mainspring.devpg.runfolder import RunFolder
from mainspring.errors import DevPostgresError

StopMode = Literal["fast", "immediate"]

# Recovery after a kill replays at most max_wal_size; this is what a slow disk needs for it.
START_S = 90.0
# A fast stop writes a checkpoint.  After that it is ended the hard way and recovers next time.
STOP_S = 60.0
HARD_STOP_S = 15.0

_POLL_S = 0.01
_LAUNCH_COUNT_MAX = 20

# What the server says when another has taken the free port we had found, and when backends of a
# postmaster killed a moment ago have not yet noticed.  Both pass.
_PORT_TAKEN = "Address already in use"
_BACKENDS_REMAIN = "pre-existing shared memory block"
_BACKENDS_GO_S = 30.0
_BACKENDS_GRACE_S = 3.0
"""A backend notices at its next wait, and each that works on needs its turn for that.  One that is
still there after the grace is ended."""

_BACKENDS_POLL_S = 0.1


def start_process(
    binaries: Binaries,
    run: RunFolder,
    data: DataFolder,
    run_as: RunAs,
    arguments: Sequence[str],
    port: int,
) -> tuple[ServerProcess, int]:
    """Start the server and return it with its port once it takes connections.

    Parameters
    ----------
    arguments
        In.  More of them for `postgres`.
    port
        The one to use, or 0 for any that is free.

    Raises
    ------
    DevPostgresError
        It ended, with the end of its log as detail, or was not ready within `START_S`.  It is not
        running then.
    """
    said = ""
    launches_left = _LAUNCH_COUNT_MAX
    patient_until_s = monotonic_s() + _BACKENDS_GO_S
    while launches_left:
        data.clear_stale_server()
        tried_port = port or _free_port()
        command = [
            binaries.path("postgres"),
            *("-D", str(data.path), "-k", str(run.socket_dir)),
            *("-h", "127.0.0.1", "-p", str(tried_port)),
            *arguments,
        ]
        log_path = data.path / LOG_NAME
        process = _spawn(command, log_path, run_as, run.lock_fd)
        if _wait_ready(process, data.path):
            return process, tried_port
        said = log_path.read_text(encoding="utf-8", errors="replace")
        if _BACKENDS_REMAIN in said and monotonic_s() < patient_until_s:
            if monotonic_s() > patient_until_s - _BACKENDS_GO_S + _BACKENDS_GRACE_S:
                end_backends(data.path)
            sleep_s(_BACKENDS_POLL_S)
        elif _PORT_TAKEN in said and not port:
            launches_left -= 1
        else:
            break
    raise DevPostgresError(
        f"Postgres did not start in {data.path}",
        detail=last_lines(said),
        hint=reach_hint(run_as),
    )


def end_process(process: ServerProcess, mode: StopMode) -> None:
    """End the server, ever harder, and return when it is gone."""
    ways = [(signal.SIGQUIT, HARD_STOP_S), (signal.SIGKILL, HARD_STOP_S)]
    if mode == "fast":
        ways.insert(0, (signal.SIGINT, STOP_S))
    for number, patience_s in ways:
        process.send(number)
        if process.wait(patience_s):
            return


def _spawn(command: Sequence[str], log_path: Path, run_as: RunAs, lock_fd: int) -> ServerProcess:
    """Fork the server with a fresh log; the log of the run before stays beside it."""
    with contextlib.suppress(FileNotFoundError):
        log_path.replace(log_path.with_name(LOG_NAME + ".1"))
    try:
        # EXCL and so never through a link that another user put into a folder of theirs.
        log_fd = os.open(
            log_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            if run_as.is_other_user:
                os.fchown(log_fd, run_as.uid, run_as.gid)
            return ServerProcess(
                command,
                userns=run_as.userns,
                uid=run_as.uid,
                gid=run_as.gid,
                log_fd=log_fd,
                pass_fds=(lock_fd,),
            )
        finally:
            os.close(log_fd)
    except OSError as problem:
        raise DevPostgresError(
            f"cannot start {command[0]}: {problem.strerror}", detail=f"log is {log_path}"
        ) from problem


def _wait_ready(process: ServerProcess, folder: Path) -> bool:
    """Wait until the server is ready (True) or has ended (False)."""
    deadline_s = monotonic_s() + START_S
    while not is_ready(folder, process.pid):
        if process.wait(_POLL_S):
            return False
        if monotonic_s() >= deadline_s:
            end_process(process, "immediate")
            said = (folder / LOG_NAME).read_text(encoding="utf-8", errors="replace")
            raise DevPostgresError(
                f"Postgres in {folder} was not ready within {START_S:.0f} s",
                detail=last_lines(said),
            )
    return True


def _free_port() -> int:
    """Return a port that was free a moment ago; a start that loses the race takes another."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
