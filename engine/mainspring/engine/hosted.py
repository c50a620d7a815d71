"""`Engine`: an engine in a host with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack

from mainspring.engine.async_jobs import AsyncJobs
from mainspring.engine.figures import EngineMetrics, Health
from mainspring.engine.life import AnyHandler, Life, raise_failure
from mainspring.engine.off_loop import see_through
from mainspring.engine.options import Embedded, Options, plan_of
from mainspring.executor import HostLoop
from mainspring.handlers import Tasks
from mainspring.jobs import Jobs


class Engine:
    """A scheduler and a worker in this process, for hosts with an event loop.

    Use it as `async with engine:`, or call `start` and `stop`.  Async handlers run on the loop that
    started it, with the context variables of that moment; plain ones run in threads.  No call
    blocks the loop.  An engine may be started again after it was stopped, also on another loop.

    Parameters
    ----------
    dsn
        A Postgres, 14 or newer, as in `postgresql://user@host/database`.
    options
        See `Options`.

    Raises
    ------
    InvalidInput
        No DSN, or an option out of its bounds.
    """

    def __init__(self, dsn: str | Embedded | None = None, **options: Unpack[Options]) -> None:
        self._life = Life(plan_of(dsn, **options))
        self._jobs = AsyncJobs(self._life)

    @classmethod
    def embedded(cls, data_dir: Path | str | None = None, **options: Unpack[Options]) -> Self:
        """Make an engine that brings its own Postgres.

        Parameters
        ----------
        data_dir
            Where its data is kept between runs.  None, the default, means a throw-away one: all
            jobs and their history are gone when the engine stops.
        """
        return cls(Embedded(None if data_dir is None else Path(data_dir)), **options)

    def task(
        self,
        name: str | None = None,
        *,
        isolation: Literal["auto", "thread", "process"] = "auto",
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Register the decorated function as a handler; it stays as it is.

        Parameters
        ----------
        name
            What jobs call it.  None, the default, takes the function's own name.
        isolation
            `auto`: async on the host's loop, plain in a thread.  `process`: in child processes that
            import the function by module and name, and that can be killed at their timeout.

        Raises
        ------
        InvalidInput
            As for `Worker.task`.
        Conflict
            The engine runs.
        """
        return self._life.task(name, isolation)

    @property
    def tasks(self) -> Tasks:
        """The tasks that its worker knows."""
        return self._life.tasks

    @property
    def jobs(self) -> AsyncJobs:
        """Register, list, delete jobs and look at their runs, while it runs."""
        return self._jobs

    def answered_by(self, jobs: Jobs) -> AbstractContextManager[None]:
        """Have `jobs` answer instead of a database within the block: for tests of handlers."""
        return self._life.answered_by(jobs)

    @property
    def health(self) -> Health:
        """How it is now."""
        return self._life.health()

    @property
    def metrics(self) -> EngineMetrics:
        """A collector for a registry of prometheus_client."""
        return self._life.metrics

    @property
    def metrics_url(self) -> str | None:
        """Where /metrics is served while it runs; None without `metrics_port`."""
        return self._life.running().metrics_url

    @property
    def dsn(self) -> str:
        """The database it works on while it runs."""
        return self._life.running().dsn

    async def start(self) -> None:
        """Bring the schema forward and start scheduler and worker.

        Firings begin within a second or two: shards are led first.

        Raises
        ------
        Conflict
            It runs already.
        InvalidInput
            It has no tasks.
        StoreUnavailable, PoolerDetected, MigrationRefused
            The database cannot be used.
        DevPostgresError
            The embedded one cannot be started.
        """
        parts = self._life.begin(HostLoop(asyncio.get_running_loop()))
        try:
            await see_through(parts.start, f"{self._life.plan.name} start")
        except asyncio.CancelledError:
            try:
                await see_through(parts.stop, f"{self._life.plan.name} stop")
            finally:
                self._life.ended(parts)
            raise
        except BaseException:
            self._life.ended(parts)
            raise
        self._life.started()

    async def stop(self) -> None:
        """Drain and end everything; does nothing if it does not run.

        Takes nothing new, gives back what is not started, waits `drain_seconds` for what runs and
        then cancels it.  A cancellation meanwhile is raised when all that is done.
        """
        parts = self._life.ending()
        if parts is not None:
            try:
                await see_through(parts.stop, f"{self._life.plan.name} stop")
            finally:
                self._life.ended(parts)

    async def wait(self) -> None:
        """Return when the engine was stopped, by another task.

        Raises
        ------
        EngineFailed
            At once when scheduler or worker ends by itself.
        asyncio.CancelledError
            The task is cancelled.  Ctrl-C under `asyncio.run` does that: the end of the block
            drains, and `asyncio.run` raises `KeyboardInterrupt`.
        """
        await asyncio.shield(asyncio.wrap_future(self._life.running().over))

    if not TYPE_CHECKING:  # a type checker says so by itself

        def __enter__(self):
            raise TypeError(
                "an Engine is entered by `async with engine:`; in a host without an event loop "
                "make a SyncEngine"
            )

        def __exit__(self, *_):
            raise AssertionError("it is never entered")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        parts = self._life.ending()
        await self.stop()
        if parts is not None:
            raise_failure(parts, raised)
