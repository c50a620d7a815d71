from __future__ import annotations

import asyncio
import contextvars
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainspring.clock import monotonic_s
from mainspring.errors import Dead, Retry
from mainspring.executor import Executor
from mainspring.handlers import Context, Outcome, OutcomeKind, RunFacts, Tasks
from processes.executor.isolated_tasks import tasks as isolated

SUCCESS, FAILED = OutcomeKind.SUCCESS, OutcomeKind.FAILED
GRACE_S = 0.2

tasks = Tasks()
for _name in isolated.names:
    _task = isolated.get(_name)
    assert _task is not None
    tasks.task(_name, isolation="process")(_task.handler)

release = threading.Event()
begun = threading.Semaphore(0)
variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)


def facts(task: str) -> RunFacts:
    return RunFacts(
        firing_id=9,
        fence=4,
        job=7,
        scheduled_us=1_780_923_600_000_000,
        attempt=1,
        task=task,
        queue="q",
        idempotency_key="k",
    )


class Ran:
    """An executor, and every end it reported."""

    def __init__(self, concurrency: int = 4, **options: Any) -> None:
        self.ends: list[tuple[int, Outcome]] = []
        self._key = 0
        self._ended = threading.Condition()
        self.executor = Executor(
            tasks, concurrency=concurrency, on_end=self._end, grace_s=GRACE_S, **options
        )
        self.executor.start()

    def _end(self, key: int, outcome: Outcome) -> None:
        with self._ended:
            self.ends.append((key, outcome))
            self._ended.notify_all()

    def submit(self, task: str, payload: Any = None, timeout_s: float = 30.0) -> int:
        self._key += 1
        data = json.dumps(payload).encode()
        self.executor.submit(self._key, task, Context(facts(task)), data, timeout_s)
        return self._key

    def outcome(self, key: int, seconds: float = 20.0) -> Outcome:
        """Wait for the end of a run."""
        with self._ended:
            assert self._ended.wait_for(lambda: key in dict(self.ends), seconds), "no end came"
            return dict(self.ends)[key]

    def run(self, task: str, payload: Any = None, timeout_s: float = 30.0) -> Outcome:
        return self.outcome(self.submit(task, payload, timeout_s))


def until(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    end_s = monotonic_s() + seconds
    pause = threading.Event()
    while not is_so():
        assert monotonic_s() < end_s, "it did not come about in time"
        pause.wait(0.005)


@tasks.task()
async def echo(ctx: Context, payload: Any) -> Any:
    return payload


@tasks.task()
async def echo_late(ctx: Context, payload: Any) -> Any:
    await asyncio.sleep(0.001)
    return payload


@tasks.task()
def echo_thread(ctx: Context, payload: Any) -> Any:
    return payload


ECHOES = ("echo", "echo_late", "echo_thread")


def raised(payload: str) -> Any:
    match payload:
        case "value":
            raise ValueError("bad")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "generator":
            raise GeneratorExit
        case "base":
            raise BaseException("base")  # noqa: TRY002
        case "cancelled":
            raise asyncio.CancelledError
        case "stop":
            raise StopIteration
        case "retry":
            raise Retry("later", after_seconds=7)
        case "dead":
            raise Dead("never")


@tasks.task()
async def fail(ctx: Context, payload: Any) -> Any:
    return raised(payload)


@tasks.task()
async def fail_late(ctx: Context, payload: Any) -> Any:
    await asyncio.sleep(0)
    return raised(payload)


@tasks.task()
def fail_thread(ctx: Context, payload: Any) -> Any:
    return raised(payload)


FAILS = ("fail", "fail_late", "fail_thread")


noted: list[Any] = []


@tasks.task()
async def note(ctx: Context, payload: Any) -> Any:
    noted.append(payload)


@tasks.task()
def note_thread(ctx: Context, payload: Any) -> Any:
    noted.append(payload)


@tasks.task()
async def wait_on_loop(ctx: Context, payload: Any) -> Any:
    begun.release()
    while not release.is_set():
        await asyncio.sleep(0.005)
    return "released"


@tasks.task()
async def swallow(ctx: Context, payload: Any) -> Any:
    """Pays no attention to cancels."""
    begun.release()
    while not release.is_set():
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            continue
    return "late"


@tasks.task()
async def block_loop(ctx: Context, payload: Any) -> Any:
    begun.release()
    release.wait(30)
    return "late"


@tasks.task()
def block_thread(ctx: Context, payload: Any) -> Any:
    begun.release()
    release.wait(30)
    return "late"


@tasks.task()
def obey(ctx: Context, payload: Any) -> Any:
    begun.release()
    return "asked to stop" if ctx.cancelled.wait(30) else "not asked"


@tasks.task()
async def meddle(ctx: Context, payload: Any) -> Any:
    """Cancels its own task in ways that must not reach the next run."""
    task = asyncio.current_task()
    assert task is not None
    if payload == "later":
        asyncio.get_running_loop().call_later(0.02, task.cancel)
    else:
        task.cancel()
    if payload == "await":
        await asyncio.sleep(1)
    return "done"


@tasks.task()
async def structured(ctx: Context, payload: Any) -> Any:
    """Uses what needs a task of its own."""
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        pass
    async with asyncio.TaskGroup() as group:
        one = group.create_task(asyncio.sleep(0.001, 1))
        two = group.create_task(asyncio.sleep(0.001, 2))
    return one.result() + two.result()


@tasks.task()
async def leak(ctx: Context, payload: Any) -> Any:
    seen = variable.get()
    variable.set(seen + 1)
    await asyncio.sleep(0)
    assert variable.get() == seen + 1
    return seen


@tasks.task()
def leak_thread(ctx: Context, payload: Any) -> Any:
    seen = variable.get()
    variable.set(seen + 1)
    return seen


@tasks.task()
async def exit_from_a_task(ctx: Context, payload: Any) -> Any:
    async def leave() -> None:
        sys.exit(3)

    asyncio.get_running_loop().create_task(leave())
    await asyncio.sleep(0.01)
    return "still here"


@tasks.task()
async def inner_cancel(ctx: Context, payload: Any) -> Any:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@tasks.task()
def forgot_async(ctx: Context, payload: Any) -> Any:
    return echo(ctx, payload)


@tasks.task()
async def large(ctx: Context, payload: Any) -> Any:
    return "x" * 10_000_000


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
