"""What becomes of a run, by real processes: success, failure, timeout, Dead, Retry, nobody."""

from __future__ import annotations

from mainspring.model import RunStatus, format_job_id
from processes.cluster.stage import OTHER_HANDLERS, Cluster, wait_for


def test_every_outcome_is_recorded_and_follows_the_policy(cluster: Cluster) -> None:
    """A handler that raises, hangs, gives up or asks for more never stays running."""
    cluster.start_scheduler()
    cluster.start_worker()
    good = cluster.add(task="work", in_s=0.5, payload={"a": [1, "ü"]})
    broken = cluster.add(task="raise", in_s=0.5, max_retries=2)
    flaky = cluster.add(task="flaky", in_s=0.5, max_retries=3, payload={"failures": 2})
    hanging = cluster.add(task="hang", in_s=0.5, max_retries=2, timeout_seconds=1)
    stuck = cluster.add(task="hang-thread", in_s=0.5, max_retries=1, timeout_seconds=1)
    dead = cluster.add(task="dead", in_s=0.5, max_retries=5)
    again = cluster.add(task="retry-after", in_s=0.5)

    assert [r.status for r in cluster.wait_ended(good)] == [RunStatus.SUCCESS]
    assert cluster.runs(good)[0].output == '{"a":[1,"ü"]}'
    assert [r.status for r in cluster.wait_ended(broken)] == [RunStatus.FAILED, RunStatus.DEAD]
    error = cluster.runs(broken)[0].error
    assert error is not None
    assert "broken" in error
    assert "\x00" not in error
    flaky_runs = cluster.wait_ended(flaky)
    assert [r.status for r in flaky_runs] == [
        RunStatus.FAILED,
        RunStatus.FAILED,
        RunStatus.SUCCESS,
    ]
    assert [r.attempt for r in flaky_runs] == [1, 2, 3]
    assert len({r.scheduled_us for r in flaky_runs}) == 1
    hanging_runs = cluster.wait_ended(hanging)
    assert [r.status for r in hanging_runs] == [RunStatus.FAILED, RunStatus.DEAD]
    assert "timed out" in (hanging_runs[0].error or "")
    assert [r.status for r in cluster.wait_ended(stuck)] == [RunStatus.DEAD]
    assert [r.status for r in cluster.wait_ended(dead)] == [RunStatus.DEAD]
    again_runs = cluster.wait_ended(again)
    assert [r.status for r in again_runs] == [RunStatus.FAILED, RunStatus.SUCCESS]
    assert (again_runs[1].started_us or 0) - (again_runs[0].finished_us or 0) >= 200_000

    keys = {line.key for line in cluster.log() if line.job_id == format_job_id(flaky)}
    assert keys == {f"{format_job_id(flaky)}:{flaky_runs[0].scheduled_us // 1_000_000}"}
    letters = {letter.job_id for letter in cluster.store.list_dead_letters(limit=100)}
    assert letters == {broken, hanging, stuck, dead}
    # A one-off is gone after its end; one with a dead letter stays until that is gone.
    assert cluster.job(good) is None
    assert cluster.job(broken) is not None
    assert cluster.metric("worker", "mainspring_dead_total") == 4


def test_a_task_without_a_worker_waits_visibly_and_burns_no_attempt(cluster: Cluster) -> None:
    """Nobody knows the task: it is pending and counted; the first worker that does runs it."""
    cluster.start_scheduler()
    cluster.start_worker()
    job_id = cluster.add(task="stranger", in_s=0.2)
    wait_for("a waiting firing", lambda: cluster.metric("scheduler", "mainspring_waiting") == 1)

    assert cluster.statuses(job_id) == ["pending"]
    cluster.start_worker("other", OTHER_HANDLERS)
    runs = cluster.wait_ended(job_id)
    assert [(r.status, r.attempt) for r in runs] == [(RunStatus.SUCCESS, 1)]


def test_a_repeating_job_keeps_its_rhythm(cluster: Cluster) -> None:
    """Every second's occurrence runs once, none early, each computed from the one before."""
    cluster.start_scheduler()
    cluster.start_worker()
    job_id = cluster.add(task="work", schedule="@every 1s")
    wait_for(
        "five runs",
        lambda: cluster.statuses(job_id).count("success") >= 5,
    )
    runs = [run for run in cluster.runs(job_id) if run.status is RunStatus.SUCCESS]

    times = [run.scheduled_us for run in runs]
    assert times == list(range(times[0], times[0] + len(times) * 1_000_000, 1_000_000))
    assert all((run.started_us or 0) >= run.scheduled_us for run in runs)


def test_a_job_deleted_while_it_runs_ends_with_its_true_status(cluster: Cluster) -> None:
    """The run is recorded, nothing follows, and the definition goes with it."""
    cluster.start_scheduler()
    cluster.start_worker()
    job_id = cluster.add(task="slow", schedule="@every 1s", payload={"seconds": 2})
    wait_for("a running run", lambda: "running" in cluster.statuses(job_id))
    assert cluster.store.delete_job(job_id)

    wait_for("the run's end", lambda: cluster.statuses(job_id) == ["success"])
    assert cluster.job(job_id) is None
    starts = [line for line in cluster.log() if line.event == "start"]
    assert len(starts) == 1


def test_a_dead_letter_that_is_redriven_runs_again_with_its_key(cluster: Cluster) -> None:
    """Attempts count on, the scheduled instant and the key stay, the job goes at the end."""
    cluster.start_scheduler()
    cluster.start_worker()
    job_id = cluster.add(task="flaky", in_s=0.2, max_retries=1, payload={"failures": 1})
    dead = cluster.wait_ended(job_id)[0]
    assert dead.status is RunStatus.DEAD
    cluster.store.redrive(dead.firing_id, dead.fence)

    wait_for("a success", lambda: "success" in cluster.statuses(job_id))
    second = cluster.runs(job_id)[-1]
    assert (second.attempt, second.scheduled_us) == (2, dead.scheduled_us)
    assert len({line.key for line in cluster.log()}) == 1
    assert cluster.job(job_id) is None
