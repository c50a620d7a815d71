"""An event loop whose time stands still until it is moved.

Timers are due by a clock that somebody else moves, so a handler that sleeps for an hour costs no
time.  When nothing is ready, the loop stops instead of waiting, and says when its next timer is
due.

Sockets and threads of handlers are real.  Their answers cannot be foreseen, so before time passes
they may be waited for, up to `io_wait_s` of real time; 0 means that only what is there counts.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any

from mainspring.instants import US_PER_S


class _Selector(selectors.BaseSelector):
    """Asks the real one, but never waits for the sake of a timer."""

    def __init__(
        self, on_idle: Callable[[float | None], None], io_wait_s: Callable[[], float]
    ) -> None:
        self._real = selectors.DefaultSelector()
        self._on_idle = on_idle
        self._io_wait_s = io_wait_s

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return self._real.select(0)
        ready = self._real.select(self._io_wait_s())
        if not ready:
            self._on_idle(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a clock of microseconds; `io_wait_s` is asked before each wait."""

    def __init__(self, now_us: Callable[[], int], *, io_wait_s: Callable[[], float]) -> None:
        self._now_us = now_us
        self._start_us = now_us()
        self._idle_s: float | None = None
        super().__init__(_Selector(self._note_idle, io_wait_s))
        # A timer counts as due within this; asyncio's own, a nanosecond, is less than the last
        # digit of a time some months away.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return (self._now_us() - self._start_us) / US_PER_S

    def settle(self) -> int | None:
        """Run everything that is ready at this instant.

        Returns
        -------
        int or None
            When the next timer is due, later than now; None if there is none.
        """
        self.run_forever()
        if self._idle_s is None:
            return None
        return self._now_us() + max(1, round(self._idle_s * US_PER_S))

    def _note_idle(self, timeout_s: float | None) -> None:
        self._idle_s = timeout_s
        self.stop()
