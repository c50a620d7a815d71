"""Handlers of the cluster tests; each process appends what it does to a log of its own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from mainspring import Context, Dead, Retry, Worker

LOG_VARIABLE = "MAINSPRING_TEST_LOG_DIR"
tasks = Worker()
other_tasks = Worker()


def log(event: str, ctx: Context) -> None:
    path = Path(os.environ[LOG_VARIABLE]) / f"{os.getpid()}.log"
    scheduled_us = ctx.facts.scheduled_us
    line = f"{event} {ctx.job_id} {scheduled_us} {ctx.attempt} {ctx.run_id} {ctx.idempotency_key}\n"
    with path.open("a") as file:
        file.write(line)


@tasks.task("work")
async def work(ctx: Context, payload: Any) -> Any:
    log("start", ctx)
    log("end", ctx)
    return payload


@tasks.task("raise")
def raise_(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    raise RuntimeError("broken \x00 on purpose \ud800")


@tasks.task("flaky")
async def flaky(ctx: Context, payload: Any) -> str:
    log("start", ctx)
    if ctx.attempt <= payload["failures"]:
        raise ValueError(f"attempt {ctx.attempt}")
    log("end", ctx)
    return "ok"


@tasks.task("hang")
async def hang(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    await asyncio.sleep(3600)


@tasks.task("hang-thread")
def hang_thread(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    time.sleep(8)


@tasks.task("slow")
async def slow(ctx: Context, payload: Any) -> None:
    log("start", ctx)
    await asyncio.sleep(payload["seconds"])
    log("end", ctx)


@tasks.task("dead")
async def dead(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    raise Dead("never again")


@tasks.task("retry-after")
async def retry_after(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    if ctx.attempt == 1:
        raise Retry("not yet", after_seconds=0.2)
    log("end", ctx)


@tasks.task("kill")
async def kill(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    os.kill(os.getpid(), 9)


@tasks.task("fork")
def fork(ctx: Context, _payload: Any) -> int:
    """Fork, and return in both processes."""
    log("start", ctx)
    return os.fork() or os.getpid()


@tasks.task("fork-async")
async def fork_async(ctx: Context, _payload: Any) -> int:
    log("start", ctx)
    return os.fork() or os.getpid()


@tasks.task("hold-gil")
def hold_gil(ctx: Context, payload: Any) -> str:
    log("start", ctx)
    ctypes.PyDLL(None).usleep(int(payload["seconds"] * 1_000_000))  # PyDLL keeps the lock
    return "held"


@tasks.task("exit")
def exit_(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    sys.exit(3)


@tasks.task("interrupt")
async def interrupt(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    raise KeyboardInterrupt


@tasks.task("return-odd")
async def return_odd(ctx: Context, payload: Any) -> Any:
    log("start", ctx)
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]
    return {
        "nan": float("nan"),
        "bytes": b"\x00\xff",
        "huge": ["x" * 1_000] * 50_000,
        "circle": circle,
        "deep": deep,
        "surrogate": "\ud800\x00",
        "object": object(),
    }[payload]


@tasks.task("litter")
def litter(ctx: Context, _payload: Any) -> None:
    """Leave the process in another folder, without its environment, and with much said."""
    log("start", ctx)
    print("said" * 250_000)  # noqa: T201
    sys.stderr.write("said" * 1_000 + "\n")
    os.close(0)
    os.chdir("/")


@other_tasks.task("stranger")
async def stranger(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    log("end", ctx)
