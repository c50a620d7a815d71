"""Handlers of the fault tests, the log that each worker process appends to, and the effect sink.

Every line is one `write` to a file opened for appending, so a process killed at any instant has
either written it or not.  The log has a file for each process.  The sink is one file for all: it
stands for a system outside of mainspring that remembers every effect it was asked for, by key.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from mainspring import Context, Worker

LOG_VARIABLE = "MAINSPRING_FAULTS_LOG_DIR"
SINK_NAME = "effects"

tasks = Worker()
_fds: dict[str, int] = {}


def append(name: str, line: str) -> None:
    """Write one line, in one piece."""
    fd = _fds.get(name)
    if fd is None:
        path = Path(os.environ[LOG_VARIABLE]) / f"{name}.log"
        fd = _fds[name] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, f"{line}\n".encode())


def log(event: str, ctx: Context, output: str = "-") -> None:
    """Append what happened to this process' log; see `truth.Line` for the columns."""
    wall_us, mono_us = time.time_ns() // 1_000, time.monotonic_ns() // 1_000
    append(
        f"worker-{os.getpid()}",
        f"{event} {ctx.run_id} {ctx.job_id} {ctx.facts.scheduled_us} {ctx.attempt} {ctx.fence} "
        f"{os.getpid()} {wall_us} {mono_us} {ctx.idempotency_key} {output}",
    )


def finish(ctx: Context) -> str:
    """Have the effect, and return an output that no other run can return."""
    output = f"{ctx.run_id}/{os.getpid()}/{time.monotonic_ns()}"
    append(SINK_NAME, f"{ctx.idempotency_key} {ctx.run_id} {os.getpid()}")
    log("end", ctx, output)
    return output


@tasks.task("work")
async def work(ctx: Context, hold_s: float) -> str:
    """Take that long, on the loop."""
    log("begin", ctx)
    if hold_s:
        await asyncio.sleep(hold_s)
    return finish(ctx)


@tasks.task("work-thread")
def work_thread(ctx: Context, hold_s: float) -> str:
    """Take that long, in a thread."""
    log("begin", ctx)
    time.sleep(hold_s)
    return finish(ctx)


@tasks.task("flaky")
async def flaky(ctx: Context, failures: int) -> str:
    """Fail at the first attempts."""
    log("begin", ctx)
    if ctx.attempt <= failures:
        log("fail", ctx)
        raise ValueError(f"attempt {ctx.attempt} fails on purpose")
    return finish(ctx)


@tasks.task("poison")
async def poison(ctx: Context, _payload: Any) -> None:
    """Take the process along."""
    log("begin", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
