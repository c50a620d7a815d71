"""The demo's handlers, and the log that each worker process appends to.

A line is written before and after each handler's work, in one `write` to a file opened for
appending, so a killed worker loses nothing that happened.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mainspring.handlers import Context, Worker

LOG_VARIABLE = "MAINSPRING_DEMO_LOG_DIR"
FLAKY_FAILURES = 2

worker = Worker()
_log_fd: int | None = None


def write_line(event: str, ctx: Context) -> None:
    """Append `event job_id scheduled_us attempt run_id monotonic_ns`."""
    global _log_fd  # noqa: PLW0603  one descriptor a process, opened at the first run
    if _log_fd is None:
        path = Path(os.environ[LOG_VARIABLE]) / f"worker-{os.getpid()}.log"
        _log_fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    scheduled_us = round(ctx.scheduled_at.timestamp() * 1_000_000)
    line = f"{event} {ctx.job_id} {scheduled_us} {ctx.attempt} {ctx.run_id} {time.monotonic_ns()}\n"
    os.write(_log_fd, line.encode())


@worker.task("demo.work")
async def work(ctx: Context, _payload: Any) -> None:
    """Do nothing, and say so."""
    write_line("start", ctx)
    write_line("end", ctx)


@worker.task("demo.flaky")
def flaky(ctx: Context, _payload: Any) -> str:
    """Fail twice, then succeed.  A sync handler, so it runs in a thread."""
    write_line("start", ctx)
    if ctx.attempt <= FLAKY_FAILURES:
        write_line("fail", ctx)
        raise RuntimeError(f"attempt {ctx.attempt} of a handler that fails twice")
    write_line("end", ctx)
    return "third time lucky"


@worker.task("demo.doomed")
async def doomed(ctx: Context, _payload: Any) -> None:
    """Fail always, and end as a dead letter."""
    write_line("start", ctx)
    write_line("fail", ctx)
    raise ValueError("this handler never succeeds")
