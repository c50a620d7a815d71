"""An engine in a host with an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import re
import signal
import threading
from typing import Any

import psycopg
import pytest
import uvloop
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mainspring import Context, Dead, Engine, Retry
from mainspring.errors import (
    Conflict,
    EngineFailed,
    InvalidInput,
    MigrationRefused,
    NotFound,
    StoreUnavailable,
)
from processes.cluster.stage import wait_for
from processes.engine.stage import PAST, QUICK, ended, run, threads_of, until

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_handlers_run_on_the_hosts_loop_and_sync_ones_beside_it(dsn: str, new_loop: Any) -> None:
    """With the host's context variables; jobs are registered, read, listed and deleted."""
    engine = Engine(dsn, shards=2, name="one")
    seen: dict[str, Any] = {}

    @engine.task("report")
    async def report(ctx: Context, payload: Any) -> Any:
        seen["loop"], seen["id"] = asyncio.get_running_loop(), request_id.get()
        await asyncio.sleep(0.01)
        return payload

    @engine.task()
    def plain(ctx: Context, payload: Any) -> str:
        seen["thread"] = threading.current_thread()
        return "from a thread"

    async def main() -> None:
        request_id.set("of the host")
        async with engine:
            weekly = await engine.jobs.add(name="report", schedule="0 9 * * 1")
            once = await engine.jobs.add(name="report", schedule=PAST, payload={"n": 1})
            other, third = await engine.jobs.add_many(
                [{"name": "plain", "schedule": PAST}, {"name": "unknown", "schedule": "@daily"}]
            )
            (first,) = await ended(engine, once.job_id)
            (second,) = await ended(engine, other.job_id)

            assert (first.output, second.output) == ('{"n":1}', '"from a thread"')
            assert seen["loop"] is asyncio.get_running_loop()
            assert seen["id"] == "of the host"
            assert seen["thread"] is not threading.current_thread()
            assert (await engine.jobs.get(weekly.job_id)).next_run_at == weekly.next_run_at
            assert [each.job_id for each in await engine.jobs.list()] == [
                weekly.job_id,
                third.job_id,
            ]
            assert await engine.jobs.delete(weekly.job_id)
            assert not await engine.jobs.delete(weekly.job_id)
            with pytest.raises(NotFound, match="deleted"):
                await engine.jobs.get(weekly.job_id)
            with pytest.raises(NotFound, match="no job was ever called"):
                await engine.jobs.runs("j_zzz")
            assert engine.health.is_well
            await until("both shards", lambda: engine.health.shards_led == 2)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main(), new_loop=new_loop)
    assert threads_of("one") == []


def test_dead_letters_and_redrive(dsn: str) -> None:
    """A run that is dead, retried or failed is seen as such, and a redriven one succeeds."""
    engine = Engine(dsn, shards=1)
    is_open = asyncio.Event()

    @engine.task()
    async def closed(ctx: Context, payload: Any) -> str:
        if ctx.attempt == 1:
            raise Retry("not yet", after_seconds=0)
        if not is_open.is_set():
            raise Dead("shut")
        return "open"

    async def main() -> None:
        async with engine:
            job = await engine.jobs.add(name="closed", schedule=PAST)
            runs = await ended(engine, job.job_id)
            assert [each.status for each in runs] == ["failed", "dead"]
            (letter,) = await engine.jobs.dead_letters()
            assert (letter.run_id, letter.error) == (runs[-1].run_id, "shut")
            is_open.set()
            await engine.jobs.redrive(letter.run_id)
            with pytest.raises(NotFound, match="no dead letter"):
                await engine.jobs.redrive(letter.run_id)
            runs = await ended(engine, job.job_id)
            while runs[-1].status != "success":
                runs = (await engine.jobs.runs(job.job_id))[::-1]
                await asyncio.sleep(0.05)
            page = await engine.jobs.runs(job.job_id, limit=1)
            older = await engine.jobs.runs(job.job_id, limit=1, before=page[-1])
            assert [page[0].status, older[0].status] == ["success", "dead"]
            assert (await engine.jobs.recent_runs(limit=1))[0].status == "success"

    run(main())


def test_the_end_of_the_block_drains_without_blocking_the_loop(dsn: str) -> None:
    """What runs may finish, and the loop turns meanwhile."""
    engine = Engine(dsn, shards=1, worker=QUICK)
    begun, ends = asyncio.Event(), list[str]()
    ticks: list[float] = []

    @engine.task()
    async def slow(ctx: Context, payload: Any) -> None:
        begun.set()
        await asyncio.sleep(0.5)
        ends.append("slow")

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            ticks.append(asyncio.get_running_loop().time())

    async def main() -> str:
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(tick())
            async with engine:
                job = await engine.jobs.add(name="slow", schedule=PAST)
                await begun.wait()
                ticks.clear()
            assert ends == ["slow"]
            gap_s = max(b - a for a, b in itertools.pairwise(ticks))
            assert len(ticks) > 10
            assert gap_s < 0.4, "the loop stood still"
            ticking.cancel()
        return job.job_id

    job_id = run(main())
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT status FROM job_runs").fetchall()
    assert job_id == "j_1"
    assert rows == [("success",)]


def test_a_drain_that_is_over_cancels_what_still_runs(dsn: str) -> None:
    """A handler that would go on for an hour is cancelled, recorded and retried elsewhere."""
    engine = Engine(dsn, shards=1, worker=type(QUICK)(drain_seconds=0.1))
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @engine.task()
    async def hang(ctx: Context, payload: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def main() -> None:
        async with engine:
            await engine.jobs.add(name="hang", schedule=PAST)
            await begun.wait()
        assert cancelled.is_set()

    run(main())
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT status, error FROM job_runs").fetchall()
    assert [status for (status, _) in rows] == ["failed"]
    assert "the worker is stopping" in rows[0][1]


def test_a_cancelled_host_ends_in_order(dsn: str) -> None:
    """A cancellation within the block, and another during the drain, end it as any end does."""
    engine = Engine(dsn, shards=1, name="cancelled", worker=QUICK)
    begun, ends = asyncio.Event(), list[str]()

    @engine.task()
    async def slow(ctx: Context, payload: Any) -> None:
        begun.set()
        await asyncio.sleep(0.3)
        ends.append("slow")

    async def host() -> None:
        async with engine:
            await engine.jobs.add(name="slow", schedule=PAST)
            await engine.wait()

    async def main() -> None:
        task = asyncio.create_task(host())
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0.05)
        assert engine.health.state == "stopping"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends == ["slow"]
        assert engine.health.state == "stopped"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())
    assert threads_of("cancelled") == []


def test_a_start_that_is_cancelled_leaves_nothing(dsn: str) -> None:
    """The start is seen through and taken back; the engine may be started again."""
    engine = Engine(dsn, shards=1, name="hasty")

    @engine.task()
    async def noop(ctx: Context, payload: Any) -> None: ...

    async def main() -> None:
        task = asyncio.create_task(engine.start())
        await asyncio.sleep(0)
        assert engine.health.state == "starting"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.health.state == "stopped"
        assert threads_of("hasty") == []
        async with engine:
            job = await engine.jobs.add(name="noop", schedule=PAST)
            await ended(engine, job.job_id)

    run(main())


def test_an_engine_is_started_again_also_on_another_loop(dsn: str) -> None:
    """The same object, three times; twice at once is refused, and so is a late task."""
    engine = Engine(dsn, shards=1)
    loops: list[asyncio.AbstractEventLoop] = []

    @engine.task()
    async def where(ctx: Context, payload: Any) -> None:
        loops.append(asyncio.get_running_loop())

    async def once() -> None:
        async with engine:
            with pytest.raises(Conflict, match="running already"):
                await engine.start()
            with pytest.raises(Conflict, match="a task is registered while"):
                engine.task("late")(where)
            job = await engine.jobs.add(name="where", schedule=PAST)
            await ended(engine, job.job_id)
            assert loops[-1] is asyncio.get_running_loop()

    run(once())
    with asyncio.Runner() as runner:
        runner.run(once())
        runner.run(once())

    assert loops[0] is not loops[1]
    assert loops[1] is loops[2]


def test_two_engines_on_one_database_and_one_on_another(dsn: str, other_dsn: str) -> None:
    """Jobs go where their tasks are; ends in any order; databases do not mix."""
    first = Engine(dsn, shards=2, name="first")
    second = Engine(dsn, shards=2, name="second")
    third = Engine(other_dsn, shards=3, name="third")
    ran: list[str] = []

    for engine, name in ((first, "a"), (second, "b"), (third, "c")):

        @engine.task(name)
        async def note(ctx: Context, payload: Any) -> None:
            ran.append(ctx.task)

    async def main() -> None:
        await asyncio.gather(first.start(), second.start(), third.start())
        a = await second.jobs.add(name="a", schedule=PAST)
        b = await first.jobs.add(name="b", schedule=PAST)
        c = await third.jobs.add(name="c", schedule=PAST)
        await ended(first, a.job_id)
        await ended(first, b.job_id)
        await ended(third, c.job_id)
        assert sorted(ran) == ["a", "b", "c"]
        await first.stop()
        late = await second.jobs.add(name="b", schedule=PAST)
        await ended(second, late.job_id)  # led by whoever is left
        assert first.health.state == "stopped"
        await asyncio.gather(third.stop(), second.stop())

    run(main())


def test_what_fails_within_is_told_at_once_and_at_the_end(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A part that ends by itself takes the other along; `wait` raises it, and so does the block."""
    engine = Engine(dsn, shards=1, name="broken")

    @engine.task()
    async def noop(ctx: Context, payload: Any) -> None: ...

    def rename(old: str, new: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE IF EXISTS {old} RENAME TO {new}")

    async def break_it() -> None:
        # As a migration under our feet would: no outage that passes, and so no reason to go on.
        await until("a leader", lambda: engine.health.shards_led == 1)
        await asyncio.to_thread(rename, "holders", "holders_gone")

    async def waiting() -> None:
        async with engine:
            await break_it()
            await engine.wait()

    async def at_the_end() -> None:
        async with engine:
            await break_it()
            await until("the failure", lambda: engine.health.state == "failed")
            assert "does not fit" in str(engine.health.failure)

    async def with_its_own() -> None:
        async with engine:
            await break_it()
            await until("the failure", lambda: engine.health.state == "failed")
            raise ValueError("of the host")

    told = r"the (scheduler|worker) of engine 'broken' has ended"
    for host in (waiting, at_the_end):
        with pytest.raises(EngineFailed, match=told) as failed:
            run(host())
        assert isinstance(failed.value.__cause__, MigrationRefused)
        rename("holders_gone", "holders")
    with pytest.raises(ValueError, match="of the host") as other:
        run(with_its_own())

    assert re.search(told, other.value.__notes__[0])
    assert any("engine failed" in record.message for record in caplog.records)
    assert threads_of("broken") == []


def test_a_loop_that_is_closed_takes_its_engine_along(dsn: str) -> None:
    """A host that ends its loop and lives on: the run is failed at once, and both parts leave."""
    engine = Engine(dsn, shards=1, name="orphan")
    begun = threading.Event()

    @engine.task()
    async def hang(ctx: Context, payload: Any) -> None:
        begun.set()
        await asyncio.sleep(3600)

    with asyncio.Runner() as runner:
        runner.run(engine.start())
        runner.run(engine.jobs.add(name="hang", schedule=PAST, max_retries=1))

        async def reach() -> None:
            await until("the handler", begun.is_set)

        runner.run(reach())
    wait_for("the failure", lambda: engine.health.state == "failed")
    wait_for("the end of both parts", lambda: not threads_of("orphan scheduler"))
    wait_for("the end of both parts", lambda: not threads_of("orphan worker"))

    assert "left by itself" in str(engine.health.failure)
    run(engine.stop())
    assert threads_of("orphan") == []
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT status FROM job_runs").fetchall()
    assert rows == [("dead",)]


def test_a_database_that_cannot_be_used_is_told_at_the_start() -> None:
    """Nothing is left running, and the engine is stopped."""
    engine = Engine("postgresql://nobody@127.0.0.1:1/nowhere", name="lost")

    @engine.task()
    async def noop(ctx: Context, payload: Any) -> None: ...

    with pytest.raises(
        StoreUnavailable, match="engine 'lost' cannot start: the database cannot be"
    ):
        run(engine.start())

    assert engine.health.state == "stopped"
    assert threads_of("lost") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dbname": "nosuch"}, 'database "nosuch" does not exist'),
        ({"user": "nosuch"}, 'role "nosuch" does not exist'),
    ],
)
def test_a_server_that_refuses_is_told_from_one_that_is_away(
    dsn: str, change: dict[str, str], said: str
) -> None:
    """With what it says, the engine's name and a hint."""
    other = make_conninfo("", **{**conninfo_to_dict(dsn), **change})
    engine = Engine(other, name="mine", run_worker=False)

    with pytest.raises(StoreUnavailable) as refused:
        run(engine.start())

    assert str(refused.value).startswith(
        f"engine 'mine' cannot start: the database server refuses the connection: {said}\n"
    )
    assert "Create" in str(refused.value.hint)


def test_jobs_before_the_start_are_refused_with_a_hint() -> None:
    """As is an engine without tasks, or without a database."""
    engine = Engine("postgresql://nobody@127.0.0.1:1/nowhere")

    with pytest.raises(Conflict, match="is not running") as early:
        run(engine.jobs.add(name="x", schedule="@daily"))
    assert "async with engine" in str(early.value.hint)
    with pytest.raises(InvalidInput, match="has no tasks"):
        run(engine.start())
    with pytest.raises(InvalidInput, match="no database was named") as nameless:
        Engine(None)
    assert "Engine.embedded()" in str(nameless.value.hint)


def test_a_client_without_scheduler_or_worker_registers_jobs(dsn: str) -> None:
    """Both parts can be left out, and each can run alone."""
    client = Engine(dsn, shards=1, run_scheduler=False, run_worker=False, name="client")
    scheduler = Engine(dsn, run_worker=False, name="leads")
    worker = Engine(dsn, run_scheduler=False, migrate=False, name="works")

    @worker.task()
    async def noop(ctx: Context, payload: Any) -> str:
        return "done"

    async def main() -> None:
        async with client:
            job = await client.jobs.add(name="noop", schedule=PAST)
            assert threads_of("client works") == []
            async with scheduler, worker:
                (done,) = await ended(client, job.job_id)
                assert done.output == '"done"'
                await until("the shard", lambda: scheduler.health.shards_led == 1)
                assert worker.health.shards_led == 0

    run(main())


def test_nothing_of_the_process_is_touched(dsn: str) -> None:
    """Signals, logging and structlog stay as the host has them; no metrics port as a default."""
    import structlog  # noqa: PLC0415

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    roots = list(logging.getLogger().handlers)
    engine = Engine(dsn, shards=1)

    @engine.task()
    async def noop(ctx: Context, payload: Any) -> None: ...

    async def main() -> None:
        async with engine:
            assert engine.metrics_url is None

    run(main())
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert logging.getLogger().handlers == roots
    assert not structlog.is_configured()
