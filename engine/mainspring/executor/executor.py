"""Takes runs, watches their time, and reports each end once.

Source: the package's docstring.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from mainspring.clock import US_PER_S, monotonic_us
from mainspring.executor.children import ChildCarrier
from mainspring.executor.loop import HostLoop, LoopCarrier
from mainspring.executor.outcomes import TRACES_PER_S, failed
from mainspring.executor.run import NEVER_US, Carrier, EndCallback, Run
from mainspring.executor.threads import ThreadCarrier
from mainspring.handlers import Context, Isolation, Outcome, Tasks
from mainspring.ration import Ration

GRACE_S: Final = 5.0
"""Below the slack of a lease, so that a run given up is still reported under its own fence."""


class Executor:
    """Runs the handlers of one worker.

    Parameters
    ----------
    tasks
        Read at every submit, so registering more later is fine.
    concurrency
        Handlers of one kind at a time.
    on_end
        Called once for each submitted run with its key and outcome; see the package.
    children_max
        Child processes at a time.  None, the default, means one per processor.
    grace_s
        How long a cancelled handler may take to end.
    output_bytes_max
        Longest output that is kept.
    host
        The event loop for async handlers.  None, the default, makes one in a thread of its own.
    """

    def __init__(
        self,
        tasks: Tasks,
        *,
        concurrency: int,
        on_end: EndCallback,
        children_max: int | None = None,
        grace_s: float = GRACE_S,
        output_bytes_max: int = 4_096,
        host: HostLoop | None = None,
    ) -> None:
        self.output_bytes_max = output_bytes_max
        self.traces = Ration(TRACES_PER_S)
        self._tasks = tasks
        self._on_end = on_end
        self._grace_us = int(grace_s * US_PER_S)
        self._concurrency = concurrency
        self._stuck = 0
        self._is_stopped = False
        self._owner_pid = os.getpid()
        self._runs: dict[int, Run] = {}
        # The hot paths take the bare lock: a Condition enters through two Python calls.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._look_us = NEVER_US
        self._carriers: dict[Isolation, Carrier] = {
            Isolation.LOOP: LoopCarrier(self, concurrency, host),
            Isolation.THREAD: ThreadCarrier(self, concurrency),
            Isolation.PROCESS: ChildCarrier(
                self, min(concurrency, children_max or os.cpu_count() or 1)
            ),
        }
        self._watch = threading.Thread(target=self._watch_time, name="deadlines", daemon=True)

    def start(self) -> None:
        """Begin to watch the time; before the first submit, once."""
        self._watch.start()

    @property
    def in_flight_count(self) -> int:
        """Runs submitted and not ended."""
        return len(self._runs)

    @property
    def stuck_count(self) -> int:
        """Slots held by handlers whose runs have already failed."""
        return self._stuck

    def submit(
        self, run_key: int, task: str, context: Context, payload: bytes, timeout_s: float
    ) -> None:
        """Hand over one run.

        Parameters
        ----------
        run_key
            What `on_end` is called with; not in flight already.
        payload
            JSON, as it was registered.
        timeout_s
            Counts from now.

        Raises
        ------
        ValueError
            A run with this key is in flight; a bug of the caller.
        """
        known = self._tasks.get(task)
        if known is None:
            self._on_end(run_key, failed(f"no handler is registered for task {task!r}"))
            return
        run = Run(run_key, known, context, payload, timeout_s, monotonic_us())
        run.carrier = self._carriers[known.isolation]
        with self._lock:
            if run_key in self._runs:
                raise ValueError(f"run {run_key} is in flight already")
            is_refused = self._is_stopped
            if not is_refused:
                self._runs[run_key] = run
                self._look_by(run.deadline_us)
        if is_refused:
            self._on_end(run_key, failed("cancelled: the worker has stopped"))
        else:
            run.carrier.take(run)

    def cancel(self, run_key: int, reason: str = "cancelled") -> bool:
        """Ask a run to end; return whether it was in flight.  Thread safe."""
        with self._lock:
            run = self._runs.get(run_key)
            if run is None:
                return False
            self._ask(run, reason)
        return True

    def cancel_all(self, reason: str = "cancelled: the worker is stopping") -> int:
        """Ask every run to end; return how many had not been asked.  Thread safe."""
        with self._lock:
            return sum(self._ask(run, reason) for run in self._runs.values())

    def stop(self, drain_s: float) -> None:
        """Wait for what runs, cancel what is left, and give everything back.

        Every run has ended when this returns, after at most `drain_s` and about twice the grace.
        A second call does nothing.
        """
        with self._changed:
            if self._is_stopped:
                return
            self._is_stopped = True
            if not self._changed.wait_for(lambda: not self._runs, drain_s):
                for run in self._runs.values():
                    self._ask(run, "cancelled: the worker is stopping")
                self._changed.wait_for(lambda: not self._runs)
            self._look_by(0)
        if self._watch.ident is not None:
            self._watch.join()
        for carrier in self._carriers.values():
            carrier.stop(self._grace_us / US_PER_S)

    def begin(self, run: Run) -> bool:
        """See `Ledger`."""
        with self._lock:
            if run.is_ended:
                return False
            run.is_begun = True
            return True

    def end(self, run: Run, outcome: Outcome) -> None:
        """See `Ledger`."""
        if os.getpid() != self._owner_pid:
            # A handler forked, and this is the copy coming back.  It shares the worker's sockets
            # and sessions and must not touch them; not even the lock is sure to be free.
            os._exit(0)
        with self._lock:
            if run.is_stuck:
                run.is_stuck = False
                self._stuck -= 1
            if run.is_ended:
                return
            if run.is_interrupted:
                outcome = failed(run.error or "cancelled")
            self._forget(run)
        self._on_end(run.key, outcome)

    def _ask(self, run: Run, reason: str) -> bool:
        """Set the flag, and let the watch do the rest; under the lock.  False the second time."""
        if run.is_interrupted or run.error is not None:
            return False
        run.error = reason
        run.context.cancelled.set()
        run.carrier.ask(run)
        patience_us = self._grace_us if run.carrier.is_patient and run.is_begun else 0
        run.deadline_us = min(run.deadline_us, monotonic_us() + patience_us)
        self._look_by(run.deadline_us)
        return True

    def _look_by(self, at_us: int) -> None:
        """Have the watch look no later than that; under the lock."""
        if at_us < self._look_us:
            self._look_us = at_us
            self._changed.notify_all()

    def _forget(self, run: Run) -> None:
        """Mark the end; under the lock."""
        run.is_ended = True
        del self._runs[run.key]
        if self._is_stopped and not self._runs:
            self._changed.notify_all()

    def _watch_time(self) -> None:
        """Body of the watch: it sleeps to the earliest time-out it saw, not from run to run."""
        while True:
            with self._changed:
                while monotonic_us() < self._look_us and not self._is_done():
                    wait_us = min(self._look_us - monotonic_us(), 3_600 * US_PER_S)
                    self._changed.wait(max(wait_us, 0) / US_PER_S)
                if self._is_done():
                    return
                overdue = self._overdue(monotonic_us())
            for run, text in overdue:
                self._on_end(run.key, failed(text))

    def _is_done(self) -> bool:
        return self._is_stopped and not self._runs

    def _overdue(self, now_us: int) -> list[tuple[Run, str]]:
        """Interrupt runs past their time and return those to be given up; under the lock."""
        look_us = NEVER_US
        given_up: list[tuple[Run, str]] = []
        for run in list(self._runs.values()):
            if now_us >= run.deadline_us and not run.is_interrupted:
                self._interrupt(run, now_us)
            if now_us >= run.give_up_us:
                given_up.append((run, self._give_up(run)))
            else:
                next_us = run.give_up_us if run.is_interrupted else run.deadline_us
                look_us = min(look_us, next_us)
        self._look_us = look_us
        return given_up

    def _interrupt(self, run: Run, now_us: int) -> None:
        run.is_interrupted = True
        if run.error is None:
            run.error = f"timed out after {run.timeout_s:g} s"
        run.context.cancelled.set()
        is_waited_for = run.is_begun and run.carrier.is_stoppable
        run.give_up_us = now_us + (self._grace_us if is_waited_for else 0)
        if run.is_begun:
            run.carrier.interrupt(run)

    def _give_up(self, run: Run) -> str:
        text = run.error or "cancelled"
        if run.is_begun:
            run.is_stuck = True
            self._stuck += 1
            text += "; its handler could not be stopped and still holds its slot"
        else:
            text += f" while it waited for a free slot ({self._stuck} stuck)"
        self._forget(run)
        return text
