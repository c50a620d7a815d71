"""How processes end when something is wrong: a silent store, slow handlers, no output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from mainspring.clock import monotonic_s
from mainspring.devpg import DevPostgres
from mainspring.model import RunStatus
from postgres.proxy import Proxy
from processes.cluster.stage import HANDLERS, HERE, Cluster, environment, wait_for


@pytest.fixture
def proxy(postgres_server: DevPostgres) -> Iterator[Proxy]:
    """A way to the server that can fall silent."""
    made = Proxy("127.0.0.1", postgres_server.port)
    yield made
    made.close()


def behind(proxy: Proxy, postgres_server: DevPostgres, cluster: Cluster) -> str:
    """Return the DSN of the cluster's database by way of the proxy."""
    through = postgres_server.dsn_of(conninfo_to_dict(cluster.dsn)["dbname"], tcp=True)
    dsn = through.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    wait_for("a way to the server", lambda: answers(dsn))
    return dsn


def answers(dsn: str) -> bool:
    """Return whether somebody answers there."""
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def test_sigterm_ends_all_while_the_database_is_silent(
    cluster: Cluster, proxy: Proxy, postgres_server: DevPostgres
) -> None:
    """One question that stays unanswered is enough: not one for each of many shards."""
    dsn = behind(proxy, postgres_server, cluster)
    scheduler = cluster.start_scheduler(MAINSPRING_DSN=dsn)
    worker = cluster.start_worker(MAINSPRING_DSN=dsn, MAINSPRING_DRAIN_SECONDS="1")
    wait_for("terms", lambda: all(s.leader for s in cluster.store.read_shards()))
    proxy.stall()
    begun_s = monotonic_s()
    scheduler.terminate()
    worker.terminate()

    assert (0, 0) == (scheduler.wait(20), worker.wait(20))
    assert monotonic_s() - begun_s < 18
    assert "Traceback" not in cluster.words("scheduler") + cluster.words("worker")


def test_a_worker_out_of_drain_time_records_what_it_cancelled(cluster: Cluster) -> None:
    """A run that was cancelled at the end is a failed one; nobody takes the worker for crashed."""
    cluster.start_scheduler()
    worker = cluster.start_worker(MAINSPRING_DRAIN_SECONDS="0")
    jobs = [cluster.add(task=task, in_s=0.1, max_retries=1) for task in ("hang", "hang-thread")]
    wait_for("their starts", lambda: len(cluster.log()) == len(jobs))
    worker.terminate()

    assert worker.wait(20) == 0
    assert [["dead"], ["dead"]] == [cluster.statuses(job_id) for job_id in jobs]


def test_processes_serve_without_their_outputs(cluster: Cluster, tmp_path: Path) -> None:
    """Closed, full, or with nobody at the other end: the work goes on, and SIGTERM ends it."""
    env = {
        **environment(cluster),
        "PYTHONPATH": str(HERE.parent.parent),
        "MAINSPRING_TEST_LOG_DIR": str(tmp_path / "log"),
    }
    commands = {
        "scheduler": "mainspring.cli scheduler --json 2>/dev/full",
        "worker": f"mainspring.cli worker {HANDLERS} --json >&- 2>&-",
    }
    reader, nobody = os.pipe()
    os.close(reader)
    processes = [
        subprocess.Popen(
            ["/bin/bash", "-c", f"exec {sys.executable} -m {command}"], env=env, stdout=nobody
        )
        for command in commands.values()
    ]
    os.close(nobody)
    try:
        job_id = cluster.add(task="work", in_s=0.1)
        assert [r.status for r in cluster.wait_ended(job_id)] == [RunStatus.SUCCESS]
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(20) for process in processes]
    # 120: Python found at its end that the last lines could not be written.
    assert codes in ([0, 0], [120, 0])
