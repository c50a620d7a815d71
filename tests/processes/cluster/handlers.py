"""Handlers of the cluster tests; each process appends what it does to a log of its own."""

from __future__ import annotations

import asyncio
import os
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


@other_tasks.task("stranger")
async def stranger(ctx: Context, _payload: Any) -> None:
    log("start", ctx)
    log("end", ctx)
