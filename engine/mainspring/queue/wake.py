"""A wake-up call: any thread may ring it, one thread polls it, and many rings are one.

Source: eventfd(2).
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress


class WakeUp:
    """An eventfd that is readable from the first `set` until `clear`.

    Whoever clears must look at the shared state *afterwards*: a change made before a `set` that
    was merged into an earlier one is seen then.

    A signal handler may ring too.  It runs between any two steps of the thread that clears, so the
    lock is one that its owner may take again, and `clear` reads the descriptor whether or not it
    believes that somebody rang.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_set = False

    def fileno(self) -> int:
        """Return the descriptor to poll for input; -1 once closed."""
        return self._fd

    def set(self) -> None:
        """Make the poll return.  Thread safe; after `close` it does nothing."""
        # Without the lock a late ring could write into a descriptor that someone else got since.
        with self._lock:
            if not self._is_set and self._fd >= 0:
                self._is_set = True
                os.eventfd_write(self._fd, 1)

    def clear(self) -> bool:
        """Return whether it had been set, and let the next `set` ring again."""
        with self._lock:
            was_set = self._is_set
            if self._fd >= 0:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._fd)
            self._is_set = False
            return was_set

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
