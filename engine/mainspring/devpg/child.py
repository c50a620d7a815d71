"""Starts a server process whose life is tied to ours, and tells when it ended.

The kernel's death signal follows the *thread* that forked, not the process.  So each server has a
keeper thread, which forks it and then does nothing but wait for its end: it lives exactly as long
as the server, whichever thread called, and only the end of the whole process can end it earlier.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("launch.py")

# SIGQUIT is Postgres' immediate shutdown: no checkpoint, children gone at once, recovery next time.
DEATH_SIGNAL = signal.SIGQUIT

# How the server learns of our death; see `launch`.  Only Linux has prctl(PR_SET_PDEATHSIG).
DEATH_MODE = "prctl" if sys.platform == "linux" else "pipe"


def launch_command(
    command: Sequence[str],
    *,
    userns: bool = False,
    uid: int = -1,
    gid: int = -1,
    mode: str = "none",
    death_signal: int = 0,
    watch_fd: int = -1,
) -> list[str]:
    """Return the command line that becomes `command` by way of `launch`; see there."""
    places = (os.getpid(), mode, int(death_signal), int(userns), uid, gid, watch_fd)
    return [sys.executable, "-I", "-S", str(_LAUNCHER), *map(str, places), *command]


def server_environment() -> dict[str, str]:
    """Return our environment without what would steer Postgres, and with messages in English."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


class ServerProcess:
    """One server process, started by the constructor, in a session of its own.

    A session of its own, so that Ctrl-C at a terminal reaches us alone: we stop the server when we
    are done with it.

    Parameters
    ----------
    command
        In.  Program and arguments.
    userns, uid, gid
        As whom; see `privilege`.
    log_fd
        In.  Takes stdout and stderr; the caller keeps it.
    pass_fds
        In.  Inherited by the server, for locks that must last as long as it does.

    Raises
    ------
    OSError
        The process could not be forked.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        userns: bool,
        uid: int,
        gid: int,
        log_fd: int,
        pass_fds: Sequence[int] = (),
    ) -> None:
        watch_fd, self._keep_fd = os.pipe() if DEATH_MODE == "pipe" else (-1, -1)
        self._command = launch_command(
            command,
            userns=userns,
            uid=uid,
            gid=gid,
            mode=DEATH_MODE,
            death_signal=DEATH_SIGNAL,
            watch_fd=watch_fd,
        )
        self._log_fd = log_fd
        self._pass_fds = (*pass_fds, watch_fd) if watch_fd >= 0 else tuple(pass_fds)
        self._environment: Mapping[str, str] = server_environment()
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: OSError | None = None
        self._started = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._keep, name="devpg-keeper", daemon=True).start()
        self._started.wait()
        if watch_fd >= 0:
            os.close(watch_fd)
        if self._problem is not None:
            raise self._problem

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it ended and was reaped."""
        return self._ended.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end at most that long; return whether it came."""
        return self._ended.wait(timeout_s)

    def send(self, number: signal.Signals) -> None:
        """Signal the server, unless it has ended."""
        if not self._ended.is_set() and self._process is not None:
            self._process.send_signal(number)

    def _keep(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=self._log_fd,
                stderr=self._log_fd,
                env=self._environment,
                pass_fds=self._pass_fds,
                start_new_session=True,
            )
        except OSError as problem:
            self._problem = problem
        finally:
            self._started.set()
        if self._process is not None:
            self._process.wait()
        if self._keep_fd >= 0:
            # Tells the watcher that the id is free; it then has nothing left to do.
            with contextlib.suppress(OSError):  # somebody killed the watcher
                os.write(self._keep_fd, b"e")
            os.close(self._keep_fd)
        self._ended.set()
