"""One submitted run, and what carries it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mainspring.clock import US_PER_S
from mainspring.handlers import Context, Outcome, Task
from mainspring.ration import Ration

NEVER_US = 2**63 - 1


class Run:
    """A run from its submission to its end.

    Fields below `deadline_us` change under the executor's lock only.
    """

    __slots__ = (
        "carrier",
        "context",
        "deadline_us",
        "error",
        "give_up_us",
        "is_begun",
        "is_ended",
        "is_interrupted",
        "is_stuck",
        "key",
        "payload",
        "seat",
        "task",
        "timeout_s",
    )

    def __init__(
        self,
        key: int,
        task: Task,
        context: Context,
        payload: bytes,
        timeout_s: float,
        now_us: int,
    ) -> None:
        self.key = key
        self.task = task
        self.context = context
        self.payload = payload
        self.timeout_s = timeout_s
        self.deadline_us = now_us + int(timeout_s * US_PER_S)
        self.give_up_us = NEVER_US
        self.error: str | None = None
        self.is_begun = False
        self.is_ended = False
        self.is_interrupted = False
        self.is_stuck = False
        self.carrier: Carrier
        self.seat: Any = None
        """What its carrier needs to interrupt it; the carrier's own."""
        context.deadline_us = self.deadline_us


class Ledger(Protocol):
    """What a carrier tells the executor."""

    output_bytes_max: int
    traces: Ration
    """By task: which failures are told with their traceback."""

    def begin(self, run: Run) -> bool:
        """Say that a slot is about to run it; False if it has ended meanwhile."""

    def end(self, run: Run, outcome: Outcome) -> None:
        """Say that the handler has ended, once for every begin that was True."""


class Carrier(Protocol):
    """Where handlers run."""

    is_patient: bool
    """Whether a cancelled handler gets its grace before it is interrupted."""

    @property
    def is_stoppable(self) -> bool:
        """Whether an interrupted handler can be expected to end."""

    def take(self, run: Run) -> None:
        """Run it when there is a slot.  Thread safe."""

    def ask(self, run: Run) -> None:
        """Pass on that `ctx.cancelled` was set."""

    def interrupt(self, run: Run) -> None:
        """Stop the handler if that is possible.  Thread safe; does not wait."""

    def stop(self, timeout_s: float) -> None:
        """Give threads and processes back, waiting at most that long.  Nothing is taken after."""


EndCallback = Callable[[int, Outcome], None]
