"""Tasks whose handlers run in child processes, which import this module."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from mainspring import Context, Worker


class Report(msgspec.Struct):
    kind: str
    rows: list[int] = []


tasks = Worker()


@tasks.task("on-loop")
async def on_loop(ctx: Context, payload: Report) -> Any:
    return [type(payload).__name__, payload.kind, sum(payload.rows)]


@tasks.task("in-thread")
def in_thread(ctx: Context, payload: Report) -> Any:
    return [type(payload).__name__, payload.kind, sum(payload.rows)]


@tasks.task("in-process", isolation="process")
def in_process(ctx: Context, payload: Report) -> Any:
    assert os.getppid() != 1
    return [type(payload).__name__, payload.kind, sum(payload.rows)]


failing = Worker()


def burn(payload: Any) -> None:
    secret = payload["card"]
    raise ValueError(f"no paper for {len(secret)} digits")


@failing.task("on-loop")
async def fail_on_loop(ctx: Context, payload: Any) -> None:
    await asyncio.sleep(0)
    burn(payload)


@failing.task("in-thread")
def fail_in_thread(ctx: Context, payload: Any) -> None:
    burn(payload)


@failing.task("in-process", isolation="process")
def fail_in_process(ctx: Context, payload: Any) -> None:
    burn(payload)
