"""Runs handlers in child processes, which are killed, with all they started, at the time-out.

Each slot is a thread that owns one child (`isolated`) and serves its runs by pipe.  The child lives
for many runs; one that ends in the middle of a run fails that run and is replaced for the next.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from mainspring.errors import CorruptFrame
from mainspring.executor import pipe
from mainspring.executor.outcomes import failed
from mainspring.executor.run import Ledger, Run
from mainspring.executor.threads import ThreadPool
from mainspring.handlers import Outcome

END_WAIT_MS: Final = 200


class _Child:
    """One child process and the worker's ends of its pipes."""

    def __init__(self) -> None:
        self.is_ordered = False
        their_read, self._write_fd = os.pipe()
        self._read_fd, their_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mainspring.executor.isolated"),
                    *(str(their_read), str(their_write), str(os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what handlers print belongs to the log, not to our own output
                pass_fds=(their_read, their_write),
                start_new_session=True,  # so that it can be killed with its descendants
            )
        except BaseException:
            os.close(self._write_fd)
            os.close(self._read_fd)
            raise
        finally:
            os.close(their_read)
            os.close(their_write)
        self._pid_fd = os.pidfd_open(self._process.pid)
        # A descendant may hold the pipe open after the child's end, so both are watched.
        self._events = select.poll()
        self._events.register(self._read_fd, select.POLLIN)
        self._events.register(self._pid_fd, select.POLLIN)

    def order(self, run: Run, output_bytes_max: int) -> None:
        """Tell it what to run.  Raises `OSError` if it is gone."""
        task, context = run.task, run.context
        order = pipe.RunOrder(
            task.target,
            task.is_async,
            context.facts,
            context.deadline_us,
            run.payload,
            output_bytes_max,
        )
        pipe.write(self._write_fd, order)

    def outcome(self) -> Outcome | None:
        """Wait for the end of what it runs; None if the child ended instead of answering."""
        ready = {fd for fd, _ in self._events.poll()}
        return pipe.read_outcome(self._read_fd) if self._read_fd in ready else None

    def send_path(self) -> None:
        """Tell it where modules are found; before the first run."""
        pipe.write(self._write_fd, pipe.ImportPath([os.path.abspath(one) for one in sys.path]))  # noqa: PTH100

    def ask(self) -> None:
        """Set `ctx.cancelled` in the child."""
        with suppress(OSError):
            pipe.write(self._write_fd, pipe.CancelOrder())

    def kill(self) -> None:
        """Kill it and its descendants, now.  Its own thread closes it afterwards."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> str:
        """Make sure it is gone, give its descriptors back, and say how it ended."""
        # A short wait first: its own exit code says more than our signal.  It is not reaped before
        # the kill, so that its id, and its group's, cannot be another's yet.
        self._events.unregister(self._read_fd)
        self._events.poll(END_WAIT_MS)
        self.kill()
        code = self._process.wait()
        for fd in (self._write_fd, self._read_fd, self._pid_fd):
            os.close(fd)
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"


class ChildCarrier:
    """Runs handlers in child processes."""

    is_patient = True
    is_stoppable = True

    def __init__(self, ledger: Ledger, children_max: int) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._children: set[_Child] = set()
        self._pool = ThreadPool(ledger, children_max, "child", self._slot)

    def take(self, run: Run) -> None:
        """See `Carrier`."""
        self._pool.put(run)

    def ask(self, run: Run) -> None:
        """See `Carrier`."""
        with self._lock:
            if run.seat is not None and run.seat.is_ordered:
                run.seat.ask()

    def interrupt(self, run: Run) -> None:
        """See `Carrier`."""
        # Under the lock the child cannot have gone on to another run.
        with self._lock:
            if run.seat is not None:
                run.seat.kill()

    def stop(self, timeout_s: float) -> None:
        """See `Carrier`."""
        with self._lock:
            for child in self._children:
                child.kill()
        self._pool.stop(timeout_s)

    @contextmanager
    def _slot(self) -> Iterator[Callable[[Run], Outcome]]:
        slot = _Slot(self)
        try:
            yield slot.serve
        finally:
            slot.drop()

    def run_in(self, child: _Child, run: Run) -> Outcome | None:
        """Run it there, open to interruption."""
        with self._lock:
            run.seat = child
            if run.is_interrupted:
                child.kill()
        try:
            child.order(run, self._ledger.output_bytes_max)
            with self._lock:
                # Not before: a cancel would be written into the middle of a long order.
                child.is_ordered = True
                if run.context.cancelled:
                    child.ask()
            return child.outcome()
        except OSError:
            return None
        finally:
            with self._lock:
                run.seat = None
                child.is_ordered = False

    def keep(self, child: _Child) -> None:
        """Remember a child, to be killed at the end."""
        with self._lock:
            self._children.add(child)

    def drop(self, child: _Child) -> str:
        """Forget a child that is of no more use; return how it ended."""
        with self._lock:
            self._children.discard(child)
        return child.close()


class _Slot:
    """One thread's child."""

    def __init__(self, carrier: ChildCarrier) -> None:
        self._carrier = carrier
        self._child: _Child | None = None

    def serve(self, run: Run) -> Outcome:
        """Run it in the child, which is made if need be and dropped if it did not answer."""
        try:
            if self._child is None:
                self._child = _Child()
                self._carrier.keep(self._child)
                self._child.send_path()
            outcome = self._carrier.run_in(self._child, run)
        except CorruptFrame as error:
            self.drop()
            return failed(f"its process talks nonsense: {error.message}")
        except OSError as error:
            self.drop()
            return failed(f"its process could not be started: {error}")
        if outcome is None:
            return failed(f"its process {self.drop()}")
        return outcome

    def drop(self) -> str:
        """Make an end of the child, if there is one; return how it ended."""
        child, self._child = self._child, None
        return "" if child is None else self._carrier.drop(child)
