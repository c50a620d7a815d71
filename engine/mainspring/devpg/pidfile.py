"""Reads `postmaster.pid`: who runs here, is it ready, is it stale.

Lines: process id, data folder, start time, port, socket folder, address, shared memory key, status.

Source: src/include/utils/pidfile.h; pg_ctl waits for the status line in the same way.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

NAME = "postmaster.pid"
_STATUS_LINE = 8


def read_postmaster_pid(folder: Path) -> int | None:
    """Return the process id in the file; None if there is no file or no number in it."""
    lines = _lines(folder)
    try:
        # A single-user backend writes its id negated.
        return abs(int(lines[0])) or None
    except (IndexError, ValueError):
        return None


def is_ready(folder: Path, pid: int) -> bool:
    """Whether postmaster `pid` has written that it takes connections."""
    lines = _lines(folder)
    return (
        len(lines) >= _STATUS_LINE
        and lines[0].strip() == str(pid)
        and lines[_STATUS_LINE - 1].strip() == "ready"
    )


def live_postmaster(folder: Path) -> int | None:
    """Return the id of the postmaster that runs in the folder; None if there is none.

    A process with that id need not be it: after a container restarts, ids repeat.  A postmaster
    works in its data folder, so that is what tells.  What cannot be looked at counts as live.
    """
    pid = read_postmaster_pid(folder)
    if pid is None:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return pid if _works_in(pid, folder) else None


def take_over_pid_file(folder: Path) -> None:
    """Make a stale file one that the server recognises as stale.

    If another process has got the dead postmaster's id, the server would take it for a rival and
    refuse.  It never does so for its own parent, so that is what we write.  The file is not
    removed: from its shared memory key the server learns whether backends of the dead postmaster
    are still at work.  Call only when `live_postmaster` is None.
    """
    path = folder / NAME
    if read_postmaster_pid(folder) is None:
        # Nothing in it, or no number: the machine went down under it, and the server would refuse.
        path.unlink(missing_ok=True)
        return
    _, _, rest = path.read_bytes().partition(b"\n")
    # In place, so that owner and mode stay; not through a link that another user may have put.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as out:
        out.write(b"%d\n" % os.getpid() + rest)
        out.truncate()


def _works_in(pid: int, folder: Path) -> bool:
    if Path("/proc/self/cwd").exists():
        try:
            return Path(f"/proc/{pid}/cwd").samefile(folder)
        except FileNotFoundError:
            return False  # it has ended, and was not reaped yet
        except OSError:
            return True
    answer = subprocess.run(
        ["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return "postgres" in answer or "postmaster" in answer


def _lines(folder: Path) -> list[str]:
    try:
        return (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
