"""Lets a few of many like things through in each second, and says how many it kept back.

For what would flood a log, or cost too much to be done each time, in a storm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mainspring.clock import US_PER_S, monotonic_us


class Ration:
    """So many a second of each key.  Thread safe.

    Remembers every key that it was ever asked about: names of tasks, not ids of runs.

    Parameters
    ----------
    per_s
        How many are let through within a second of the first.
    now_us
        A monotonic clock.
    """

    def __init__(self, per_s: int, now_us: Callable[[], int] = monotonic_us) -> None:
        self._per_s = per_s
        self._now_us = now_us
        self._lock = threading.Lock()
        self._seconds: dict[str, tuple[int, int]] = {}  # when it is over, how many passed
        self._kept_back: dict[str, int] = {}

    def take(self, key: str) -> bool:
        """Return whether one more of this key may pass now; it is counted if not."""
        now_us = self._now_us()
        with self._lock:
            end_us, count = self._seconds.get(key, (0, 0))
            if now_us >= end_us:
                end_us, count = now_us + US_PER_S, 0
            if count >= self._per_s:
                self._kept_back[key] = self._kept_back.get(key, 0) + 1
                return False
            self._seconds[key] = end_us, count + 1
            return True

    def kept_back(self) -> list[tuple[str, int]]:
        """Return the keys whose second is over and how many were kept back, each of them once."""
        if not self._kept_back:
            return []
        now_us = self._now_us()
        with self._lock:
            over = [key for key in self._kept_back if now_us >= self._seconds[key][0]]
            return [(key, self._kept_back.pop(key)) for key in over]

    def all_kept_back(self) -> list[tuple[str, int]]:
        """Return the same whether or not the second is over, at the end."""
        with self._lock:
            told, self._kept_back = list(self._kept_back.items()), {}
        return told
