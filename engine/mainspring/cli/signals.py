"""SIGTERM and SIGINT become one call; a second one ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

EXIT_INTERRUPTED = 130


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGTERM or SIGINT; exit hard at the second.

    Must be called in the main thread.
    """
    seen = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            os._exit(EXIT_INTERRUPTED)
        seen = True
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
