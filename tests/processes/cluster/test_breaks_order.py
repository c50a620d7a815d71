"""Odd order and odd timing, with real processes."""

from __future__ import annotations

import os
import signal
import threading

from mainspring.instants import US_PER_S, format_instant
from mainspring.model import JobId, RunStatus
from mainspring.registration import job_from, job_in
from processes.cluster.stage import Cluster, wait_for

DELETED_COUNT = 300
DELETERS = 4


def test_a_standby_takes_over_within_seconds_of_a_kill(cluster: Cluster) -> None:
    """A worker that was there first, one scheduler killed, the other goes on: nothing is lost."""
    cluster.start_worker()
    first = cluster.start_scheduler("first", MAINSPRING_FRAME_FIRINGS_MAX="1")
    wait_for("terms", lambda: all(s.leader for s in cluster.store.read_shards()))
    cluster.start_scheduler("second")
    past = [
        cluster.add(task="work", schedule=schedule)
        for schedule in ("2025-01-01T00:00:00Z", "1970-01-01T00:00:01Z")
    ]
    never = cluster.add(task="work", schedule="9999-12-31T23:59:59Z")
    for job_id in past:
        assert [run.status for run in cluster.wait_ended(job_id)] == [RunStatus.SUCCESS]
    jobs = [cluster.add(task="work", in_s=1) for _ in range(50)]
    os.kill(first.pid, signal.SIGKILL)

    for job_id in jobs:
        (run,) = cluster.wait_ended(job_id)
        assert run.status is RunStatus.SUCCESS
        assert (run.started_us or 0) - run.scheduled_us < 4 * US_PER_S
    assert len([line for line in cluster.log() if line.event == "start"]) == 52
    assert cluster.statuses(never) == ["pending"]


def test_nothing_starts_after_its_deletion_was_acknowledged(cluster: Cluster) -> None:
    """By database time, with jobs due within one second deleted around that second."""
    cluster.start_scheduler()
    cluster.start_worker()
    now_us = cluster.store.database_us()
    first_us = now_us + 2 * US_PER_S
    jobs = cluster.store.add_jobs(
        [
            job_from(
                job_in(
                    {
                        "name": "short-lived",
                        "task": "work",
                        "schedule": format_instant(first_us + n * US_PER_S // DELETED_COUNT),
                    }
                ),
                now_us,
            )
            for n in range(DELETED_COUNT)
        ]
    )
    acknowledged_us: dict[JobId, int] = {}
    waiting = threading.Event()

    def delete(mine: list[JobId], scheduled_us: list[int]) -> None:
        for job_id, at_us in zip(mine, scheduled_us, strict=True):
            # From a little before its time to a little after it.
            early_us = (int(job_id) * 7 % 40 - 20) * 1_000
            waiting.wait(max(0, at_us + early_us - cluster.store.database_us()) / US_PER_S)
            if cluster.store.delete_job(job_id):
                acknowledged_us[job_id] = cluster.store.database_us()

    times_us = [first_us + n * US_PER_S // DELETED_COUNT for n in range(DELETED_COUNT)]
    threads = [
        threading.Thread(target=delete, args=(jobs[n::DELETERS], times_us[n::DELETERS]))
        for n in range(DELETERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for("every job's end", lambda: not cluster.store.get_jobs(jobs))

    started_us = {
        job_id: run.started_us for job_id in jobs for run in cluster.runs(job_id) if run.started_us
    }
    assert acknowledged_us, "all were too late"
    assert set(jobs) == set(started_us) | set(acknowledged_us)
    late = [
        job_id for job_id, at_us in started_us.items() if at_us > acknowledged_us.get(job_id, at_us)
    ]
    assert late == []
