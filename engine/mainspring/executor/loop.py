"""Runs async handlers on one event loop: its own in a thread of its own, or the host's.

A task per run is the textbook way, and it is most of the cost of a short handler.  Here a *runner*
is a long-lived task that serves runs one after the other.  (a) One runner at a time holds the
*lead*: it takes runs from the queue and steps their coroutines itself, so a handler that never
suspends costs no task, no callback and no timer.  (b) When its handler suspends for the first time,
it passes the lead to an idle runner, or makes one, up to the concurrency.  (c) When the handler
ends, the runner takes the lead again if nobody has it, or goes idle.  So there are as many tasks as
handlers that wait at the same time.

A handler sees a task of its own while it runs (`asyncio.current_task()`), so that `timeout()` and
`TaskGroup` work in it, and a fresh copy of the context variables.  It must not keep that task: one
that cancels it after its own end hits whichever run the runner serves then, which fails as
cancelled.  A runner that was cancelled ends after the run it serves, and another takes its place.

A *host's loop* is the host's: it is never stopped, its task factory is not used, and whatever
cancels all of its tasks ends the runners too.  Once it is closed, runs fail at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import types
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from mainspring.executor.outcomes import failed, outcome_of_error, outcome_of_value
from mainspring.executor.run import Ledger, Run
from mainspring.handlers import Outcome

RUNS_PER_TURN: Final = 32
"""Runs without a suspension before the loop gets its turn, for timers and sockets of the others."""

LOOP_CLOSED: Final = "cancelled: the host's event loop is closed"


@dataclass(frozen=True, slots=True)
class HostLoop:
    """An event loop that somebody else runs, and the context variables that handlers begin with."""

    loop: asyncio.AbstractEventLoop
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can run on it any more."""
        return self.loop.is_closed()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415  optional
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Runner:
    """A long-lived task, the run it serves, and the future it waits on while idle."""

    __slots__ = ("awaited", "run", "task")

    def __init__(self) -> None:
        self.run: Run | None = None
        self.awaited: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None]


class LoopCarrier:
    """Runs async handlers; they are cancelled at their time-out.

    Parameters
    ----------
    host
        The loop to use.  None, the default, makes one in a thread of its own.
    """

    is_patient = False

    def __init__(self, ledger: Ledger, concurrency: int, host: HostLoop | None = None) -> None:
        self._ledger = ledger
        self._concurrency = concurrency
        self._host = host
        self._waiting: deque[Run] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        if host is not None:
            self._loop = host.loop
        self._is_kicked = False
        self._is_stopping = False
        self._are_gone = threading.Event()
        # Below: the loop's thread only.
        self._leader: _Runner | None = None
        self._idle: list[_Runner] = []
        self._runners: set[_Runner] = set()

    @property
    def is_stoppable(self) -> bool:
        """See `Carrier`; on a loop that is closed nothing ends."""
        return self._host is None or not self._host.is_closed

    def take(self, run: Run) -> None:
        """See `Carrier`."""
        self._waiting.append(run)
        if self._host is not None and self._host.is_closed:
            self._fail_waiting()
        elif not self._is_kicked:
            self._is_kicked = True
            if self._thread is None and self._host is None:
                self._start()
            try:
                self._loop.call_soon_threadsafe(self._kick)
            except RuntimeError:  # the loop was closed just now
                self._fail_waiting()

    def ask(self, run: Run) -> None:
        """See `Carrier`; cancelling follows at once."""

    def interrupt(self, run: Run) -> None:
        """See `Carrier`."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel, run)

    def stop(self, timeout_s: float) -> None:
        """See `Carrier`.  A loop that a handler blocks is left behind in its daemon thread."""
        with self._lock:
            thread, self._is_stopping = self._thread, True
        if self._host is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._end_runners)
                self._are_gone.wait(timeout_s)
        elif thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(timeout_s)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopping:
                self._loop = _new_loop()
                self._thread = threading.Thread(target=self._run_loop, name="handlers", daemon=True)
                self._thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_stopping:
            # asyncio lets SystemExit of any task through; a handler's must not end all others.
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _fail_waiting(self) -> None:
        """End what the loop will never take."""
        while self._waiting:
            run = self._waiting.popleft()
            if self._ledger.begin(run):
                self._ledger.end(run, failed(LOOP_CLOSED))

    def _kick(self) -> None:
        self._is_kicked = False  # first: whoever appends after this kicks again
        self._pass_lead()

    def _pass_lead(self) -> None:
        """Give the lead to a runner, if there is work, nobody leads and a slot is free."""
        if self._leader is not None or not self._waiting:
            return
        if self._idle:
            self._leader = self._idle.pop()
            awaited = self._leader.awaited
            assert awaited is not None
            awaited.set_result(None)
        elif len(self._runners) < self._concurrency and not self._is_stopping:
            self._leader = runner = _Runner()
            self._runners.add(runner)
            # Not by the loop's factory: an eager one would run it within this call.
            lead = self._lead(runner)
            if self._host is None:
                runner.task = asyncio.Task(lead, loop=self._loop)
            else:
                runner.task = asyncio.Task(
                    lead, loop=self._loop, name="mainspring", context=self._host.context.copy()
                )
            runner.task.add_done_callback(lambda _: self._on_runner_end(runner))

    def _give_lead(self) -> None:
        self._leader = None
        self._pass_lead()

    def _cancel(self, run: Run) -> None:
        runner: _Runner | None = run.seat
        if runner is not None and runner.run is run:
            runner.task.cancel()

    def _end_runners(self) -> None:
        """Cancel every runner of a host's loop; one whose handler swallows that ends after it."""
        for runner in self._runners:
            runner.task.cancel()
        if not self._runners:
            self._are_gone.set()

    async def _lead(self, runner: _Runner) -> None:
        """Body of a runner; begins with the lead, and ends when it was cancelled."""
        while not self._is_stopping and await self._serve_all(runner):
            self._give_lead()  # a run may have come in the last turn
            await self._idle_until_led(runner)

    def _on_runner_end(self, runner: _Runner) -> None:
        """Forget a runner and pass its lead on; it may have been cancelled before it began."""
        self._runners.discard(runner)
        if runner in self._idle:
            self._idle.remove(runner)
        if self._leader is runner:
            self._leader = None
        self._pass_lead()  # its slot is free as well
        if self._is_stopping and not self._runners:
            self._are_gone.set()

    async def _serve_all(self, runner: _Runner) -> bool:
        """Serve runs for as long as the lead is ours and there are any; False once cancelled."""
        turn = 0
        while self._waiting:
            run = self._waiting.popleft()
            if not self._ledger.begin(run):
                continue
            runner.run, run.seat = run, runner
            try:
                has_suspended, outcome = await _step(run, self._give_lead, self._ledger)
            except KeyboardInterrupt as error:
                self._ledger.end(run, outcome_of_error(error))
                if self._host is None:
                    return False
                raise  # Ctrl-C, which hits whatever the host's thread is at
            runner.run = run.seat = None
            self._ledger.end(run, outcome)  # first: the loop may end in the next turn
            if runner.task.cancelling():
                return False  # that was meant for the run which has ended
            if has_suspended:
                if self._leader is not None:
                    await self._idle_until_led(runner)
                self._leader = runner
                turn = 0
            turn += 1
            if turn % RUNS_PER_TURN == 0:
                await asyncio.sleep(0)
        return True

    async def _idle_until_led(self, runner: _Runner) -> None:
        runner.awaited = self._loop.create_future()
        self._idle.append(runner)
        await runner.awaited


@types.coroutine
def _step(
    run: Run, on_suspended: Callable[[], None], ledger: Ledger
) -> Generator[Any, Any, tuple[bool, Outcome]]:
    """Drive a handler's coroutine from within the runner's task, in a context of its own.

    What the coroutine awaits is yielded on to the event loop, and what the loop sends or throws is
    passed back, so the runner's task waits where the handler waits.

    Returns
    -------
    has_suspended
        Whether it ever waited; then `on_suspended` was called, once.
    outcome
        How it ended.
    """
    has_suspended = is_closed = False
    context = contextvars.copy_context()
    try:
        payload = run.task.payload_type.read(run.payload)
        coroutine = context.run(run.task.handler, run.context, payload)
        resume, argument = coroutine.send, None
        while True:
            awaited = context.run(resume, argument)
            if not has_suspended:
                has_suspended = True
                on_suspended()
            try:
                argument = yield awaited
                resume = coroutine.send
            except GeneratorExit:
                is_closed = True
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001  whatever the loop throws is the handler's
                resume, argument = coroutine.throw, error
    except StopIteration as ended:
        return has_suspended, outcome_of_value(ended.value, ledger.output_bytes_max)
    except BaseException as error:
        if is_closed or isinstance(error, KeyboardInterrupt):
            raise
        is_traced = ledger.traces.take(run.task.name)
        return has_suspended, outcome_of_error(error, is_traced=is_traced)
