"""Jobs changed, paused and resumed in a driven engine, by a test and by their own handlers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring import Context, Dead, Engine, SyncEngine, Worker
from mainspring.errors import Conflict, InvalidInput, PreconditionFailed
from mainspring.jobs import Jobs
from mainspring.shown import RunOut
from mainspring.testing import DrivenEngine, driven_engine

__all__ = ["driven_engine"]  # the fixture, as pytest_plugins would bring it

NOON = "2026-03-08T12:00:00Z"


class Report(msgspec.Struct):
    kind: str


def times(runs: list[RunOut]) -> list[str]:
    return [str(each.scheduled_at)[11:16] for each in runs]


def worker_of(**handlers: Any) -> Worker:
    worker = Worker()
    for name, handler in handlers.items():
        worker.task(name)(handler)
    return worker


def noop(ctx: Context, payload: Any) -> Any:
    return payload


def test_a_change_is_seen_by_what_is_not_started_yet(driven_engine: Any) -> None:
    """Another payload at the same times; another schedule from now on, nothing of it before."""
    driven = driven_engine(worker_of(noop=noop), now=NOON)
    job = driven.jobs.add(name="noop", schedule="@hourly", payload=1)
    driven.advance(minutes=90)
    changed = driven.jobs.update(job.job_id, payload=2, max_retries=1)
    assert (changed.next_run_at, changed.payload, changed.rev) == ("2026-03-08T14:00:00Z", 2, 2)
    changed = driven.jobs.update(job.job_id, schedule="15 * * * *", if_rev=changed.rev)
    assert changed == driven.jobs.get(job.job_id)
    assert changed.next_run_at == "2026-03-08T14:15:00Z"  # it is 13:30
    runs = driven.advance(hours=2)

    assert times(runs) == ["14:15", "15:15"]
    assert [run.output for run in runs] == ["2", "2"]


def test_what_passes_during_a_pause_is_not_missed(driven_engine: Any) -> None:
    """And a second pause or resumption changes nothing."""
    driven = driven_engine(worker_of(noop=noop), now=NOON)
    job = driven.jobs.add(name="noop", schedule="@hourly", missed_window="RUN_ALL")
    driven.advance(minutes=90)
    paused = driven.jobs.pause(job.job_id)
    assert (paused.status, paused.next_run_at) == ("paused", None)
    assert driven.jobs.pause(job.job_id) == paused
    assert driven.advance(hours=5) == []
    resumed = driven.jobs.resume(job.job_id)
    assert (resumed.status, resumed.next_run_at) == ("active", "2026-03-08T19:00:00Z")
    assert driven.jobs.resume(job.job_id) == resumed

    (run,) = driven.advance(hours=1)
    assert (times([run]), run.catch_up) == (["19:00"], False)
    assert {each.status for each in driven.runs(job.job_id)} == {"pending", "success"}


def test_a_rev_that_was_passed_by_changes_nothing(driven_engine: Any) -> None:
    driven = driven_engine(worker_of(noop=noop), now=NOON)
    job_id = driven.jobs.add(name="noop", schedule="@hourly").job_id
    seen = driven.jobs.update(job_id, timeout_seconds=7)
    with pytest.raises(PreconditionFailed, match="is at rev 2, not 1"):
        driven.jobs.update(job_id, timeout_seconds=8, if_rev=1)
    for call in (driven.jobs.pause, driven.jobs.resume):
        with pytest.raises(PreconditionFailed):
            call(job_id, if_rev=3)

    assert driven.jobs.get(job_id) == seen


def test_a_one_off_that_passed_while_paused_runs_when_it_is_resumed(driven_engine: Any) -> None:
    """Under SKIP it is refused instead."""
    driven = driven_engine(worker_of(noop=noop), now=NOON)
    at = "2026-03-08T13:00:00Z"
    one = driven.jobs.add(name="noop", schedule=at)
    other = driven.jobs.add(name="noop", schedule=at, missed_window="SKIP")
    for job in (one, other):
        driven.jobs.pause(job.job_id)
    assert driven.advance(hours=2) == []
    with pytest.raises(Conflict, match="passed while it was paused, and missed_window SKIP"):
        driven.jobs.resume(other.job_id)
    assert driven.jobs.resume(one.job_id).next_run_at == at
    (run,) = driven.advance()

    assert (run.job_id, run.scheduled_at, run.catch_up) == (one.job_id, at, False)


def test_a_redrive_of_a_paused_job_runs(driven_engine: Any) -> None:
    """It is asked for by hand; the schedule stays where it is."""

    def die(ctx: Context, payload: Any) -> str:
        if ctx.attempt == 1:
            raise Dead("no paper")
        return str(ctx.previous_scheduled_at)

    driven = driven_engine(worker_of(die=die), now=NOON)
    job = driven.jobs.add(name="die", schedule="@hourly")
    (died,) = driven.advance(hours=1)
    driven.jobs.pause(job.job_id)
    driven.jobs.redrive(died.run_id)
    (run,) = driven.advance(hours=5)

    assert (run.status, run.scheduled_at, run.output) == (
        "success",
        "2026-03-08T13:00:00Z",
        '"None"',
    )
    assert driven.jobs.get(job.job_id).status == "paused"


def test_an_attempt_that_fails_during_a_pause_is_no_dead_letter(driven_engine: Any) -> None:
    """Nothing of it follows; a one-off keeps the attempts it has left until it is resumed."""
    worker = Worker()
    engine_jobs: list[Any] = []

    @worker.task("fail")
    def fail(ctx: Context, payload: Any) -> int:
        if ctx.attempt == 1:
            engine_jobs[0].pause(ctx.job_id)
            raise RuntimeError
        return ctx.attempt

    driven = driven_engine(worker, now=NOON)
    engine_jobs.append(driven.jobs)
    hourly = driven.jobs.add(name="fail", schedule="@hourly").job_id
    once = driven.jobs.add(name="fail", schedule="2026-03-08T13:00:00Z").job_id
    runs = driven.advance(hours=9)
    assert [run.status for run in runs] == ["failed", "failed"]
    assert driven.dead_letters() == []
    for job_id in (hourly, once):
        driven.jobs.resume(job_id)
    (run,) = driven.advance(minutes=1)

    assert (run.job_id, run.output, run.scheduled_at) == (once, "2", "2026-03-08T13:00:00Z")
    assert driven.jobs.get(hourly).next_run_at == "2026-03-08T22:00:00Z"


@pytest.mark.parametrize("kind", [Engine, SyncEngine])
def test_a_handler_changes_pauses_and_resumes_through_its_engine(kind: Any) -> None:
    """Its own job, too: the run that goes on ends as it ends."""
    engine = kind("postgresql://nobody@127.0.0.1:1/nowhere")
    is_async = kind is Engine
    step = iter(["update", "pause"])

    @engine.task("own")
    async def own(ctx: Context, payload: Any) -> Any:
        todo = next(step)
        if todo == "update":
            made = engine.jobs.update(ctx.job_id, payload="changed")
        else:
            made = engine.jobs.pause(ctx.job_id)
        job = await made if is_async else made
        return [payload, job.status]

    with DrivenEngine(engine, now=NOON) as driven:
        job_id = driven.jobs.add(name="own", schedule="@hourly", payload="first").job_id
        runs = driven.advance(hours=9)
        assert driven.jobs.get(job_id).status == "paused"
        assert driven.jobs.resume(job_id).next_run_at == "2026-03-08T22:00:00Z"

    assert [(run.status, run.output) for run in runs] == [
        ("success", '["first","active"]'),
        ("success", '["changed","paused"]'),
    ]


def test_a_change_is_held_against_the_handler_it_names(driven_engine: Any) -> None:
    """A payload against its type, and a task against those there are; what is as it was is not."""

    def report(ctx: Context, payload: Report) -> None: ...

    worker = worker_of(report=report, noop=noop)
    driven = driven_engine(worker, now=NOON)
    job_id = driven.jobs.add(name="report", schedule="@hourly", payload=Report("x")).job_id
    with pytest.raises(InvalidInput, match="payload is not Report") as refused:
        driven.jobs.update(job_id, payload={"kind": 1})
    assert refused.value.pointer == "/payload/kind"
    with pytest.raises(InvalidInput, match="for task 'nop'") as unknown:
        driven.jobs.update(job_id, task="nop")
    assert (unknown.value.pointer, "Did you mean 'noop'?" in str(unknown.value.hint)) == (
        "/task",
        True,
    )
    assert driven.jobs.get(job_id).rev == 1
    driven.jobs.update(job_id, task="noop", payload={"kind": 1})
    with pytest.raises(InvalidInput, match="payload is not Report"):
        driven.jobs.update(job_id, task="report")

    # One that came over HTTP with a payload that does not fit can still be changed otherwise.
    other = Jobs(driven._drive.store).add(name="report", schedule="@hourly", payload=5)
    assert driven.jobs.update(other.job_id, max_retries=1, name="n").task == "report"


def test_a_handler_is_told_which_firing_ran_before(driven_engine: Any) -> None:
    """The one that ran, over a pause and a failed attempt too; none before the first."""
    seen: list[tuple[str, str | None, int]] = []

    def note(ctx: Context, payload: Any) -> None:
        before = ctx.previous_scheduled_at
        seen.append((f"{ctx.scheduled_at:%H:%M}", before and f"{before:%H:%M}", ctx.attempt))
        if len(seen) == 2:
            raise RuntimeError

    driven = driven_engine(worker_of(note=note), now=NOON)
    job = driven.jobs.add(
        name="note", schedule="@hourly", retry_backoff="fixed", retry_base_seconds=60
    )
    driven.advance(hours=2, minutes=30)
    driven.jobs.pause(job.job_id)
    driven.advance(hours=5)
    driven.jobs.resume(job.job_id)
    driven.advance(hours=1)

    assert seen == [
        ("13:00", None, 1), ("14:00", "13:00", 1), ("14:00", "13:00", 2), ("20:00", "14:00", 1),
    ]  # fmt: skip
