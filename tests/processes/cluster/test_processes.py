"""Processes that end, garbage on sockets, and commands, on a real cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest
import zmq

from mainspring.model import RunStatus, format_job_id, format_run_id
from processes.cluster.stage import Cluster, decode_line, environment, wait_for

PERSISTENT = 40


def command(cluster: Cluster, *arguments: str) -> tuple[int, Any, str]:
    """Run a command with --json; returns exit code, value and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "mainspring.cli", *arguments, "--json"],
        env=environment(cluster),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, decode_line(done.stdout), done.stderr


def test_sigterm_drains_a_worker_and_another_takes_what_it_had(cluster: Cluster) -> None:
    """What runs is finished, what was only held starts elsewhere at once, nothing runs twice."""
    cluster.start_scheduler()
    first = cluster.start_worker("first", MAINSPRING_CONCURRENCY="2")
    jobs = [cluster.add(task="slow", in_s=0.3, payload={"seconds": 1}) for _ in range(12)]
    wait_for("running runs", lambda: len(cluster.log()) >= 2)
    cluster.start_worker("second", MAINSPRING_CONCURRENCY="20")
    first.terminate()

    assert first.wait() == 0
    for job_id in jobs:
        runs = cluster.wait_ended(job_id)
        assert [(r.status, r.attempt) for r in runs] == [(RunStatus.SUCCESS, 1)]
    starts = [line.job_id for line in cluster.log() if line.event == "start"]
    assert sorted(starts) == sorted(format_job_id(job_id) for job_id in jobs)


def test_sigterm_ends_a_scheduler_and_the_next_one_goes_on(cluster: Cluster) -> None:
    """Unsent firings are handed back; a new scheduler takes the shards and runs them."""
    scheduler = cluster.start_scheduler()
    jobs = [cluster.add(task="work", in_s=1.5) for _ in range(30)]
    wait_for("armed", lambda: cluster.metric("scheduler", "mainspring_claimed_total") >= 30)
    scheduler.terminate()
    assert scheduler.wait() == 0
    cluster.start_scheduler("scheduler-2")
    cluster.start_worker()

    for job_id in jobs:
        assert [r.status for r in cluster.wait_ended(job_id)] == [RunStatus.SUCCESS]
    assert len(cluster.log()) == 60


def test_a_killed_workers_runs_go_on_elsewhere(cluster: Cluster) -> None:
    """The run is recorded as lost and retried; a job that kills its workers ends dead."""
    cluster.start_scheduler()
    cluster.start_worker("first")
    poison = cluster.add(task="kill", in_s=0.2, max_retries=1)
    wait_for("its death", lambda: cluster.children[1].has_ended)
    cluster.start_worker("second")
    good = cluster.add(task="work", in_s=0.2)

    assert [r.status for r in cluster.wait_ended(good)] == [RunStatus.SUCCESS]
    wait_for("the lost run", lambda: cluster.statuses(poison) == ["lost"])
    letters = cluster.store.list_dead_letters(limit=10)
    assert [letter.job_id for letter in letters] == [poison]


def test_garbage_on_the_sockets_is_counted_and_dropped(cluster: Cluster) -> None:
    """Random bytes to scheduler and worker change nothing but a counter."""
    cluster.start_scheduler()
    cluster.start_worker()
    addresses = {h.kind: h.address for h in cluster.store.read_holders().holders}
    context = zmq.Context()
    try:
        for kind in ("scheduler", "worker"):
            push = context.socket(zmq.SocketType.PUSH)
            push.setsockopt(zmq.SocketOption.LINGER, 2_000)
            push.connect(addresses[kind])
            for n in range(PERSISTENT):
                push.send_multipart([os.urandom(1 + n * 7)] * (1 + n % 3))
            push.close()
            parts = urlsplit(addresses[kind])
            with socket.create_connection((parts.hostname or "", parts.port or 0)) as raw:
                raw.sendall(os.urandom(4_096))
        for title in ("scheduler", "worker"):
            wait_for(
                f"dropped at the {title}",
                lambda t=title: cluster.metric(t, "mainspring_dropped_frames_total") >= PERSISTENT,
            )
    finally:
        context.destroy(linger=0)
    job_id = cluster.add(task="work", in_s=0.1)
    assert [r.status for r in cluster.wait_ended(job_id)] == [RunStatus.SUCCESS]


def test_the_commands_speak_json_and_exit_as_they_say(cluster: Cluster) -> None:
    """Register, list, show, runs, dead, redrive, remove; bad input exits with 2."""
    code, added, _ = command(
        cluster, "jobs", "add", "--name", "report", "--schedule", "0 9 * * 1", "--timezone",
        "America/New_York", "--key-template", "report-{{week}}", "--payload", '{"n": 1}',
    )  # fmt: skip
    assert code == 0
    job_id = added["job_id"]
    code, listed, _ = command(cluster, "jobs", "list")
    assert (code, [job["job_id"] for job in listed]) == (0, [job_id])
    code, shown, _ = command(cluster, "jobs", "show", job_id)
    assert (code, shown["payload"], shown["next_run_at"]) == (0, {"n": 1}, added["next_run_at"])
    code, runs, _ = command(cluster, "runs", job_id)
    assert (code, [run["status"] for run in runs]) == (0, ["pending"])
    code, removed, _ = command(cluster, "jobs", "rm", job_id)
    assert (code, removed["deleted"]) == (0, True)
    code, removed, _ = command(cluster, "jobs", "rm", job_id)
    assert (code, removed["deleted"]) == (0, False)
    code, problem, _ = command(cluster, "jobs", "show", job_id)
    assert (code, problem["kind"]) == (2, "NotFound")
    code, problem, _ = command(cluster, "jobs", "add", "--name", "x", "--schedule", "0 25 * * *")
    assert (code, problem["pointer"]) == (2, "/schedule")
    code, problem, _ = command(cluster, "dead", "redrive", format_run_id(77, 3))
    assert (code, problem["kind"]) == (2, "NotFound")
    code, letters, _ = command(cluster, "dead", "list")
    assert (code, letters) == (0, [])
    code, problem, _ = command(cluster, "worker", "no_such_module:worker")
    assert (code, problem["kind"]) == (2, "InvalidInput")


@pytest.mark.parametrize("kind", ["scheduler", "worker"])
def test_a_process_without_its_database_says_so(cluster: Cluster, kind: str) -> None:
    """Exit code 1 and a problem, not a stack trace."""
    target = ["processes.cluster.handlers:tasks"] if kind == "worker" else []
    done = subprocess.run(
        [sys.executable, "-m", "mainspring.cli", kind, *target, "--json", "--dsn",
         "postgresql://nobody@127.0.0.1:1/none"],
        env={**environment(cluster), "PYTHONPATH": "tests"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert decode_line(done.stdout)["kind"] == "StoreUnavailable"
    assert "Traceback" not in done.stderr


def test_a_worker_killed_by_signal_leaves_no_heartbeat_behind(cluster: Cluster) -> None:
    """The child that beats ends with its worker, so the death is seen."""
    cluster.start_scheduler()
    worker = cluster.start_worker()
    holder_id = cluster.said["worker"]["holder_id"]
    os.kill(worker.pid, signal.SIGKILL)

    wait_for(
        "the holder declared dead",
        lambda: holder_id not in {h.holder_id for h in cluster.store.read_holders().holders},
    )


def test_a_scheduler_that_was_declared_dead_goes_on_with_a_new_id(cluster: Cluster) -> None:
    """It begins anew, takes the shards again, and firings go on."""
    cluster.start_scheduler()
    cluster.start_worker()
    before = cluster.said["scheduler"]["holder_id"]
    beats = {h.holder_id: h.beat for h in cluster.store.read_holders().holders}
    wait_for(
        "its death declared",
        lambda: any(cluster.store.declare_dead(before, beat) for beat in range(beats[before], 100)),
    )

    wait_for(
        "a new id",
        lambda: [
            h
            for h in cluster.store.read_holders().holders
            if h.kind == "scheduler" and h.holder_id != before
        ],
    )
    job_id = cluster.add(task="work", in_s=0.1)
    assert [r.status for r in cluster.wait_ended(job_id)] == [RunStatus.SUCCESS]
    assert not cluster.children[0].has_ended
