"""Jobs changed, paused and resumed through engines that run them, async and plain."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mainspring import Context, Engine, SyncEngine
from mainspring.errors import Conflict, InvalidInput, NotFound, PreconditionFailed
from processes.cluster.stage import wait_for
from processes.engine.stage import PAST, QUICK, ended, run, until

QUIET_S = 2.5  # over twice the interval of the jobs here


class Report(msgspec.Struct):
    kind: str


def test_a_running_engine_takes_a_change_a_pause_and_a_resumption(dsn: str) -> None:
    """What starts afterwards has the new payload and schedule; nothing starts during the pause."""
    engine = Engine(dsn, shards=1, worker=QUICK)
    seen: list[str] = []

    @engine.task("report")
    async def report(ctx: Context, payload: Report) -> None:
        seen.append(payload.kind)

    async def main() -> None:
        async with engine:
            job = await engine.jobs.add(name="report", schedule="@hourly", payload=Report("old"))
            changed = await engine.jobs.update(
                job.job_id, schedule="@every 1s", payload=Report("new"), if_rev=1
            )
            assert (changed.rev, changed.payload) == (2, {"kind": "new"})
            await until("two runs", lambda: len(seen) >= 2)
            with pytest.raises(PreconditionFailed, match="is at rev 2, not 1"):
                await engine.jobs.pause(job.job_id, if_rev=1)
            paused = await engine.jobs.pause(job.job_id, if_rev=2)
            assert (paused.status, paused.next_run_at) == ("paused", None)
            await until("the end of a run", lambda: not engine.health.running)
            count = len(seen)
            await asyncio.sleep(QUIET_S)
            assert len(seen) == count
            resumed = await engine.jobs.resume(job.job_id, if_rev=3)
            assert (resumed.status, resumed.rev) == ("active", 4)
            await until("a run after the pause", lambda: len(seen) > count)
        assert set(seen) == {"new"}

    run(main(), timeout_s=90)


def test_a_change_is_refused_with_its_field_and_changes_nothing(dsn: str) -> None:
    """By the type of the payload here, by every rule of a registration, and for what is gone."""
    engine = Engine(dsn, shards=1, worker=QUICK)

    @engine.task("report")
    async def report(ctx: Context, payload: Report) -> None: ...

    async def main() -> None:
        async with engine:
            jobs = engine.jobs
            job = await jobs.add(name="report", schedule="@hourly", payload=Report("x"))
            before = await jobs.get(job.job_id)
            fields: dict[str, Any]
            for fields, pointer in (
                ({"payload": {"kind": 1}}, "/payload/kind"),
                ({"schedule": "0 25 * * *"}, "/schedule"),
                ({"schedule": PAST}, "/schedule"),
                ({"max_missed": 0}, "/max_missed"),
                ({"owner": "x"}, "/owner"),
                ({"max_retries": 1.5}, "/max_retries"),
                ({}, ""),
            ):
                with pytest.raises(InvalidInput) as refused:
                    await jobs.update(job.job_id, **fields)
                assert refused.value.pointer == pointer
            assert await jobs.get(job.job_id) == before
            done = await jobs.add(name="report", schedule=PAST, payload=Report("x"))
            await ended(engine, done.job_id)
            with pytest.raises(NotFound, match="is deleted or finished"):
                await jobs.update(done.job_id, max_retries=1)
            with pytest.raises(NotFound, match="no job was ever called"):
                await jobs.pause("j_zzz")
        with pytest.raises(Conflict, match="is not running"):
            await jobs.resume(job.job_id)

    run(main(), timeout_s=90)


def test_a_plain_host_and_a_client_change_jobs_too(dsn: str) -> None:
    """The calls block; the engine that runs the job is another one."""
    engine = SyncEngine(dsn, shards=1, worker=QUICK)
    client = SyncEngine(dsn, run_scheduler=False, run_worker=False)
    seen: list[Any] = []

    @engine.task("note")
    def note(ctx: Context, payload: Any) -> None:
        seen.append(payload)

    with engine, client:
        job = client.jobs.add(name="note", schedule="@hourly", payload="old")
        assert client.jobs.pause(job.job_id).status == "paused"
        changed = client.jobs.update(job.job_id, schedule="@every 1s", payload="new", if_rev=2)
        assert (changed.status, changed.next_run_at, changed.rev) == ("paused", None, 3)
        assert not engine.wait(QUIET_S)
        assert seen == []
        with pytest.raises(PreconditionFailed):
            client.jobs.resume(job.job_id, if_rev=2)
        assert client.jobs.resume(job.job_id).next_run_at is not None
        wait_for("two runs", lambda: len(seen) >= 2)
        assert client.jobs.delete(job.job_id)

    assert set(seen) == {"new"}
