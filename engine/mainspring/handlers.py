"""What users write: tasks, the handlers registered under them, and what a handler is given.

A handler is a function of two arguments, `(ctx, payload)`, plain or async.  An async one runs on a
worker's event loop, a plain one in a thread, and either in a process of its own if asked; only that
one can be stopped against its will.  What `payload` is annotated with is what the handler is given
(`payload_type`).  What a handler returns becomes the run's output, what it raises the run's error.
`Retry` and `Dead` choose what follows; anything else is retried by the job's own policy.
"""

from __future__ import annotations

import enum
import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

import msgspec

from mainspring.clock import US_PER_S, monotonic_us
from mainspring.errors import InvalidInput
from mainspring.idempotent.header import FIELD, header_value
from mainspring.idempotent.name import check_effect
from mainspring.instants import to_datetime
from mainspring.model import Trigger, format_job_id, format_run_id
from mainspring.payload_type import PayloadType

if TYPE_CHECKING:
    import psycopg

NAME_CHARACTERS_MAX: Final = 255

Handler = Callable[["Context", Any], Any]
"""Plain: returns the output.  Async: returns an awaitable of it."""

_H = TypeVar("_H", bound=Handler)


class Isolation(enum.StrEnum):
    """Where the handlers of a task run."""

    LOOP = "loop"
    """As coroutines on one event loop; cancelled at their timeout."""
    THREAD = "thread"
    """In threads of the worker.  Nothing can stop a thread: it is told, and given up."""
    PROCESS = "process"
    """In child processes; killed at their timeout."""


@dataclass(frozen=True, slots=True)
class Task:
    """A name and the handler registered under it."""

    name: str
    handler: Handler
    is_async: bool
    isolation: Isolation
    payload_type: PayloadType

    @property
    def target(self) -> str:
        """Where a child process finds the handler: `module:qualified.name`."""
        return f"{self.handler.__module__}:{self.handler.__qualname__}"


class Tasks:
    """The tasks a worker knows."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tasks, sorted."""
        return tuple(sorted(self._tasks))

    def get(self, name: str) -> Task | None:
        """Return a task by name."""
        return self._tasks.get(name)

    @property
    def has_isolated(self) -> bool:
        """Whether any task asks for processes of its own."""
        return any(task.isolation is Isolation.PROCESS for task in self._tasks.values())

    def task(
        self,
        name: str | None = None,
        *,
        isolation: Literal["auto", "thread", "process"] = "auto",
    ) -> Callable[[_H], _H]:
        """Register the decorated function, which stays as it is.

        Parameters
        ----------
        name
            1 to 255 characters.  None, the default, takes the function's own name.
        isolation
            `auto`: async on the event loop, plain in a thread.  `process`: in child processes that
            import the function by module and name, so it has to be found there.

        Raises
        ------
        InvalidInput
            The name is taken or unusable, the function does not take `(ctx, payload)`, or it cannot
            run where it is asked to.
        """
        if name is not None and not isinstance(name, str):
            raise InvalidInput(
                f"a task cannot be named {_shown(name)}",
                hint='Write the decorator with brackets, as in `.task()` or `.task("name")`.',
            )

        def register(handler: _H) -> _H:
            task = _checked(name, handler, isolation)
            if task.name in self._tasks:
                raise InvalidInput(
                    f"task {task.name!r} is registered twice",
                    detail=f"The first is {self._tasks[task.name].target}.",
                    hint="Give one of them another name.",
                )
            self._tasks[task.name] = task
            return handler

        return register


class Worker(Tasks):
    """The tasks of a program and how its worker processes take them: what users write.

    `mainspring worker module:worker` runs it.  Flags and environment win over what is given here.

    Parameters
    ----------
    concurrency
        Handlers at a time in one process; None leaves it to the settings.
    queues
        Which queues to take; None means `default`.
    """

    def __init__(
        self, *, concurrency: int | None = None, queues: Sequence[str] | None = None
    ) -> None:
        super().__init__()
        self.concurrency = concurrency
        self.queues = None if queues is None else tuple(queues)


def _checked(name: str | None, handler: Handler, isolation: str) -> Task:
    if not callable(handler):
        raise InvalidInput(f"{_shown(handler)} is not a function", hint="Decorate a function.")
    if name is None:
        name = str(getattr(handler, "__name__", ""))
    is_named = 0 < len(name) <= NAME_CHARACTERS_MAX and name.isprintable()
    if not is_named:
        raise InvalidInput(
            f"bad task name {name[:40]!a}",
            hint="Names have 1 to 255 printable characters.",
        )
    try:
        inspect.signature(handler).bind(None, None)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"the handler of task {name!r} does not take (ctx, payload): {error}",
            hint="Write def handler(ctx, payload); both are given by position.",
        ) from None
    if _is_kind(inspect.isgeneratorfunction, handler) or _is_kind(
        inspect.isasyncgenfunction, handler
    ):
        raise InvalidInput(
            f"the handler of task {name!r} is a generator",
            hint="Return the output instead of yielding it.",
        )
    is_async = _is_kind(inspect.iscoroutinefunction, handler)
    if isolation == "auto":
        place = Isolation.LOOP if is_async else Isolation.THREAD
    elif isolation == "thread" and is_async:
        raise InvalidInput(
            f"the async handler of task {name!r} cannot run in a thread",
            hint='Leave isolation out, or write isolation="process".',
        )
    elif isolation in {"thread", "process"}:
        place = Isolation(isolation)
    else:
        raise InvalidInput(
            f"bad isolation {_shown(isolation)} of task {name!r}",
            hint="Choose auto, thread or process.",
        )
    if place is Isolation.PROCESS:
        _check_importable(name, handler)
    return Task(name, handler, is_async, place, PayloadType(name, handler))


def _is_kind(test: Callable[[object], bool], handler: object) -> bool:
    """Ask about a function, or about an object's own `__call__`."""
    return test(handler) or test(getattr(handler, "__call__", None))  # noqa: B004


def _check_importable(name: str, handler: Handler) -> None:
    module = getattr(handler, "__module__", None)
    path = getattr(handler, "__qualname__", "<none>")
    if module in {None, "__main__"} or "<" in path:
        raise InvalidInput(
            f"a child process cannot import the handler of task {name!r}",
            detail=f"It is {path} in module {module}.",
            hint="Define it at the top level of a module that can be imported by name.",
        )


def _shown(value: object) -> str:
    return ascii(value)[:60]


class CancelFlag:
    """Tells a handler that it should stop; like a `threading.Event` that cannot be cleared."""

    # An Event costs more to make than everything else about a run, and hardly any is waited for.
    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: threading.Event | None = None

    def __bool__(self) -> bool:
        return self._is_set

    def is_set(self) -> bool:
        """Return whether the handler should stop."""
        return self._is_set

    def set(self) -> None:
        """Ask the handler to stop."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block this thread until the handler should stop, or that long; return which."""
        # `set` raises the flag first and we look at it last, so one of us sees the other.
        if self._event is None:
            self._event = threading.Event()
        if self._is_set:
            self._event.set()
        return self._event.wait(timeout_s)


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a worker knows of a run before it begins; goes to child processes as it is."""

    firing_id: int
    fence: int
    job: int
    scheduled_us: int
    attempt: int
    task: str
    queue: str
    idempotency_key: str
    catch_up: bool = False
    trigger: int = Trigger.SCHEDULE
    previous_us: int | None = None


class Context:
    """What a handler is given as `ctx`.

    Parameters
    ----------
    facts
        Of this run.
    deadline_us
        When its time is over, on the monotonic clock of this machine.  The executor sets it.
    """

    __slots__ = ("_facts", "cancelled", "deadline_us")

    def __init__(self, facts: RunFacts, deadline_us: int = 0) -> None:
        self._facts = facts
        self.deadline_us = deadline_us
        self.cancelled = CancelFlag()

    @property
    def facts(self) -> RunFacts:
        """The plain values behind the properties below."""
        return self._facts

    @property
    def run_id(self) -> str:
        """`r_...`, one attempt at one firing."""
        return format_run_id(self._facts.firing_id, self._facts.fence)

    @property
    def job_id(self) -> str:
        """`j_...`."""
        return format_job_id(self._facts.job)

    @property
    def scheduled_at(self) -> datetime:
        """The nominal instant, aware, in UTC; the same on every attempt."""
        return to_datetime(self._facts.scheduled_us)

    @property
    def previous_scheduled_at(self) -> datetime | None:
        """The nominal instant of the job's firing that ran before this one; None for the first.

        Over missed windows it lies further back than the schedule says, so that a handler sees
        which span of time it has to make up for.  None for firings outside of the schedule.
        """
        previous_us = self._facts.previous_us
        return None if previous_us is None else to_datetime(previous_us)

    @property
    def attempt(self) -> int:
        """Counts from 1."""
        return self._facts.attempt

    @property
    def catch_up(self) -> bool:
        """Whether this run stands for occurrences whose time passed unserved."""
        return self._facts.catch_up

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this firing."""
        return self._facts.idempotency_key

    @property
    def fence(self) -> int:
        """Grows with every lease of this firing; let storage refuse writes with a lower one."""
        return self._facts.fence

    @property
    def trigger(self) -> Trigger:
        """What brought this firing about."""
        return Trigger(self._facts.trigger)

    @property
    def task(self) -> str:
        """The name this handler is registered under."""
        return self._facts.task

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._facts.queue

    def remaining_seconds(self) -> float:
        """Return how long until the timeout; never below zero."""
        return max(0, self.deadline_us - monotonic_us()) / US_PER_S

    @overload
    def idempotent(
        self, connection: psycopg.Connection[Any], effect: str = ""
    ) -> AbstractContextManager[bool]: ...

    @overload
    def idempotent(
        self, connection: psycopg.AsyncConnection[Any], effect: str = ""
    ) -> AbstractAsyncContextManager[bool]: ...

    def idempotent(self, connection: object, effect: str = "") -> object:
        """Make an effect in Postgres once: `async with ctx.idempotent(conn) as first:`.

        True: make the effect now, on this connection; it is committed together with its key, or
        neither is.  False: an earlier attempt has made it.  An attempt that is at it at the same
        time is waited for.

        Parameters
        ----------
        connection
            Of psycopg 3, plain (`with`) or async (`async with`), to any database that has the table
            `idempotency_keys`.  With a transaction open, the block is a savepoint in it;
            without, also in autocommit mode, a transaction of its own.
        effect
            Its name, if the run has several; each has its own key.

        Raises
        ------
        InvalidInput
            Another kind of connection, one in pipeline mode, or a bad name.
        EffectRefused
            The table is not there or may not be written.
        psycopg.Error
            What else the database says; after `SerializationFailure` or `DeadlockDetected` the
            transaction can be repeated, by the handler or by the next attempt.
        """
        # Here and not above: handlers that never ask do not pay for psycopg.
        from mainspring.idempotent.effect import tie  # noqa: PLC0415

        return tie(connection, self._facts.job, self.idempotency_key, check_effect(effect))

    def idempotency_headers(self, effect: str = "", *, quoted: bool = True) -> dict[str, str]:
        """Return the key as a header for a call to an API: `{"Idempotency-Key": '"j_1:178"'}`.

        Parameters
        ----------
        effect
            Name of this call, if the run makes several.
        quoted
            With quotes, as the IETF draft wants it; False for an API that takes the bare value.

        Raises
        ------
        InvalidInput
            A bad name.
        """
        value = header_value(self.job_id, self.idempotency_key, check_effect(effect), quoted=quoted)
        return {FIELD: value}


class OutcomeKind(enum.StrEnum):
    """How a run ended, as its handler said it."""

    SUCCESS = "success"
    FAILED = "failed"
    """The job's policy decides what follows."""
    RETRY = "retry"
    """The handler asked for another attempt."""
    DEAD = "dead"
    """The handler asked for none."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The end of one run.

    `output` is JSON text of what the handler returned, None for None; `error` is the text of what
    went wrong, None on success.  Both are clean and short.  `retry_after_seconds` belongs to RETRY;
    None leaves the delay to the job's backoff.  `trace` is the end of a traceback, for the log
    only: it is not stored.
    """

    kind: OutcomeKind
    error: str | None = None
    output: str | None = None
    retry_after_seconds: float | None = None
    trace: str | None = None
