"""Takes a folder for one process: an flock on the folder itself, gone with its holder.

On the folder and not on a file in it, since initdb wants its folder empty.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mainspring.clock import monotonic_s, sleep_s

_POLL_S = 0.02


def try_lock(folder: Path, *, wait_s: float = 0.0) -> int | None:
    """Return a descriptor that holds the lock, or None if another process held it all that time.

    Closing the descriptor, and every copy a child inherited, gives the folder back.

    Raises
    ------
    OSError
        The folder cannot be opened.
    """
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline_s = monotonic_s() + wait_s
    while True:
        try:
            fcntl.flock(folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic_s() >= deadline_s:
                os.close(folder_fd)
                return None
            sleep_s(_POLL_S)
        except BaseException:
            os.close(folder_fd)
            raise
        else:
            return folder_fd
