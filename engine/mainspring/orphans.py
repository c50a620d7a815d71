"""Makes a child process end with the process that started it, however that ends.

Two ways, since each has a gap.  The kernel's signal comes when the *thread* that started the child
ends, at once and also to a child that is blocked; it is lost if the parent died before it was
asked for.  End of file on a pipe from the parent is seen by a thread that reads it; it does not
come while a third process still holds the other end.

Source: prctl(2), PR_SET_PDEATHSIG; pipe(7).
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent is gone; end it now if that is so already.

    Where there is no prctl nothing is asked for, and the pipe has to do.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


def ignore_stop_signals() -> None:
    """Leave SIGTERM, SIGINT and SIGHUP to the parent, which has work to finish first.

    They reach the whole group or unit.  A handler that does nothing is not inherited by programs
    that this process starts, as ignoring would be.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
