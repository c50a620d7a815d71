"""Steps of the wall clock: of the hosts of scheduler and worker, and of the database.

Source: github.com/robfig/cron/pull/480 (waits until wall time has caught up),
github.com/agronholm/apscheduler/issues/351, github.com/node-schedule/node-schedule/issues/431 (all
skipped times run in a burst).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import FAST_SETTINGS
from mainspring.devpg import DevPostgres
from mainspring.instants import US_PER_S
from mainspring.model import Run, RunStatus
from processes.clocks.shifted import ShiftedClock
from processes.cluster.stage import Cluster, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

HOUR_S = 3_600
LATE_US_MAX = 10 * US_PER_S


@pytest.fixture
def clock() -> Iterator[ShiftedClock]:
    made = ShiftedClock()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def shifted_dsn(clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database whose server has the shifted clock."""
    with monkeypatch.context() as patch:
        for name, value in clock.environment.items():
            patch.setenv(name, value)
        server = DevPostgres(settings=FAST_SETTINGS).start()
    try:
        yield server.create_database("clocks")
    finally:
        server.stop("immediate")


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[list[Cluster]]:
    """Clusters that a test made, to be stopped."""
    made: list[Cluster] = []
    yield made
    for cluster in made:
        cluster.stop()


def successes(cluster: Cluster, job_id: int) -> list[Run]:
    return [run for run in cluster.runs(job_id) if run.status is RunStatus.SUCCESS]


def wait_more(cluster: Cluster, job_id: int, more: int, timeout_s: float = 30) -> None:
    """Wait until so many more runs succeeded."""
    wanted = len(successes(cluster, job_id)) + more
    wait_for(f"{more} more runs", lambda: len(successes(cluster, job_id)) >= wanted, timeout_s)


def check_once_and_not_early(runs: list[Run]) -> None:
    """Each occurrence ran once and not before its time, by the database's clock."""
    assert {1} == set(Counter(run.scheduled_us for run in runs).values())
    for run in runs:
        assert run.started_us is not None
        assert 0 <= run.started_us - run.scheduled_us < LATE_US_MAX


def test_steps_of_the_hosts_clock_change_nothing(
    dsn: str, clock: ShiftedClock, clusters: list[Cluster], tmp_path: Path
) -> None:
    """Two hours back, two hours ahead and home again: each second's occurrence, once."""
    clusters.append(cluster := Cluster(dsn, tmp_path))
    clock.shift_s(-2 * HOUR_S)
    assert abs(clock.read_us() - time.time_ns() // 1_000 + 2 * HOUR_S * US_PER_S) < 60 * US_PER_S
    clock.shift_s(0)
    cluster.start_scheduler(**clock.environment)
    cluster.start_worker(**clock.environment)
    job_id = cluster.add(task="work", schedule="@every 1s")
    for shift_s in (0, -2 * HOUR_S, 2 * HOUR_S, 0):
        clock.shift_s(shift_s)
        wait_more(cluster, job_id, 3)

    runs = successes(cluster, job_id)
    check_once_and_not_early(runs)
    scheduled = sorted(run.scheduled_us for run in runs)
    assert scheduled == list(range(scheduled[0], scheduled[-1] + 1, US_PER_S))
    assert len(scheduled) >= 12
    assert "dead" not in cluster.words("scheduler")


def test_a_database_clock_that_is_set_back_fires_no_occurrence_twice(
    shifted_dsn: str, clock: ShiftedClock, clusters: list[Cluster], tmp_path: Path
) -> None:
    """It goes on when the clock passes the last occurrence that ran, and not sooner."""
    clusters.append(cluster := Cluster(shifted_dsn, tmp_path))
    cluster.start_scheduler()
    cluster.start_worker()
    job_id = cluster.add(task="work", schedule="@every 1s")
    wait_more(cluster, job_id, 3)
    last_us = max(run.scheduled_us for run in successes(cluster, job_id))
    clock.shift_s(-6)
    assert cluster.store.database_us() < last_us
    wait_more(cluster, job_id, 5)

    runs = successes(cluster, job_id)
    check_once_and_not_early(runs)
    scheduled = sorted(run.scheduled_us for run in runs)
    assert scheduled == list(range(scheduled[0], scheduled[-1] + 1, US_PER_S))


def test_a_database_clock_that_is_set_ahead_misses_what_it_skips(
    shifted_dsn: str, clock: ShiftedClock, clusters: list[Cluster], tmp_path: Path
) -> None:
    """Ten minutes at once: one run for all that was missed, or none, and then each second again."""
    clusters.append(cluster := Cluster(shifted_dsn, tmp_path))
    cluster.start_scheduler()
    cluster.start_worker()
    once = cluster.add(task="work", schedule="@every 1s", misfire_grace_seconds=10)
    skip = cluster.add(
        task="work", schedule="@every 1s", misfire_grace_seconds=10, missed_window="SKIP"
    )
    for job_id in (once, skip):
        wait_more(cluster, job_id, 2)
    clock.shift_s(600)
    for job_id in (once, skip):
        wait_more(cluster, job_id, 5)

    for job_id, catch_ups in ((once, 1), (skip, 0)):
        runs = successes(cluster, job_id)
        assert {1} == set(Counter(run.scheduled_us for run in runs).values())
        assert catch_ups == sum(run.catch_up for run in runs)
        missed = [run for run in cluster.runs(job_id) if run.status is RunStatus.MISSED]
        assert 580 <= sum(run.missed_count for run in missed) <= 620
        # What ran and what is recorded as missed are all there is, without a gap.
        scheduled = [run.scheduled_us for run in runs]
        span = (max(scheduled) - min(scheduled)) // US_PER_S + 1
        assert span == len(scheduled) + sum(run.missed_count for run in missed)
