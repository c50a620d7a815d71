"""Handlers for child processes; they have to be importable by name."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from mainspring.errors import Dead, Retry
from mainspring.handlers import Context, Tasks

tasks = Tasks()
leaked: contextvars.ContextVar[int] = contextvars.ContextVar("leaked", default=0)


@tasks.task(isolation="process")
def describe(ctx: Context, payload: Any) -> Any:
    print("printed by a handler")  # noqa: T201
    seen, _ = leaked.get(), leaked.set(1)
    return {
        "payload": payload,
        "pid": os.getpid(),
        "run_id": ctx.run_id,
        "at": str(ctx.scheduled_at),
        "remaining": ctx.remaining_seconds(),
        "leaked": seen,
        "main": threading.current_thread() is threading.main_thread(),
    }


@tasks.task(isolation="process")
async def describe_async(ctx: Context, payload: Any) -> Any:
    await asyncio.sleep(0)
    return {"payload": payload, "pid": os.getpid()}


@tasks.task(isolation="process")
def end(ctx: Context, payload: Any) -> Any:
    """Ends the way the payload says."""
    match payload:
        case "raise":
            raise ValueError("raised in the child")
        case "retry":
            raise Retry("later", after_seconds=7)
        case "dead":
            raise Dead("never")
        case "sys.exit":
            sys.exit(3)
        case "os._exit":
            os._exit(3)
        case "fork":
            if os.fork() == 0:
                threading.Event().wait(60)
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "nonsense":
            for fd in range(3, 64):
                try:
                    os.write(fd, b"\x00\x00\x00\x04\xc1\xc1\xc1\xc1")
                except OSError:
                    continue


@tasks.task(isolation="process")
def hang(ctx: Context, payload: Any) -> Any:
    """Deaf to everything but SIGKILL, and so is what it starts; says who they are in a file."""
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    grandchild = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    Path(payload).write_text(f"{os.getpid()} {grandchild.pid}")
    ctypes.PyDLL(None).sleep(60)


@tasks.task(isolation="process")
def wait_for_cancel(ctx: Context, payload: Any) -> Any:
    Path(payload).write_text("begun")
    return "asked to stop" if ctx.cancelled.wait(30) else "not asked"
