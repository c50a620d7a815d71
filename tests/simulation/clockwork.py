"""Virtual time: events in order, one after the other, repeatable from a seed."""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections.abc import Callable

EVENTS_AT_ONCE_MAX = 10_000


class Clockwork:
    """Runs events at their instants; `now_us` is true time, which no actor reads directly."""

    def __init__(self) -> None:
        self.now_us = 1_000_000_000
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.trace_hash = 0

    def at(self, instant_us: int, event: Callable[[], None]) -> None:
        """Have an event happen, not before now."""
        heapq.heappush(self._events, (max(self.now_us, instant_us), next(self._order), event))

    def after(self, delay_us: int, event: Callable[[], None]) -> None:
        """Have an event happen after a delay."""
        self.at(self.now_us + delay_us, event)

    def run_until(self, instant_us: int) -> None:
        """Let everything happen up to an instant."""
        standing = 0
        while self._events and self._events[0][0] <= instant_us:
            before_us = self.now_us
            self.now_us, _, event = heapq.heappop(self._events)
            standing = standing + 1 if self.now_us == before_us else 0
            assert standing < EVENTS_AT_ONCE_MAX, "a busy loop: time stands still"
            event()
        self.now_us = instant_us

    def note(self, *what: object) -> None:
        """Mix something into the hash that two runs of one seed must agree on."""
        line = f"{self.trace_hash} {self.now_us} {what}"
        self.trace_hash = zlib.crc32(line.encode())
