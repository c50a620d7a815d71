"""Runs handlers in the thread that moves the clock, and says how each run ended.

Plain handlers run to their end at once.  Async ones are tasks on a `VirtualLoop`: they may sleep
while others run, and time out in virtual time.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from mainspring.executor.outcomes import failed, outcome_of_error, outcome_of_value
from mainspring.executor.threads import outcome_of_result
from mainspring.handlers import Context, Outcome, RunFacts, Task, Tasks
from mainspring.instants import US_PER_S
from mainspring.testing.virtual_loop import VirtualLoop

OUTPUT_BYTES_MAX: Final = 4_096


class DrivenContext(Context):
    """A context whose time is the driven clock's."""

    __slots__ = ("_now_us",)

    def __init__(self, facts: RunFacts, deadline_us: int, now_us: Callable[[], int]) -> None:
        super().__init__(facts, deadline_us)
        self._now_us = now_us

    def remaining_seconds(self) -> float:
        """Return how long until the timeout, by the driven clock."""
        return max(0, self.deadline_us - self._now_us()) / US_PER_S


class _Sleeping:
    """A run whose handler waits."""

    def __init__(self, context: DrivenContext, task: asyncio.Task[None], timeout_s: float) -> None:
        self.context = context
        self.task = task
        self.timeout_s = timeout_s


class InlineExecutor:
    """Handlers of one driven engine.

    Parameters
    ----------
    now_us
        The driven clock.
    on_end
        Called once for each run with its key and outcome, within `submit`, `settle` or `expire`.
    """

    def __init__(
        self,
        tasks: Tasks,
        now_us: Callable[[], int],
        on_end: Callable[[int, Outcome], None],
        *,
        io_wait_s: float,
    ) -> None:
        self._tasks = tasks
        self._now_us = now_us
        self._on_end = on_end
        self._sleeping: dict[int, _Sleeping] = {}
        self._loop = VirtualLoop(now_us, io_wait_s=lambda: io_wait_s if self._sleeping else 0)
        self._timer_us: int | None = None

    def submit(self, run_key: int, facts: RunFacts, payload: bytes, timeout_s: float) -> None:
        """Begin a run; a plain handler has ended when this returns."""
        task = self._tasks.get(facts.task)
        assert task is not None, facts.task
        deadline_us = self._now_us() + round(timeout_s * US_PER_S)
        context = DrivenContext(facts, deadline_us, self._now_us)
        if not task.is_async:
            self._on_end(run_key, _run_plain(task, context, payload))
            return
        coroutine = self._run_async(run_key, task, context, payload)
        asyncio_task = self._loop.create_task(coroutine, context=contextvars.copy_context())
        self._sleeping[run_key] = _Sleeping(context, asyncio_task, timeout_s)

    def settle(self) -> None:
        """Let every handler go on as far as it can at this instant."""
        if self._sleeping:
            self._timer_us = self._loop.settle()

    def expire(self) -> None:
        """Fail and cancel every run whose time is over."""
        for run_key, run in list(self._sleeping.items()):
            if self._now_us() >= run.context.deadline_us:
                del self._sleeping[run_key]
                run.context.cancelled.set()
                run.task.cancel()
                self._timer_us = self._loop.settle()
                self._on_end(run_key, failed(f"timed out after {run.timeout_s:g} s"))

    def next_us(self) -> int | None:
        """Return when `settle` or `expire` may have something to do; None while nothing waits.

        As of the last `settle`.
        """
        if not self._sleeping:
            return None
        deadlines = [run.context.deadline_us for run in self._sleeping.values()]
        return min(deadlines if self._timer_us is None else [*deadlines, self._timer_us])

    def close(self) -> None:
        """Cancel what still waits, and give the loop back; also from within an event loop.

        There a thread does it, which is waited for: two loops do not run in one thread.
        """
        if not is_loop_running():
            self._close()
            return
        with ThreadPoolExecutor(1, thread_name_prefix="driven close") as threads:
            threads.submit(self._close).result()

    def _close(self) -> None:
        self._sleeping.clear()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.settle()
        for task in tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _run_async(
        self, run_key: int, task: Task, context: DrivenContext, payload: bytes
    ) -> None:
        try:
            value: Any = await task.handler(context, task.payload_type.read(payload))
            outcome = outcome_of_value(value, OUTPUT_BYTES_MAX)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  a handler may raise anything
            outcome = outcome_of_error(error)
        if self._sleeping.pop(run_key, None) is not None:
            self._on_end(run_key, outcome)


def is_loop_running() -> bool:
    """Return whether this thread is within an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_plain(task: Task, context: Context, payload: bytes) -> Outcome:
    try:
        decoded = task.payload_type.read(payload)
        value = contextvars.copy_context().run(task.handler, context, decoded)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  a handler may raise anything
        return outcome_of_error(error)
    return outcome_of_result(value, OUTPUT_BYTES_MAX)
