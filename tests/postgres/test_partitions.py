"""The history's daily partitions: made ahead, filled by the clock, dropped."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from mainspring.instants import US_PER_DAY
from mainspring.model import RunStatus
from mainspring.store.protocol import Acceptance, Action, RunEnd
from postgres.field import Field, new_job

MIDNIGHT_US = 1_800_057_600_000_000  # 2027-01-16T00:00:00Z


def rows_by_partition(field: Field) -> dict[str, int]:
    with psycopg.connect(field.dsn) as connection:
        return dict(
            connection.execute(
                "SELECT tableoid::regclass::text, count(*) FROM job_runs GROUP BY 1"
            ).fetchall()
        )


def run_once(field: Field) -> None:
    """Take one firing through its life, with an end recorded now."""
    store = field.store
    (job_id,) = store.add_jobs([new_job(field.now_us - 1)])
    batch = store.claim_ids(
        0, field.terms[0], field.leader, np.array([job_id]), np.array([-1]), until_us=field.now_us
    )
    started = store.start(field.worker, batch.firing_id, batch.fence, np.array([30]), slack_s=30)
    end = RunEnd(
        firing_id=int(started.firing_id[0]),
        fence=int(started.fence[0]),
        rev=1,
        job_id=job_id,
        scheduled_us=field.now_us - 1,
        status=RunStatus.SUCCESS,
        action=Action.MOVE,
        next_us=field.now_us + US_PER_DAY,
    )
    assert store.complete([end]).acceptances == [Acceptance.ACCEPTED]


def test_runs_on_both_sides_of_midnight_land_in_their_own_days_partition(field: Field) -> None:
    field.now_us = MIDNIGHT_US - 1
    run_once(field)
    field.now_us = MIDNIGHT_US
    run_once(field)
    assert rows_by_partition(field) == {"job_runs_20270115": 1, "job_runs_20270116": 1}
    assert field.store.default_partition_rows() == 0


def test_partitions_are_made_ahead_and_making_them_again_makes_none(field: Field) -> None:
    assert field.store.make_partitions(days_ahead=7) == 6  # today and tomorrow are there
    assert field.store.make_partitions(days_ahead=7) == 0
    field.now_us += US_PER_DAY
    assert field.store.make_partitions(days_ahead=7) == 1


def test_many_may_make_partitions_at_once(field: Field) -> None:
    stores = [field.open_store() for _ in range(6)]
    start = threading.Barrier(len(stores))

    def make(index: int) -> int:
        start.wait()
        return stores[index].make_partitions(days_ahead=5)

    with ThreadPoolExecutor(len(stores)) as threads:
        assert sorted(threads.map(make, range(len(stores)))) == [0, 0, 0, 0, 0, 4]


def test_a_run_without_its_partition_is_kept_counted_and_moved_when_the_partition_comes(
    field: Field,
) -> None:
    field.now_us += 30 * US_PER_DAY
    run_once(field)
    assert rows_by_partition(field) == {"job_runs_default": 1}
    assert field.store.default_partition_rows() == 1
    assert field.store.make_partitions(days_ahead=0) == 1
    assert rows_by_partition(field) == {"job_runs_20270214": 1}
    assert field.store.default_partition_rows() == 0


def test_partitions_older_than_the_kept_days_are_dropped_with_their_runs(field: Field) -> None:
    run_once(field)
    field.now_us += 10 * US_PER_DAY
    field.store.make_partitions(days_ahead=0)
    run_once(field)
    assert field.store.drop_partitions(history_days=10) == 0
    assert field.store.drop_partitions(history_days=9) == 1
    assert rows_by_partition(field) == {"job_runs_20270125": 1}
    assert field.store.drop_partitions(history_days=9) == 0


def test_dropping_waits_briefly_at_a_time_so_that_completions_pass(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    field.now_us += 10 * US_PER_DAY
    field.store.make_partitions(days_ahead=0)
    with psycopg.connect(field.dsn) as reader, ThreadPoolExecutor(1) as thread:
        reader.execute("SELECT count(*) FROM job_runs")
        dropping = thread.submit(field.store.drop_partitions, history_days=0)
        run_once(field)
        assert not dropping.done()
        reader.rollback()
        assert dropping.result(timeout=30) == 2
