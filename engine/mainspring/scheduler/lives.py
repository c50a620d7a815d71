"""A scheduler that finds itself declared dead goes on under a new holder id.

Whoever declared it dead may lead its shards by now; what it had leased is theirs to claim anew.
So nothing is carried over: the next life begins as a fresh process would, as a standby.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from mainspring.errors import HolderLost, StoreUnavailable
from mainspring.logs import get_logger
from mainspring.scheduler.process import Scheduler

log = get_logger("mainspring.scheduler")

PAUSE_S: Final = 0.5
"""Before each try to go on."""


class SchedulerLives:
    """Runs one `Scheduler` after the other until it is asked to stop."""

    def __init__(self, build: Callable[[], Scheduler]) -> None:
        self._build = build
        self._current = build()
        self._stopping = threading.Event()

    @property
    def holder_id(self) -> int:
        """The holder id of the life that goes on now."""
        return self._current.holder_id

    def stop(self) -> None:
        """Ask the life that goes on now to end, and begin none after it; from any thread."""
        self._stopping.set()
        self._current.stop()

    def run(self) -> None:
        """Lead until `stop`; raises what ended a life, unless it was declared dead or had no store.

        A store that is away when a life begins is waited for.
        """
        while True:
            try:
                self._current.run()
            except (HolderLost, StoreUnavailable) as error:
                log.failed("a life has ended, going on with a new id", error)
                if not self._begin_anew():
                    return
            else:
                return

    def _begin_anew(self) -> bool:
        """Build the next life, however long the store is away; False if none is wanted."""
        while not self._stopping.wait(PAUSE_S):
            try:
                self._current = self._build()
            except StoreUnavailable as error:
                log.failed("could not register", error)
                continue
            if self._stopping.is_set():  # the one it was said to had ended already
                self._current.stop()
            return True
        return False
