"""Handlers that charge a card, and kill their worker before or after the charge stands.

Each makes the charge twice: within `ctx.idempotent`, and beside it as one would without.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg

from mainspring import Context, Worker

KILLS_VARIABLE = "MAINSPRING_TEST_KILLS"
tasks = Worker()

CREATE_TABLES = """
CREATE TABLE charges (job_id bigint NOT NULL, attempt integer NOT NULL);
CREATE TABLE charges_without (job_id bigint NOT NULL, attempt integer NOT NULL);
"""
CHARGE = "INSERT INTO charges VALUES (%s, %s)"
CHARGE_WITHOUT = "INSERT INTO charges_without VALUES (%s, %s)"


def kill_worker(ctx: Context, place: str) -> None:
    """Say so in one write to a file that all workers share, and die."""
    file = os.open(Path(os.environ[KILLS_VARIABLE]), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{os.getpid()} {ctx.facts.job} {ctx.attempt} {place}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def stop_worker() -> None:
    """Stand still, with all threads, until somebody sends SIGCONT.

    Another thread may take the signal, and this one runs on for a moment: it must not get far.
    """
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.5)


@tasks.task("charge-async")
async def charge_async(ctx: Context, payload: Any) -> bool:
    row = (ctx.facts.job, ctx.attempt)
    is_fatal = ctx.attempt == 1
    dsn = os.environ["MAINSPRING_DSN"]
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(CHARGE_WITHOUT, row)
        async with ctx.idempotent(connection) as first:
            if first:
                await connection.execute(CHARGE, row)
                if is_fatal and payload == "within":
                    kill_worker(ctx, "within")
        if is_fatal and payload == "after":
            kill_worker(ctx, "after")
    return first


@tasks.task("charge")
@tasks.task("charge-process", isolation="process")
def charge(ctx: Context, payload: Any) -> bool:
    row = (ctx.facts.job, ctx.attempt)
    is_fatal = ctx.attempt == 1
    with psycopg.connect(os.environ["MAINSPRING_DSN"], autocommit=True) as connection:
        connection.execute(CHARGE_WITHOUT, row)
        with ctx.idempotent(connection) as first:
            if first:
                connection.execute(CHARGE, row)
                if is_fatal and payload == "within":
                    kill_worker(ctx, "within")
                if is_fatal and payload == "stop":
                    stop_worker()
        if is_fatal and payload == "after":
            kill_worker(ctx, "after")
    return first
