"""The child process in which handlers with `isolation="process"` run, one after the other.

Started as `python -m mainspring.executor.isolated READ_FD WRITE_FD PARENT_PID`.  The main thread
runs handlers, since signals and many libraries want that; another one reads orders, so that a
cancel arrives meanwhile, and ends the process at once when the worker is gone.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import os
import sys
import threading
from functools import cache, reduce
from queue import SimpleQueue
from typing import Any

from mainspring.executor import pipe
from mainspring.executor.outcomes import TRACES_PER_S, failed, outcome_of_error, outcome_of_value
from mainspring.executor.threads import outcome_of_result
from mainspring.handlers import Context, Outcome
from mainspring.orphans import die_with_parent, ignore_stop_signals
from mainspring.payload_type import PayloadType
from mainspring.ration import Ration

_traces = Ration(TRACES_PER_S)


class _Orders:
    """Runs to do, and the context of the one that is going on."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.waiting: SimpleQueue[tuple[pipe.RunOrder, Context]] = SimpleQueue()
        self._latest: Context | None = None

    def read(self) -> None:
        """Body of the reading thread."""
        while (order := pipe.read_order(self._fd)) is not None:
            match order:
                case pipe.ImportPath():
                    sys.path[:] = order.entries
                case pipe.RunOrder():
                    self._latest = Context(order.facts, order.deadline_us)
                    self.waiting.put((order, self._latest))
                case pipe.CancelOrder():
                    if self._latest is not None:
                        self._latest.cancelled.set()
        os._exit(0)


def main(read_fd: int, write_fd: int, parent_pid: int) -> None:
    """Run what is ordered until the worker is gone."""
    ignore_stop_signals()
    for fd in (read_fd, write_fd):
        os.set_inheritable(fd, False)
    die_with_parent(parent_pid)
    orders = _Orders(read_fd)
    threading.Thread(target=orders.read, name="orders", daemon=True).start()
    with asyncio.Runner() as runner:
        while True:
            order, context = orders.waiting.get()
            pipe.write(write_fd, _run(order, context, runner))


def _run(order: pipe.RunOrder, context: Context, runner: asyncio.Runner) -> Outcome:
    try:
        handler, payload_type = _find(order.target, order.facts.task)
    except BaseException as error:  # noqa: BLE001  importing runs the user's code
        said = outcome_of_error(error, is_traced=_traces.take(order.facts.task))
        return failed(f"cannot import {order.target}: {said.error}", said.trace)
    try:
        payload = payload_type.read(order.payload)
        variables = contextvars.copy_context()
        if order.is_async:
            value = runner.run(handler(context, payload), context=variables)
            return outcome_of_value(value, order.output_bytes_max)
        value = variables.run(handler, context, payload)
        return outcome_of_result(value, order.output_bytes_max)
    except BaseException as error:  # noqa: BLE001  a handler may raise anything
        return outcome_of_error(error, is_traced=_traces.take(order.facts.task))


@cache
def _find(target: str, task: str) -> tuple[Any, PayloadType]:
    module, _, path = target.partition(":")
    handler: Any = reduce(getattr, path.split("."), importlib.import_module(module))
    return handler, PayloadType(task, handler)


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:4]))
