"""Says once that a job names a task which the engine that takes it has no handler for.

It may be right: another worker may know the task.  It may be a slip of the pen, and then the job
waits for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from mainspring.jobs import UnknownTask
from mainspring.logs import get_logger

log = get_logger("mainspring.engine")

NAMES_MAX: Final = 1_000
"""Names that are remembered; beyond, nothing is said."""


class UnknownTaskWarning:
    """Warns of each unknown task once.  Thread safe.

    Parameters
    ----------
    engine
        Its name, for the log.
    queues
        That it takes: a job on another queue is another worker's.
    """

    def __init__(self, engine: str, queues: Sequence[str]) -> None:
        self._engine = engine
        self._queues = frozenset(queues)
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def __call__(self, unknown: UnknownTask) -> None:
        """Take that a job with this task is registered."""
        if unknown.queue not in self._queues:
            return
        with self._lock:
            if unknown.task in self._said or len(self._said) >= NAMES_MAX:
                return
            self._said.add(unknown.task)
        nearest = {} if unknown.nearest is None else {"nearest": unknown.nearest}
        log.warning(
            "no handler here for the task of a job, which waits unless another worker has one",
            task=unknown.task,
            **nearest,
            engine=self._engine,
        )
