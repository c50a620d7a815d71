"""`SyncEngine`: an engine in a host without an event loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack

from mainspring.engine.figures import EngineMetrics, Health
from mainspring.engine.life import AnyHandler, Life, raise_failure
from mainspring.engine.options import Embedded, Options, plan_of
from mainspring.handlers import Tasks
from mainspring.jobs import Jobs


class SyncEngine:
    """A scheduler and a worker in this process, for hosts without an event loop.

    Use it as `with engine:`, or call `start` and `stop`.  Its calls block; async handlers run on an
    event loop in a thread of its own, plain ones in threads.  Everything else is as in `Engine`.

    Parameters
    ----------
    dsn
        A Postgres, 14 or newer.
    options
        See `Options`.

    Raises
    ------
    InvalidInput
        No DSN, or an option out of its bounds.
    """

    def __init__(self, dsn: str | Embedded | None = None, **options: Unpack[Options]) -> None:
        self._life = Life(plan_of(dsn, **options))

    @classmethod
    def embedded(cls, data_dir: Path | str | None = None, **options: Unpack[Options]) -> Self:
        """Make an engine that brings its own Postgres; see `Engine.embedded`."""
        return cls(Embedded(None if data_dir is None else Path(data_dir)), **options)

    def task(
        self,
        name: str | None = None,
        *,
        isolation: Literal["auto", "thread", "process"] = "auto",
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Register the decorated function as a handler; see `Engine.task`."""
        return self._life.task(name, isolation)

    @property
    def tasks(self) -> Tasks:
        """The tasks that its worker knows."""
        return self._life.tasks

    @property
    def jobs(self) -> Jobs:
        """Register, list, delete jobs and look at their runs; `Conflict` unless it runs."""
        return self._life.stand_in or self._life.running().jobs

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

    def start(self) -> None:
        """Start everything; see `Engine.start`."""
        parts = self._life.begin(None)
        try:
            parts.start()
        except BaseException:
            self._life.ended(parts)
            raise
        self._life.started()

    def stop(self) -> None:
        """Drain and end everything; does nothing if it does not run.  See `Engine.stop`.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C while it drains.  What still runs is not waited for: if the process ends now, it
            is a worker that died, and its runs go on elsewhere.
        """
        parts = self._life.ending()
        if parts is not None:
            try:
                parts.stop()
            except KeyboardInterrupt:
                # Anew, so that a host that ends with it shows where it was, and not where we were.
                said = f"engine {self._life.plan.name!r} was not waited for while it drained"
                raise KeyboardInterrupt(said) from None
            finally:
                self._life.ended(parts)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the engine was stopped, by another thread.

        Returns
        -------
        bool
            Whether it was stopped within that time.

        Raises
        ------
        EngineFailed
            At once when scheduler or worker ends by itself.
        KeyboardInterrupt
            At Ctrl-C, as from any call that waits; the end of the block then drains.
        """
        try:
            self._life.running().over.result(timeout_s)
        except FutureTimeoutError:
            return False
        return True

    if not TYPE_CHECKING:  # a type checker says so by itself

        async def __aenter__(self):
            raise TypeError(
                "a SyncEngine is entered by `with engine:`; for `async with` make an Engine"
            )

        async def __aexit__(self, *_):
            raise AssertionError("it is never entered")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        parts = self._life.ending()
        self.stop()
        if parts is not None:
            raise_failure(parts, raised)
