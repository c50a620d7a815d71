"""The thread that takes hints from the store and tells the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from mainspring.errors import StoreUnavailable
from mainspring.logs import get_logger
from mainspring.scheduler.events import Hinted, HintsLost

log = get_logger("mainspring.scheduler")

LISTEN_S = 5.0
RECONNECT_S = 1.0

HintSource = Callable[[float], Iterable[tuple[int, int, int]]]
"""Yields (shard, due_us, firing_id) for so many seconds; raises StoreUnavailable after a loss."""


class Listener:
    """Listens until `stop`; a lost connection is told, so that the leaders sweep."""

    def __init__(self, source: HintSource, tell: Callable[[Hinted | HintsLost], None]) -> None:
        self._source = source
        self._tell = tell
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; it does within `LISTEN_S` and holds nothing up."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                for shard, due_us, firing_id in self._source(LISTEN_S):
                    self._tell(Hinted(shard, due_us, firing_id))
                    if self._stopping.is_set():
                        return
            except StoreUnavailable as error:
                if self._stopping.is_set():
                    return
                log.failed("hints lost", error)
                self._tell(HintsLost())
                self._stopping.wait(RECONNECT_S)
