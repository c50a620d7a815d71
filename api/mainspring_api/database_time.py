"""The database's now, for requests that need it, without asking for it each time.

A reading is carried forward by the monotonic clock for up to `REFRESH_US` and then taken anew.
What is given is the *upper* end of the interval in which database time lies: the first occurrence
of a job is then strictly later than its registration by the database's own clock.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mainspring.clock import Clock, DatabaseClock
from mainspring.store.protocol import HolderStore
from mainspring_api.calls import BoundedCalls

REFRESH_US: Final = 1_000_000
"""Adds a millisecond of assumed drift, and is how long a step of the clock goes unnoticed."""


class DatabaseTime:
    """Database time of one event loop."""

    def __init__(self, store: HolderStore, calls: BoundedCalls, clock: Clock) -> None:
        self._store = store
        self._calls = calls
        self._clock = clock
        self._known = DatabaseClock()
        self._read_at_us = 0
        self._reading = asyncio.Lock()

    async def now_us(self) -> int:
        """Return the database's now; raises `StoreUnavailable`."""
        if self._is_stale():
            async with self._reading:
                if self._is_stale():  # whoever held the lock may have read it for us
                    await self._read()
        return self._known.high_us(self._clock.monotonic_us())

    def _is_stale(self) -> bool:
        age_us = self._clock.monotonic_us() - self._read_at_us
        return not self._known.is_known or age_us > REFRESH_US

    async def _read(self) -> None:
        sent_us, database_us, received_us = await self._calls.run(self._timed_read)
        self._known.observe(sent_us, received_us, database_us)
        self._read_at_us = received_us

    def _timed_read(self) -> tuple[int, int, int]:
        """Read in the thread itself, so that waiting for a thread does not widen the interval."""
        sent_us = self._clock.monotonic_us()
        database_us = self._store.database_us()
        return sent_us, database_us, self._clock.monotonic_us()
