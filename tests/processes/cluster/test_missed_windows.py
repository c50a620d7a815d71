"""After an outage, in real processes: what runs, in which order, how fast, and what is recorded."""

from __future__ import annotations

import pytest

from mainspring.instants import US_PER_S
from mainspring.model import JobStatus, Run, RunStatus
from processes.cluster.stage import Cluster, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SLOT_US = 300 * US_PER_S
MISSED = 144


def set_back(cluster: Cluster, job_id: int) -> list[int]:
    """Let a job of every five minutes have been waiting since 144 slots ago; returns them.

    As if everything had been stopped since: its cursor stands at the first of them.
    """
    job = cluster.job(job_id)
    assert job is not None
    assert job.next_us is not None
    slots = [job.next_us - SLOT_US * back for back in range(MISSED, 0, -1)]
    with cluster.session() as session:
        session.execute(
            "UPDATE firings SET due_at = at, scheduled_at = at "
            "FROM (SELECT to_timestamp(%s) AS at) AS first WHERE firing_id = %s",
            (slots[0] // US_PER_S, job_id),
        )
    return slots


def of_status(runs: list[Run], status: RunStatus) -> list[Run]:
    return [run for run in runs if run.status is status]


def test_twelve_hours_of_a_five_minute_job_under_each_policy(cluster: Cluster) -> None:
    """Distinct slots, oldest first, all accounted for, and the next slot comes as ever.

    Source: github.com/kubernetes/kubernetes/issues/42649.
    """
    wait_for(
        "no slot to come while the processes start",
        lambda: 2 * US_PER_S < cluster.store.database_us() % SLOT_US < SLOT_US - 30 * US_PER_S,
        60,
    )
    wanted = {("SKIP", 100): 0, ("RUN_ONCE", 100): 1, ("RUN_ALL", 100): 100, ("RUN_ALL", 200): 144}
    jobs = {
        key: cluster.add(
            task="work",
            schedule="*/5 * * * *",
            missed_window=key[0],
            max_missed=key[1],
            misfire_grace_seconds=1,
        )
        for key in wanted
    }
    next_us = {key: cluster.job(job_id) for key, job_id in jobs.items()}
    slots = {key: set_back(cluster, job_id) for key, job_id in jobs.items()}
    cluster.start_scheduler()
    cluster.start_worker()
    for key, job_id in jobs.items():
        before = next_us[key]
        assert before is not None
        wait_for(
            f"{key} to be caught up",
            lambda job_id=job_id, at_us=before.next_us: (  # type: ignore[misc]
                (job := cluster.job(job_id)) is not None and job.next_us >= at_us
            ),
            90,
        )
    dropped = 0
    for key, count in wanted.items():
        runs = [run for run in cluster.runs(jobs[key]) if run.scheduled_us <= slots[key][-1]]
        ran = sorted(of_status(runs, RunStatus.SUCCESS), key=lambda run: run.started_us or 0)
        missed = of_status(runs, RunStatus.MISSED)
        assert [run.scheduled_us for run in ran] == (slots[key][-count:] if count else [])
        assert all(run.catch_up for run in ran)
        assert sum(run.missed_count for run in missed) == MISSED - count
        assert len(missed) == (1 if count < MISSED else 0)
        if missed:
            assert missed[0].scheduled_us == slots[key][0]
        dropped += MISSED - count
    assert cluster.metric("scheduler", "mainspring_missed_total") == MISSED * len(wanted)
    assert cluster.metric("scheduler", "mainspring_missed_dropped_total") == dropped
    assert cluster.metric("scheduler", "mainspring_large_catch_ups_total") == len(wanted)
    assert cluster.words("scheduler").count("large catch-up") == len(wanted)


def test_catch_up_keeps_its_pace_and_live_firings_theirs(cluster: Cluster) -> None:
    """Eighty missed runs at five a second and shard, beside a job of every second."""
    late = [cluster.add(task="work", schedule="@every 1h") for _ in range(80)]
    with cluster.session() as session:
        session.execute(
            "UPDATE firings SET due_at = clock_timestamp() - interval '10 min', "
            "scheduled_at = clock_timestamp() - interval '10 min' WHERE firing_id = ANY (%s)",
            ([int(job_id) for job_id in late],),
        )
    live = cluster.add(task="work", schedule="@every 1s")
    cluster.start_worker(MAINSPRING_CONCURRENCY="4")
    cluster.start_scheduler(MAINSPRING_CATCH_UP_RATE="5")
    wait_for(
        "the catch-up",
        lambda: all("success" in cluster.statuses(job_id) for job_id in late),
        60,
    )
    started: dict[int, list[int]] = {}
    for job_id in late:
        job = cluster.job(job_id)
        assert job is not None
        [run] = of_status(cluster.runs(job_id), RunStatus.SUCCESS)
        assert run.started_us is not None
        assert run.catch_up
        started.setdefault(job.shard, []).append(run.started_us)
    for shard, instants in started.items():
        # A second's worth at once, which may have waited for the worker to be heard of, and then
        # one each fifth of a second at the earliest.
        paced_s = (len(instants) - 5) / 5
        assert (max(instants) - min(instants)) / US_PER_S >= paced_s - 1, f"shard {shard}"
        assert paced_s > 1.5, "enough of them to tell"
    # What fell due meanwhile did not wait for the end of it.
    first_us, last_us = min(map(min, started.values())), max(map(max, started.values()))
    meanwhile = [
        run
        for run in cluster.runs(live)
        if first_us <= run.scheduled_us <= last_us - US_PER_S and run.started_us is not None
    ]
    assert meanwhile
    assert all(run.started_us < last_us for run in meanwhile if run.started_us is not None)


def test_a_paused_job_does_not_start_and_goes_on_when_it_is_resumed(cluster: Cluster) -> None:
    """Nothing of the pause is run or recorded, and each second after it once."""
    job_id = cluster.add(
        task="work", schedule="@every 1s", missed_window="RUN_ALL", misfire_grace_seconds=0
    )
    cluster.start_scheduler()
    cluster.start_worker()
    wait_for("two runs", lambda: cluster.statuses(job_id).count("success") >= 2)
    paused = cluster.calls.pause(cluster.name_of(job_id))
    assert (paused.status, paused.next_run_at) == (JobStatus.PAUSED.value, None)
    paused_us = cluster.store.database_us()
    wait_for("three seconds", lambda: cluster.store.database_us() > paused_us + 3 * US_PER_S)
    resumed_us = cluster.store.database_us()
    cluster.calls.resume(cluster.name_of(job_id))
    count = cluster.statuses(job_id).count("success")
    wait_for("three more", lambda: cluster.statuses(job_id).count("success") >= count + 3)

    ended = [run for run in cluster.runs(job_id) if run.status is not RunStatus.PENDING]
    scheduled = [run.scheduled_us for run in ended if run.status is RunStatus.SUCCESS]
    assert len(set(scheduled)) == len(scheduled)
    assert not [at_us for at_us in scheduled if paused_us < at_us <= resumed_us]
    first_us = min(at_us for at_us in scheduled if at_us > resumed_us)
    assert first_us - resumed_us <= US_PER_S
    assert not of_status(ended, RunStatus.MISSED)
