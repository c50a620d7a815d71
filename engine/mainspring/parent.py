"""Says which process this is, and ties it to the one that started it.

When that one goes, so does this.

Only where `MAINSPRING_DIE_WITH_PARENT` asks for it, with the parent's process id or 1, and only on
Linux, whose kernel can.  The signal follows the *thread* that forked us: a parent starts us from
one that lives as long as it means us to.

Source: prctl(2), PR_SET_PDEATHSIG.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from typing import Final

from mainspring.errors import InvalidInput

VARIABLE: Final = "MAINSPRING_DIE_WITH_PARENT"

_PR_SET_PDEATHSIG: Final = 1
_DIGITS_MAX: Final = 10


def process_name() -> str:
    """Return how this process is called in `holders`, for people."""
    return f"{os.uname().nodename}:{os.getpid()}"


def die_with_parent(environ: Mapping[str, str]) -> None:
    """Have the kernel send us SIGTERM when our parent ends, if the environment says so.

    Raises
    ------
    InvalidInput
        The variable is not a number.
    SystemExit
        The parent was gone before the kernel could be asked.
    """
    wanted = environ.get(VARIABLE, "0")
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= _DIGITS_MAX):
        raise InvalidInput(
            f"{VARIABLE} is {wanted[:40]!a}",
            hint="Set it to the process id of the parent, or to 1, or leave it out.",
        )
    if int(wanted) == 0 or sys.platform != "linux":
        return
    parent_pid = int(wanted) if int(wanted) > 1 else os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        raise SystemExit(1)
