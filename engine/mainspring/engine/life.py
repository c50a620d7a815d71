"""What both faces of an engine share: its tasks, its figures, and the parts of its current start.

No method here blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

from mainspring.engine.figures import EngineMetrics, Health, State
from mainspring.engine.options import Plan
from mainspring.engine.parts import Parts
from mainspring.errors import Conflict, EngineFailed, InvalidInput
from mainspring.executor import HostLoop
from mainspring.handlers import Handler, Tasks
from mainspring.jobs import Jobs

AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Life:
    """An engine's plan, and whether it runs."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.metrics = EngineMetrics(plan.name)
        self._parts: Parts | None = None
        self.stand_in: Jobs | None = None
        """Answers instead of a database: `mainspring.testing`."""
        self._state: State = "stopped"

    @property
    def tasks(self) -> Tasks:
        """The tasks that this engine's worker knows."""
        return self.plan.tasks

    def task(
        self, name: str | None, isolation: Literal["auto", "thread", "process"]
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Register the decorated function; see `Tasks.task`."""
        register: Callable[[AnyHandler], AnyHandler] = self.plan.tasks.task(
            name, isolation=isolation
        )

        def checked(handler: AnyHandler) -> AnyHandler:
            if self._parts is not None:
                raise Conflict(
                    f"a task is registered while engine {self.plan.name!r} runs",
                    hint="Register all tasks first: the schedulers are told of them at the start.",
                )
            return register(handler)

        return checked

    def begin(self, host: HostLoop | None) -> Parts:
        """Return new parts to be started; then `started`, or `ended` if that fails.

        Raises
        ------
        Conflict
            It runs already.
        InvalidInput
            There is a worker to run, and no task.
        """
        if self._parts is not None:
            raise Conflict(
                f"engine {self.plan.name!r} is {self._state} already",
                hint="Make another Engine, or stop this one first.",
            )
        if self.plan.run_worker and not self.plan.tasks.names:
            raise InvalidInput(
                f"engine {self.plan.name!r} has no tasks",
                hint="Decorate functions with @engine.task(), or pass run_worker=False.",
            )
        self._parts = Parts(self.plan, self.metrics, host)
        self._state = "starting"
        return self._parts

    def started(self) -> None:
        """Take that the parts run."""
        self._state = "running"

    def ending(self) -> Parts | None:
        """Return the parts to be stopped, None if there are none; then `ended`."""
        if self._parts is not None:
            self._state = "stopping"
        return self._parts

    def ended(self, parts: Parts) -> None:
        """Take that the parts are stopped."""
        if self._parts is parts:
            self._parts = None
            self._state = "stopped"

    def running(self) -> Parts:
        """Return the parts that run.

        Raises
        ------
        Conflict
            There are none, or they are those of the process that this one was forked from.
        """
        parts = self._parts
        if parts is None or self._state == "starting":
            raise Conflict(
                f"engine {self.plan.name!r} is not running",
                hint="Use it within `async with engine:` (`with engine:` for a SyncEngine), or "
                "between start and stop.",
            )
        if not parts.is_ours:
            raise Conflict(
                f"engine {self.plan.name!r} was started in another process",
                hint="Start the engine after the fork, in each process that needs one.",
            )
        return parts

    @contextmanager
    def answered_by(self, jobs: Jobs) -> Iterator[None]:
        """Have `jobs` answer within the block; `Conflict` if something answers already."""
        if self._parts is not None or self.stand_in is not None:
            raise Conflict(
                f"engine {self.plan.name!r} is in use already", hint="Stop it, or close the other."
            )
        self.stand_in = jobs
        try:
            yield
        finally:
            self.stand_in = None

    def health(self) -> Health:
        """Say how it is."""
        parts = self._parts
        if parts is None or self._state == "starting":
            return self.metrics.health(self._state, None, "unknown")
        state: State = "failed" if parts.failure is not None else self._state
        return self.metrics.health(
            state, parts.failure, "lost" if parts.outage.is_lost else "reached"
        )


def raise_failure(parts: Parts, raised: BaseException | None) -> None:
    """At the end of a block: raise what the parts failed with, unless the block raises itself.

    What it raises then keeps its place and gets a note.
    """
    failure: EngineFailed | None = parts.failure
    if failure is None or raised is failure:
        return
    if raised is None:
        raise failure
    raised.add_note(f"mainspring: {failure.message}")
