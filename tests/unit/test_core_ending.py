"""What becomes of a firing when its run ends."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ending import UNREADABLE_US, EndKind, Report, end_run, end_success
from mainspring.instants import INFINITY_US
from mainspring.model import (
    Backoff,
    Definition,
    FiringId,
    HolderId,
    Job,
    JobId,
    JobStatus,
    RunStatus,
    Trigger,
)
from mainspring.store.protocol import Action, StartedRun
from unit.core_stage import EPOCH_US, S

NEXT_US = EPOCH_US + 10 * S


def job(status: JobStatus = JobStatus.ACTIVE, **changes: object) -> Job:
    definition = Definition(
        name="j", task="work", schedule="@every 10s", retry_backoff=Backoff.FIXED
    )
    return Job(
        job_id=JobId(1),
        shard=0,
        rev=1,
        status=status,
        definition=msgspec.structs.replace(definition, **changes),
        anchor_us=0,
        is_once=False,
        created_us=0,
        updated_us=0,
        next_us=EPOCH_US,
    )


def started(attempt: int = 1, spent: int = 0, trigger: Trigger = Trigger.SCHEDULE) -> StartedRun:
    return StartedRun(FiringId(1), JobId(1), 4, 2, attempt, spent, trigger, EPOCH_US, HolderId(5))


def step(
    kind: EndKind,
    definition: Job | None,
    *,
    run: StartedRun | None = None,
    next_us: int = NEXT_US,
) -> tuple[RunStatus, Action, bool]:
    end = end_run(run or started(), definition, Report(kind), next_us=next_us, jitter01=0.5)
    return end.status, end.action, end.is_letter


def test_the_steps_of_an_active_recurring_job() -> None:
    """A retry keeps the occurrence; an end moves the cursor; a death leaves a letter."""
    three = job(max_retries=3)
    last = started(attempt=3)

    assert (RunStatus.SUCCESS, Action.MOVE, False) == step("success", three)
    assert (RunStatus.FAILED, Action.RETRY, False) == step("failed", three)
    assert (RunStatus.DEAD, Action.MOVE, True) == step("failed", three, run=last)
    assert (RunStatus.DEAD, Action.MOVE, True) == step("dead", three)
    assert (RunStatus.LOST, Action.RETRY, False) == step("lost", three)
    assert (RunStatus.LOST, Action.MOVE, True) == step("lost", three, run=last)


def test_attempts_before_a_redrive_do_not_count() -> None:
    three = job(max_retries=3)

    assert RunStatus.FAILED is step("failed", three, run=started(attempt=5, spent=3))[0]
    assert RunStatus.DEAD is step("failed", three, run=started(attempt=6, spent=3))[0]


def test_a_one_off_an_extra_firing_and_a_deleted_job_are_removed() -> None:
    manual = started(trigger=Trigger.MANUAL)

    assert Action.REMOVE is step("success", job(), next_us=INFINITY_US)[1]
    assert Action.REMOVE is step("success", job(), run=manual)[1]
    assert Action.RETRY is step("failed", job(), run=manual)[1]
    assert (RunStatus.SUCCESS, Action.REMOVE, False) == step("success", job(JobStatus.DELETED))
    assert (RunStatus.DEAD, Action.REMOVE, False) == step("failed", job(JobStatus.DELETED))
    assert (RunStatus.LOST, Action.REMOVE, False) == step("lost", None, next_us=INFINITY_US)


def test_a_paused_job_and_an_unreadable_schedule_are_parked() -> None:
    assert (RunStatus.SUCCESS, Action.PARK, False) == step("success", job(JobStatus.PAUSED))
    assert (RunStatus.FAILED, Action.PARK, False) == step("failed", job(JobStatus.PAUSED))
    assert (RunStatus.LOST, Action.PARK, False) == step("lost", job(JobStatus.PAUSED))
    last = job(JobStatus.PAUSED, max_retries=1)
    assert (RunStatus.DEAD, Action.PARK, True) == step("failed", last)
    assert (RunStatus.DEAD, Action.PARK, True) == step("dead", job(), next_us=UNREADABLE_US)


def test_a_paused_one_off_keeps_its_attempts_or_is_over() -> None:
    """Its extra firings go on: somebody asked for them while it was paused, or before."""
    once = msgspec.structs.replace(job(JobStatus.PAUSED), is_once=True)
    over = {"next_us": INFINITY_US}
    assert (RunStatus.FAILED, Action.HOLD, False) == step("failed", once, **over)
    assert (RunStatus.SUCCESS, Action.REMOVE, False) == step("success", once, **over)
    assert (RunStatus.DEAD, Action.REMOVE, True) == step("dead", once, **over)
    redriven = started(trigger=Trigger.REDRIVE)
    assert Action.RETRY is step("failed", once, run=redriven)[1]


@pytest.mark.parametrize(("after_us", "delay_us"), [(None, 5 * S), (7 * S, 7 * S), (0, 0)])
def test_the_handlers_own_delay_goes_before_the_jobs_backoff(
    after_us: int | None, delay_us: int
) -> None:
    report = Report("failed", error="e", retry_after_us=after_us)
    end = end_run(started(), job(), report, next_us=NEXT_US, jitter01=0.5)

    assert (Action.RETRY, delay_us, 0) == (end.action, end.delay_us, end.next_us)


@given(
    kind=st.sampled_from(["success", "failed", "dead", "lost"]),
    status=st.sampled_from([*JobStatus, None]),
    attempt=st.integers(1, 12),
    spent=st.integers(0, 11),
    max_retries=st.integers(0, 10),
    trigger=st.sampled_from(Trigger),
    next_us=st.sampled_from([NEXT_US, INFINITY_US, UNREADABLE_US]),
)
def test_every_end_is_of_its_lease_and_makes_sense(
    kind: EndKind,
    status: JobStatus | None,
    attempt: int,
    spent: int,
    max_retries: int,
    trigger: Trigger,
    next_us: int,
) -> None:
    """Only MOVE has a next time, and a real one; a letter means no more attempts and a live job."""
    definition = None if status is None else job(status, max_retries=max_retries)
    run = started(max(attempt, spent + 1), spent, trigger)
    end = end_run(run, definition, Report(kind), next_us=next_us, jitter01=0.0)

    assert (run.firing_id, run.fence, run.rev) == (end.firing_id, end.fence, end.rev)
    assert (end.next_us == NEXT_US) == (end.action is Action.MOVE)
    assert not (end.is_letter and (end.action is Action.RETRY or kind == "success"))
    if end.action is Action.RETRY:
        assert status is JobStatus.ACTIVE or trigger is not Trigger.SCHEDULE
        assert run.attempt - spent < max_retries
    if status in {JobStatus.DELETED, None}:
        assert (end.action, end.is_letter) == (Action.REMOVE, False)


@pytest.mark.parametrize(
    ("next_us", "action", "stored_us"),
    [
        (NEXT_US, Action.MOVE, NEXT_US),
        (INFINITY_US, Action.REMOVE, 0),
        (UNREADABLE_US, Action.PARK, 0),
    ],
)
def test_a_success_takes_its_next_step_from_its_frame(
    next_us: int, action: Action, stored_us: int
) -> None:
    end = end_success(1, 4, 2, 1, EPOCH_US, next_us, Report("success", output="o"))

    assert (RunStatus.SUCCESS, action, stored_us, "o") == (
        end.status,
        end.action,
        end.next_us,
        end.output,
    )
