"""Runs plain handlers in daemon threads, made as they are needed.

Not `concurrent.futures`: at interpreter exit it joins its threads, and one handler that never ends
would keep a worker from ending.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue

from mainspring.clock import monotonic_s
from mainspring.executor.outcomes import failed, outcome_of_error, outcome_of_value
from mainspring.executor.run import Ledger, Run
from mainspring.handlers import Outcome


class ThreadPool:
    """At most `size` daemon threads that serve runs in the order they came.

    Parameters
    ----------
    name
        Of the threads.
    server
        Entered once in each thread; what it gives serves one run after the other, and it is left
        when the thread ends.
    """

    def __init__(
        self,
        ledger: Ledger,
        size: int,
        name: str,
        server: Callable[[], AbstractContextManager[Callable[[Run], Outcome]]],
    ) -> None:
        self._ledger = ledger
        self._size = size
        self._name = name
        self._server = server
        self._waiting: SimpleQueue[Run | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle_count = 0
        self._threads: list[threading.Thread] = []

    def put(self, run: Run) -> None:
        """Queue a run, and make a thread for it if none is idle and there may be one more."""
        with self._lock:
            if self._idle_count > 0:
                self._idle_count -= 1
            elif len(self._threads) < self._size:
                number = len(self._threads) + 1
                thread = threading.Thread(
                    target=self._serve, name=f"{self._name}-{number}", daemon=True
                )
                # At the system's limit of threads the run waits for one that is there.
                with suppress(RuntimeError):
                    thread.start()
                    self._threads.append(thread)
        self._waiting.put(run)

    def stop(self, timeout_s: float) -> None:
        """End the threads that are idle or become so within that time; leave the others."""
        for _ in self._threads:
            self._waiting.put(None)
        end_s = monotonic_s() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end_s - monotonic_s()))

    def _serve(self) -> None:
        with self._server() as serve:
            while (run := self._waiting.get()) is not None:
                if self._ledger.begin(run):
                    self._ledger.end(run, serve(run))
                with self._lock:
                    if self._waiting.empty():
                        self._idle_count += 1


class ThreadCarrier:
    """Runs plain handlers; nothing can stop them."""

    is_patient = True
    is_stoppable = False

    def __init__(self, ledger: Ledger, concurrency: int) -> None:
        self._ledger = ledger
        self._pool = ThreadPool(ledger, concurrency, "handler", lambda: nullcontext(self._serve))

    def take(self, run: Run) -> None:
        """See `Carrier`."""
        self._pool.put(run)

    def ask(self, run: Run) -> None:
        """See `Carrier`; the flag itself is shared."""

    def interrupt(self, run: Run) -> None:
        """See `Carrier`; there is no way."""

    def stop(self, timeout_s: float) -> None:
        """See `Carrier`."""
        self._pool.stop(timeout_s)

    def _serve(self, run: Run) -> Outcome:
        try:
            payload = run.task.payload_type.read(run.payload)
            value = contextvars.copy_context().run(run.task.handler, run.context, payload)
        except BaseException as error:  # noqa: BLE001  a handler may raise anything
            return outcome_of_error(error, is_traced=self._ledger.traces.take(run.task.name))
        return outcome_of_result(value, self._ledger.output_bytes_max)


def outcome_of_result(value: object, output_bytes_max: int) -> Outcome:
    """Return the end of a plain handler that returned `value`, which must not be a coroutine."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        return failed("the handler returned an awaitable; write it as async def")
    return outcome_of_value(value, output_bytes_max)
