"""`DrivenEngine`: the jobs of an engine in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Self

from mainspring.engine import Engine, SyncEngine
from mainspring.errors import InvalidInput
from mainspring.handlers import Tasks, Worker
from mainspring.instants import INSTANT_MAX_US, from_datetime, parse_instant, to_datetime
from mainspring.jobs import LIMIT_MAX, Jobs, UnknownTask
from mainspring.shown import LetterOut, RunOut, shown_run
from mainspring.testing.drive import Drive

DEFAULT_NOW: Final = "2026-01-01T00:00:00Z"
_US: Final = timedelta(microseconds=1)


class DrivenEngine:
    """Jobs that fire when you move the clock, and handlers that run while you do.

    One thread, no database, no waiting; the same calls give the same runs.  Use it as a context
    manager, or call `close`.

    Parameters
    ----------
    source
        An `Engine`, a `SyncEngine` or a `Worker`, with its tasks.  Until `close` the `jobs` of an
        engine answer from here, so that handlers may register jobs.
    now
        Where the clock stands at first: ISO 8601 with an offset, or an aware datetime.
    queues
        Queues that are taken; None, the default, means those of the worker, else `default`.
    concurrency
        Handlers at a time.
    seed
        Of the jitter in exponential retries.
    io_wait_s
        How long async handlers may really wait for a socket or a thread, each time before virtual
        time passes for them.  0, the default: use stand-ins for what is outside.
    allow_unknown_tasks
        Whether jobs may be added for tasks that `source` has no handler for; they wait.  False, the
        default, refuses them: in a test it is a misspelt name.
    """

    def __init__(
        self,
        source: Engine | SyncEngine | Tasks,
        *,
        now: str | datetime = DEFAULT_NOW,
        queues: Sequence[str] | None = None,
        concurrency: int = 100,
        seed: int = 0,
        io_wait_s: float = 0.0,
        allow_unknown_tasks: bool = False,
    ) -> None:
        tasks = source if isinstance(source, Tasks) else source.tasks
        if queues is None and isinstance(tasks, Worker):
            queues = tasks.queues
        self._drive = Drive(
            tasks,
            start_us=_instant_us(now),
            queues=tuple(queues or ("default",)),
            concurrency=concurrency,
            seed=seed,
            io_wait_s=io_wait_s,
        )
        on_unknown = None if allow_unknown_tasks else _refuse
        self.jobs = Jobs(self._drive.store, tasks, on_unknown=on_unknown)
        """As `SyncEngine.jobs`: register, list, delete, look at runs, redrive."""
        with ExitStack() as stack:
            stack.callback(self._drive.close)
            if not isinstance(source, Tasks):
                stack.enter_context(source.answered_by(self.jobs))
            self._exit = stack.pop_all()

    @property
    def now(self) -> datetime:
        """Where the clock stands, aware, in UTC."""
        return to_datetime(self._drive.now_us)

    def advance(
        self,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> list[RunOut]:
        """Move the clock on; without arguments only what is due now happens.

        Returns
        -------
        list[RunOut]
            The runs that ended meanwhile, in order.

        Raises
        ------
        InvalidInput
            The clock would go back, or beyond the year 9999.
        Conflict
            It is called from within an event loop.
        MainspringError
            Too much happens at one instant.
        """
        step = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self._advance_to_us(self._drive.now_us + step // _US)

    def advance_to(self, instant: str | datetime) -> list[RunOut]:
        """Move the clock to an instant; see `advance`."""
        return self._advance_to_us(_instant_us(instant))

    def runs(self, job_id: str) -> list[RunOut]:
        """Return a job's runs, newest first, the one that waits included; at most 500."""
        return self.jobs.runs(job_id, limit=LIMIT_MAX)

    def dead_letters(self) -> list[LetterOut]:
        """Return dead letters, oldest first; at most 500."""
        return self.jobs.dead_letters(limit=LIMIT_MAX)

    def close(self) -> None:
        """Cancel handlers that still wait; the engine's own `jobs` are its own again.

        Unlike `advance` it may be called from within an event loop, as at the end of an async test.
        """
        self._exit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _advance_to_us(self, until_us: int) -> list[RunOut]:
        if not self._drive.now_us <= until_us <= INSTANT_MAX_US:
            raise InvalidInput(
                "the clock cannot be moved there",
                detail=f"It stands at {self.now:%Y-%m-%dT%H:%M:%S.%fZ}.",
                hint="Move it forward, within the year 9999.",
            )
        return [shown_run(run) for run in self._drive.advance_to(until_us)]


def _refuse(unknown: UnknownTask) -> None:
    meant = "" if unknown.nearest is None else f"Did you mean {unknown.nearest!r}?  "
    raise InvalidInput(
        f"no handler is registered for task {unknown.task!r}",
        pointer=unknown.pointer,
        hint=f"{meant}If another worker has it, write DrivenEngine(..., allow_unknown_tasks=True).",
    )


def _instant_us(instant: str | datetime) -> int:
    if isinstance(instant, str):
        return parse_instant(instant)
    if instant.tzinfo is None:
        raise InvalidInput(
            f"datetime {instant.isoformat()} carries no zone",
            hint="Write datetime(..., tzinfo=UTC), or text such as 2026-06-08T13:00:00Z.",
        )
    return from_datetime(instant)
