"""Signals to processes of ours, with the children they have."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything; state and parent follow the last one.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                found.append(int(stat.parent.name))
    return sorted(found)


def state_of(pid: int) -> str:
    """Return the kernel's letter for a process' state; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def send(pids: list[int], number: signal.Signals) -> None:
    """Signal them, in order; who is gone already is passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Freeze:
    """Processes that stand still until `end`, or until this process is gone, however it goes."""

    def __init__(self, pids: list[int]) -> None:
        # The shell waits for the end of its input, which comes with our end too.
        self._guard = subprocess.Popen(
            ["sh", "-c", 'read -r _; kill -CONT "$@"', "guard", *map(str, pids)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        send(pids, signal.SIGSTOP)

    def end(self) -> None:
        """Let them go on."""
        self._guard.communicate()
