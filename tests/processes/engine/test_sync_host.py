"""An engine in a host without an event loop, embedded Postgres, figures, typed payloads."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mainspring import Context, SyncEngine
from mainspring.clock import monotonic_s
from mainspring.errors import Conflict, EngineFailed, InvalidInput
from mainspring.shown import RunOut
from processes.cluster.stage import wait_for
from processes.engine.stage import FINAL, PAST, QUICK, threads_of
from processes.engine.tasks_apart import Report, tasks


def ended(engine: SyncEngine, job_id: str) -> list[RunOut]:
    def final() -> list[RunOut]:
        runs = engine.jobs.runs(job_id)[::-1]
        return runs if any(each.status in FINAL for each in runs) else []

    return wait_for(f"the end of job {job_id}", final)


def test_a_plain_host_runs_handlers_of_both_kinds(dsn: str) -> None:
    """Async ones on a loop of the engine's own; calls block; the engine is started again."""
    engine = SyncEngine(dsn, shards=1, name="plain")
    seen: dict[str, Any] = {}

    @engine.task()
    async def on_loop(ctx: Context, payload: Any) -> Any:
        await asyncio.sleep(0.01)
        seen["loop"] = threading.current_thread().name
        return payload

    @engine.task()
    def in_thread(ctx: Context, payload: Any) -> Any:
        seen["thread"] = threading.current_thread().name
        return payload

    with pytest.raises(Conflict, match="is not running"):
        engine.jobs.add(name="on_loop", schedule=PAST)
    for turn in range(2):
        with engine:
            assert not engine.wait(0.01)
            jobs = engine.jobs.add_many(
                {"name": name, "schedule": PAST, "payload": turn}
                for name in ("on_loop", "in_thread")
            )
            for job in jobs:
                (done,) = ended(engine, job.job_id)
                assert done.output == str(turn)
        assert threads_of("plain") == []
    assert seen["loop"] == "handlers"
    assert seen["thread"].startswith("handler-")


def test_another_thread_stops_an_engine_that_somebody_waits_for(dsn: str) -> None:
    """`wait` returns then, and a second stop does nothing."""
    engine = SyncEngine(dsn, shards=1, tasks=tasks)
    engine.start()
    waited: list[bool] = []
    waiter = threading.Thread(target=lambda: waited.append(engine.wait(30)))
    waiter.start()
    engine.stop()
    waiter.join(10)
    engine.stop()

    assert waited == [True]


def test_a_failure_ends_the_wait_of_a_plain_host(dsn: str) -> None:
    """And is raised by the block, too, when nobody waits."""
    engine = SyncEngine(dsn, shards=1, tasks=tasks)
    with pytest.raises(EngineFailed, match="it left by itself"), engine:  # noqa: PT012
        parts = engine._life.running()
        parts._asks[-1]()  # as if it had been told by nobody
        with pytest.raises(EngineFailed, match="the worker of engine 'engine' has ended"):
            engine.wait(20)
    with pytest.raises(EngineFailed, match="it left by itself"), engine:  # noqa: PT012
        parts = engine._life.running()
        parts._asks[-1]()
        wait_for("the failure", lambda: engine.health.state == "failed")


@pytest.mark.parametrize("task", ["on-loop", "in-thread", "in-process"])
def test_a_typed_payload_is_decoded_wherever_the_handler_runs(dsn: str, task: str) -> None:
    """A Struct goes in and comes out; one that does not fit is refused, or dead at once."""
    engine = SyncEngine(dsn, shards=1, tasks=tasks)
    client = SyncEngine(dsn, run_scheduler=False, run_worker=False)
    with engine, client:
        good = engine.jobs.add(name=task, schedule=PAST, payload=Report("weekly", [1, 2]))
        with pytest.raises(InvalidInput, match=r"got `str` - at `\$.rows\[1\]`") as refused:
            engine.jobs.add(name=task, schedule=PAST, payload={"kind": "a", "rows": [1, "x"]})
        # Who does not know the task cannot know its type.
        bad = client.jobs.add(name=task, schedule=PAST, payload={"rows": [1]})
        (done,) = ended(engine, good.job_id)
        (died,) = ended(engine, bad.job_id)

    assert refused.value.pointer == "/payload/rows/1"
    assert done.output == '["Report","weekly",3]'
    assert (died.status, died.attempt) == ("dead", 1)
    assert died.error == "payload is not Report: Object missing required field `kind`"


def test_a_batch_with_one_bad_job_registers_none(dsn: str) -> None:
    """The pointer begins with the job's place."""
    with SyncEngine(dsn, shards=1, run_scheduler=False, run_worker=False) as engine:
        with pytest.raises(InvalidInput, match="job 1: ") as refused:
            engine.jobs.add_many([{"name": "a", "schedule": PAST}, {"name": "b", "schedule": "x"}])
        with pytest.raises(InvalidInput, match="limit is 501"):
            engine.jobs.list(limit=501)
        with pytest.raises(InvalidInput, match="more than 10000"):
            engine.jobs.add_many({"name": "a", "schedule": PAST} for _ in range(10_001))

        assert refused.value.pointer == "/1/schedule"
        assert engine.jobs.list() == []
        assert engine.jobs.add_many([]) == []


def test_a_task_that_is_not_known_here_is_warned_of_once(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With the nearest name; not for a queue of others, and not by a client without handlers."""
    engine = SyncEngine(dsn, shards=1, tasks=tasks, name="here")
    client = SyncEngine(dsn, run_scheduler=False, run_worker=False)
    with engine, client:
        for name in ("in-thraed", "in-thraed", "xyz"):
            engine.jobs.add(name=name, schedule="@daily")
        engine.jobs.add(name="elsewhere", queue="images", schedule="@daily")
        engine.jobs.add(name="in-thread", schedule="@daily", payload=Report("x"))
        client.jobs.add(name="of others", schedule="@daily")
    said = [each for each in caplog.messages if each.startswith("no handler here")]

    assert [each.partition("task=")[2] for each in said] == [
        "in-thraed nearest=in-thread engine=here",
        "xyz engine=here",
    ]


def test_shards_that_a_database_does_not_get_are_warned_of(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asks for other shards than there are, and nobody else."""
    for options in ({"shards": 2}, {}, {"shards": 2}, {"shards": 16}):
        with SyncEngine(dsn, run_scheduler=False, run_worker=False, **options):  # type: ignore[arg-type]
            pass

    assert [each for each in caplog.messages if "shards" in each] == [
        "the database keeps the shards it has engine=engine shards=2 asked=16"
    ]


HOST = """
import logging, os, threading
import mainspring
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
engine = mainspring.SyncEngine(os.environ["DATABASE_URL"], shards=1)
@engine.task()
def hold(ctx, payload):
    print("begun", flush=True)
    threading.Event().wait(60)
try:
    with engine:
        engine.jobs.add(name="hold", schedule="2020-01-01T00:00:00Z")
        engine.wait()
finally:
    print("ended", flush=True)
"""


def test_a_second_ctrl_c_ends_the_host_without_noise(dsn: str) -> None:
    """The first one drains; the second waits no longer, and what runs is as of a killed worker."""
    host = subprocess.Popen(
        [sys.executable, "-c", HOST],
        env={**os.environ, "DATABASE_URL": dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert host.stdout is not None
        assert host.stderr is not None
        assert host.stdout.readline() == "begun\n"
        host.send_signal(signal.SIGINT)
        while "draining" not in (line := host.stderr.readline()):
            assert line, "it ended at once"
        host.send_signal(signal.SIGINT)
        begun_s = monotonic_s()
        said, errors = host.communicate(timeout=30)
    finally:
        host.kill()
        host.communicate()

    assert monotonic_s() - begun_s < 15
    assert (host.returncode, said) == (-signal.SIGINT, "ended\n")
    before, _, traceback = errors.partition("Traceback")
    assert before == ""
    assert traceback.count("Traceback") == 0
    assert traceback.endswith(
        "KeyboardInterrupt: engine 'engine' was not waited for while it drained\n"
    )


@pytest.mark.slow
def test_an_embedded_postgres_is_kept_or_thrown_away(tmp_path: Path) -> None:
    """With a folder the jobs are there at the next start; without one they are gone."""
    kept = SyncEngine.embedded(tmp_path / "pg", tasks=tasks, shards=1)
    with kept:
        job = kept.jobs.add(name="on-loop", schedule="@daily", payload=Report("kept"))
        first_dsn = kept.dsn
    with kept:
        assert kept.jobs.get(job.job_id).name == "on-loop"
        assert kept.jobs.get(job.job_id).payload == {"kind": "kept", "rows": []}
        assert [each.payload["kind"] for each in kept.jobs.list()] == ["kept"]
    with pytest.raises(Conflict):
        _ = kept.dsn
    assert first_dsn.startswith("postgresql://")


def test_figures_are_a_collector_and_a_port_if_asked_for(dsn: str) -> None:
    """Scheduler and worker side by side, told apart by labels; counts go on over a restart."""
    engine = SyncEngine(dsn, shards=1, tasks=tasks, name="seen", metrics_port=0)
    registry = CollectorRegistry()
    registry.register(engine.metrics)
    for turn in (1, 2):
        with engine:
            job = engine.jobs.add(name="in-thread", schedule=PAST, payload=Report("x"))
            ended(engine, job.job_id)
            labels = {"engine": "seen", "part": "worker"}
            wait_for(
                "the count",
                lambda n=turn, k=labels: (
                    registry.get_sample_value("mainspring_completed_total", k) == n
                ),  # type: ignore[misc]
            )
            url = engine.metrics_url
            assert url is not None
            connection = http.client.HTTPConnection(url.split("/")[2], timeout=5)
            connection.request("GET", "/metrics")
            served = connection.getresponse().read().decode()
            connection.close()
    text = generate_latest(registry).decode()

    claimed = 'mainspring_claimed_total{engine="seen",part="scheduler",shard="0"} 2.0'
    assert claimed in text
    assert claimed in served
    assert "process_resident_memory_bytes" in served
    assert "process_" not in text
    assert text.count("# TYPE mainspring_retried_total counter") == 1


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_of_the_host_has_no_engine(dsn: str) -> None:
    """It is told so, and its end disturbs the parent's engine in nothing."""
    engine = SyncEngine(dsn, shards=1, tasks=tasks, worker=QUICK)
    with engine:
        first = engine.jobs.add(name="in-thread", schedule=PAST, payload=Report("x"))
        ended(engine, first.job_id)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                engine.jobs.list()
            except Conflict as error:
                engine.stop()
                code = 0 if "after the fork" in str(error.hint) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        begun_s = monotonic_s()
        second = engine.jobs.add(name="in-thread", schedule=PAST, payload=Report("y"))
        ended(engine, second.job_id)
        assert monotonic_s() - begun_s < 10
        assert engine.health.is_well
