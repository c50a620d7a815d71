"""A supervisor of workers: forks as many as asked for, and another for each that dies.

`python -m faults.exactly_once.nursery COUNT DEATHS_PATH` imports what a worker needs once and
forks, so that a worker costs a tenth of a second and not one.  What runs in each fork is the
command `mainspring worker`, whole.  Every death is a line `PID CODE` in the file, with the code as
subprocess gives it.  SIGTERM ends the workers and then this.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from types import FrameType

from mainspring.cli.worker import worker
from mainspring.parent import VARIABLE, die_with_parent

HANDLERS = "faults.exactly_once.handlers:tasks"


class Nursery:
    """The workers that are alive."""

    def __init__(self, deaths: int) -> None:
        self._deaths = deaths
        self._pids: set[int] = set()
        self._is_stopping = False

    def on_stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Ask all workers to end, and fork no more."""
        self._is_stopping = True
        for pid in self._pids:
            os.kill(pid, signal.SIGTERM)

    def run(self, count: int) -> None:
        """Keep `count` workers alive until asked to stop."""
        while not self._is_stopping or self._pids:
            while not self._is_stopping and len(self._pids) < count:
                self._fork()
            pid, status = os.waitpid(-1, 0)
            self._pids.discard(pid)
            os.write(self._deaths, f"{pid} {os.waitstatus_to_exitcode(status)}\n".encode())

    def _fork(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            _be_worker()
        self._pids.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _be_worker() -> None:
    """Run the command in this fork and never return."""
    os.environ[VARIABLE] = str(os.getppid())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # where --json says why it could not begin
    code = 1
    try:
        worker.main([HANDLERS, "--json"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  the fork goes no further; what happened is to be seen
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def main(count: int, deaths_path: str) -> None:
    """Run until SIGTERM."""
    die_with_parent(os.environ)
    nursery = Nursery(os.open(deaths_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    signal.signal(signal.SIGTERM, nursery.on_stop)
    gc.freeze()
    sys.stdout.write('{"workers": "forking"}\n')
    sys.stdout.flush()
    nursery.run(count)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
