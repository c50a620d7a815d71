"""How starved the machine was during a scenario, so that limits in seconds stay honest.

A thread does a little work several times a second and compares how long it took with the processor
time it used.  The promises in seconds hold on a machine that lets processes run: up to
`TOLERATED` they are asked for as they stand, and beyond it their limits grow in proportion.
"""

from __future__ import annotations

import threading
import time

TOLERATED = 4.0
ROUND_S = 0.2
WORK_S = 0.004


class Pace:
    """Measures from the construction to `stop`."""

    def __init__(self) -> None:
        self._wall_s = 0.0
        self._cpu_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pace", daemon=True)
        self._thread.start()

    @property
    def slowness(self) -> float:
        """Time that work took by the time it needed; 1 on an idle machine."""
        return self._wall_s / self._cpu_s if self._cpu_s else 1.0

    @property
    def stretch(self) -> float:
        """By how much limits grow; 1 unless the machine was starved."""
        return max(1.0, self.slowness / TOLERATED)

    def stop(self) -> None:
        """Measure no more."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(ROUND_S):
            begun_s, used_s = time.monotonic(), time.thread_time()
            while time.thread_time() - used_s < WORK_S:
                pass
            self._wall_s += time.monotonic() - begun_s
            self._cpu_s += time.thread_time() - used_s
