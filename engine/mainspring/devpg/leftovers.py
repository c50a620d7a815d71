"""Ends backends of a server that was killed, where they do not end by themselves.

A backend notices the death of its postmaster when it next waits for its client.  One that waits for
a lock of shared memory, whose holder ended with the postmaster, waits for ever, and while it is
there no new server can start in the folder.  The server asks for such processes to be terminated;
what they did is recovered from the log as after any crash.

Where there is no /proc nothing is ended, and the server's own words have to do.

Source: PostgreSQL manual, "Shutting Down the Server" (on SIGKILL); proc_pid_cwd(5).
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def end_backends(data_path: Path) -> list[int]:
    """Kill what still works in a data folder that has no postmaster; returns the process ids.

    The caller holds the folder's lock and has seen that no postmaster lives there.
    """
    ended: list[int] = []
    wanted = str(data_path.resolve())
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
            is_server = (entry / "comm").read_text().strip() == "postgres"
            if is_server and str((entry / "cwd").readlink()) == wanted:
                os.kill(int(entry.name), signal.SIGKILL)
                ended.append(int(entry.name))
    return ended
