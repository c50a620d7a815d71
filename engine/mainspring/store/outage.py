"""Says in the log, once, that the database is lost, and once that it is back.

Everything that waits for the database fails again and again meanwhile; those lines are for people
who look for them, at debug (`logs.Log.failed`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from mainspring.clock import US_PER_S, monotonic_us
from mainspring.errors import StoreUnavailable
from mainspring.logs import get_logger

log = get_logger("mainspring.store")

Session = TypeVar("Session")

SAY_AGAIN_US: Final = 10 * US_PER_S
"""Least time between two warnings: a server that is out of connections comes and goes."""


class Outage:
    """Whether one database can be reached, as the requests of this process find it.  Thread safe.

    Parameters
    ----------
    who
        Fields of its log lines, as in `engine="mails"`.
    now_us
        A monotonic clock.
    """

    def __init__(self, *, now_us: Callable[[], int] = monotonic_us, **who: object) -> None:
        self._who = who
        self._now_us = now_us
        self._lock = threading.Lock()
        self._answered_us = -1  # when the latest request that was answered began
        self._lost_us: int | None = None
        self._failed_us = 0
        self._is_said = False
        self._is_silent = False
        self._say_us = 0

    @property
    def is_lost(self) -> bool:
        """Whether the database could not be reached when it was last asked."""
        return self._lost_us is not None

    def silence(self) -> None:
        """Say nothing more: whoever ends the database, or does not wait, knows."""
        self._is_silent = True

    def begin(self) -> int:
        """Return what `failed` or `answered` is to be called with at the end of a request."""
        return self._now_us()

    def failed(self, began_us: int, error: str) -> None:
        """Take that a request did not reach the database.

        One that began before another which was answered tells of an old session only.
        """
        with self._lock:
            if began_us < self._answered_us:
                return
            now_us = self._now_us()
            self._failed_us = now_us
            if self._lost_us is None:
                self._lost_us, self._is_said = now_us, False
            is_said_now = not self._is_said and now_us >= self._say_us
            if is_said_now:
                self._is_said, self._say_us = True, now_us + SAY_AGAIN_US
        if is_said_now and not self._is_silent:
            log.warning("database lost", error=error, **self._who)

    def answered(self, began_us: int) -> None:
        """Take that the database did answer a request."""
        if self._lost_us is None:  # every request comes here
            self._answered_us = began_us
            return
        with self._lock:
            if self._lost_us is None or began_us < self._failed_us:
                return
            lost_us, self._lost_us = self._lost_us, None
            self._answered_us = began_us
            is_said = self._is_said
        if is_said and not self._is_silent:
            lost_s = round((self._now_us() - lost_us) / US_PER_S, 1)
            log.info("database is back", lost_s=lost_s, **self._who)


def told(outage: Outage | None, connect: Callable[[], Session]) -> Session:
    """Open a session; an outage is told of one that cannot be opened."""
    began_us = 0 if outage is None else outage.begin()
    try:
        return connect()
    except StoreUnavailable as error:
        if outage is not None and error.is_lost:
            outage.failed(began_us, error.detail or error.message)
        raise
