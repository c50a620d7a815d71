"""Ends this process when the one that started it ends, also by kill -9.

Source: prctl(2), PR_SET_PDEATHSIG.  The signal follows the thread that forked, so a starter must
fork from a thread that lives as long as it does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PARENT_VARIABLE = "MAINSPRING_DIE_WITH_PARENT"
_PR_SET_PDEATHSIG = 1


def follow_parent() -> None:
    """Ask for SIGTERM at the parent's end, if the environment says so."""
    wanted = os.environ.get(PARENT_VARIABLE)
    if not wanted or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if wanted.isdigit() and int(wanted) > 1 and os.getppid() != int(wanted):
        sys.exit(1)  # it ended before we could ask
