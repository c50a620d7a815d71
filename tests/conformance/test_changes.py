"""Facts about changed, paused and resumed jobs, for every store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from conformance.stage import HOUR_US, START_US, Stage, ending
from mainspring.errors import InvalidInput
from mainspring.instants import INFINITY_US, US_PER_S
from mainspring.model import Job, JobChange, JobId, JobStatus, RunStatus, Trigger
from mainspring.store.protocol import Acceptance, Action

NEXT_US = START_US + HOUR_US


def change_of(job: Job, **changes: Any) -> JobChange:
    """Return a change that keeps everything but what is given, of the definition or beside it."""
    own = {name: value for name, value in changes.items() if name in JobChange.__struct_fields__}
    definition = {name: value for name, value in changes.items() if name not in own}
    return msgspec.structs.replace(
        JobChange(
            job_id=job.job_id,
            rev=job.rev,
            definition=msgspec.structs.replace(job.definition, **definition),
            status=job.status,
            anchor_us=job.anchor_us,
            is_once=job.is_once,
            timed_us=job.timed_us,
        ),
        **own,
    )


def read(stage: Stage, job_id: int) -> Job:
    return stage.store.get_jobs([job_id])[JobId(job_id)]


def change(stage: Stage, job_id: int, **changes: Any) -> Job | None:
    return stage.store.change_job(change_of(read(stage, job_id), **changes))


def test_a_change_is_read_back_whole_and_raises_the_rev(stage: Stage) -> None:
    job_id = stage.add(NEXT_US)
    before = read(stage, job_id)
    stage.clock.pass_s(1)
    wanted = change_of(
        before,
        name="other", task="t", queue="q", schedule="1 * * * *", timezone="Europe/Rome",
        payload="[1]", idempotency_key_template="{{date}}", max_retries=1, retry_base_seconds=2,
        retry_cap_seconds=3, timeout_seconds=4, max_missed=5, misfire_grace_seconds=6,
        status=JobStatus.PAUSED, anchor_us=START_US + 7, is_once=True, timed_us=START_US + 8,
        scheduled_us=INFINITY_US, due_us=INFINITY_US,
    )  # fmt: skip
    changed = stage.store.change_job(wanted)

    assert changed == read(stage, job_id)
    assert changed == msgspec.structs.replace(
        before,
        rev=2,
        definition=wanted.definition,
        status=JobStatus.PAUSED,
        anchor_us=START_US + 7,
        is_once=True,
        timed_us=START_US + 8,
        updated_us=stage.now_us,
        next_us=None,
    )


def test_a_change_of_another_rev_changes_nothing(stage: Stage) -> None:
    job_id = stage.add()
    job = read(stage, job_id)
    assert stage.store.change_job(change_of(job, name="a")) is not None
    assert stage.store.change_job(change_of(job, name="b")) is None
    assert (read(stage, job_id).definition.name, read(stage, job_id).rev) == ("a", 2)


def test_what_is_gone_is_not_changed_and_not_made_again(stage: Stage) -> None:
    """Deleted, deleted while it runs, never there, and a one-off that has no cursor any more."""
    gone, running, finished = stage.add(NEXT_US), stage.run(), stage.run(is_once=True)
    jobs = [read(stage, each) for each in (gone, running.job_id, finished.job_id)]
    stage.store.delete_job(gone)
    stage.store.delete_job(running.job_id)
    stage.complete(ending(finished, RunStatus.DEAD, Action.REMOVE, is_letter=True))
    for job in jobs[:2]:
        assert stage.store.change_job(change_of(job, due_us=START_US)) is None
    never = msgspec.structs.replace(change_of(jobs[0]), job_id=JobId(10**9))
    assert stage.store.change_job(never) is None
    kept = stage.store.change_job(change_of(jobs[2], scheduled_us=START_US, due_us=START_US))
    assert kept is not None
    assert kept.next_us is None
    assert stage.claim() == []


def test_a_lease_from_before_a_change_starts_nothing(stage: Stage) -> None:
    """The frame has the old payload: the firing is claimed anew, at once, and has the new one."""
    job_id = stage.add()
    [row] = stage.claim()
    change(stage, job_id, payload="[2]")
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == []
    [again] = stage.claim()
    assert (again.payload, again.fence, again.rev, again.due_us, again.attempt) == (
        b"[2]",
        row.fence + 2,
        row.rev + 1,
        row.due_us,
        1,
    )


def test_a_change_keeps_a_retry_with_its_attempt_and_time(stage: Stage) -> None:
    row = stage.run()
    stage.complete(ending(row, RunStatus.FAILED, Action.RETRY, delay_us=5 * US_PER_S))
    change(stage, row.job_id, payload="[2]")
    stage.clock.pass_s(4)
    assert stage.claim() == []
    stage.clock.pass_s(1)
    [again] = stage.claim()
    assert (again.attempt, again.scheduled_us, again.payload) == (2, row.scheduled_us, b"[2]")


def test_new_times_are_those_of_the_cursor_and_a_hint_says_so(stage: Stage) -> None:
    job_id = stage.add(NEXT_US)
    stage.read_hints()
    changed = change(stage, job_id, scheduled_us=NEXT_US + 5, due_us=NEXT_US + 5)
    assert changed is not None
    assert changed.next_us == NEXT_US + 5
    assert stage.read_hints() == [(0, NEXT_US + 5, job_id)]
    [row] = stage.claim(until_us=NEXT_US + 5)
    assert (row.scheduled_us, row.due_us) == (NEXT_US + 5, NEXT_US + 5)
    assert stage.store.runs_of_job(job_id, limit=9)[0].status is RunStatus.PENDING


def test_an_occurrence_that_was_due_and_gives_way_is_recorded_as_skipped(stage: Stage) -> None:
    """Leased or not, and also one that waits for its second attempt."""
    job_id, retried = stage.add(), stage.run()
    stage.complete(ending(retried, RunStatus.FAILED, Action.RETRY, delay_us=HOUR_US))
    [row] = stage.claim()
    for each in (job_id, retried.job_id):
        change(stage, each, scheduled_us=NEXT_US, due_us=NEXT_US)
    [_, skipped] = stage.store.runs_of_job(job_id, limit=9)
    assert (skipped.status, skipped.scheduled_us, skipped.attempt, skipped.fence) == (
        RunStatus.SKIPPED,
        START_US,
        1,
        row.fence + 1,  # of no run: the next lease has another
    )
    assert (skipped.trigger, skipped.started_us, skipped.finished_us) == (
        Trigger.SCHEDULE,
        None,
        stage.now_us,
    )
    [_, again, failed] = stage.store.runs_of_job(retried.job_id, limit=9)
    assert [(again.status, again.attempt), (failed.status, failed.attempt)] == [
        (RunStatus.SKIPPED, 2),
        (RunStatus.FAILED, 1),
    ]
    [first, _] = stage.claim(until_us=NEXT_US)
    assert (first.attempt, first.first_claim) == (1, True)


def test_a_parked_cursor_is_claimed_by_nobody_until_it_has_times_again(stage: Stage) -> None:
    job_id = stage.add(NEXT_US)
    stage.read_hints()
    parked = change(
        stage, job_id, status=JobStatus.PAUSED, scheduled_us=INFINITY_US, due_us=INFINITY_US
    )
    assert parked is not None
    assert (parked.status, parked.next_us) == (JobStatus.PAUSED, None)
    assert stage.read_hints() == []
    stage.clock.pass_s(86_400)
    assert stage.claim() == []
    assert stage.store.runs_of_job(job_id, limit=9) == []
    now_us = stage.now_us
    change(stage, job_id, status=JobStatus.ACTIVE, scheduled_us=now_us, due_us=now_us)
    [row] = stage.claim()
    assert row.scheduled_us == now_us


def test_a_held_one_off_keeps_its_instant(stage: Stage) -> None:
    job_id = stage.add(NEXT_US, is_once=True)
    held = change(stage, job_id, status=JobStatus.PAUSED, due_us=INFINITY_US)
    assert held is not None
    assert held.next_us is None
    stage.clock.pass_s(86_400)
    assert stage.claim() == []
    change(stage, job_id, status=JobStatus.ACTIVE, scheduled_us=NEXT_US, due_us=NEXT_US)
    [row] = stage.claim()
    assert (row.scheduled_us, row.attempt) == (NEXT_US, 1)


def test_a_started_run_is_moved_by_its_completion_alone(stage: Stage) -> None:
    """Its end under the old rev is told to decide again; nothing else of it changes."""
    row = stage.run()
    change(stage, row.job_id, scheduled_us=INFINITY_US, due_us=INFINITY_US)
    assert read(stage, row.job_id).next_us == START_US
    job = change(stage, row.job_id, status=JobStatus.PAUSED)
    assert job is not None
    assert job.next_us is None
    row = row._replace(rev=row.rev + 1)
    [running] = stage.store.runs_of_job(row.job_id, limit=9)
    assert (running.status, running.scheduled_us) == (RunStatus.RUNNING, START_US)
    end = ending(row, action=Action.MOVE, next_us=NEXT_US)
    assert stage.complete(end).acceptances == [Acceptance.CHANGED]
    now = stage.store.read_started([row.firing_id])[row.firing_id]  # type: ignore[index]
    assert (now.rev, now.fence) == (row.rev + 1, row.fence)
    again = ending(row._replace(rev=now.rev), action=Action.PARK)
    assert stage.complete(again).acceptances == [Acceptance.ACCEPTED]


def test_a_hold_keeps_the_occurrence_with_one_attempt_more(stage: Stage) -> None:
    row = stage.run(is_once=True)
    stage.complete(ending(row, RunStatus.FAILED, Action.HOLD))
    stage.clock.pass_s(86_400)
    assert stage.claim() == []
    change(stage, row.job_id, scheduled_us=START_US, due_us=START_US)
    [again] = stage.claim()
    assert (again.scheduled_us, again.attempt) == (START_US, 2)


def test_a_change_that_does_not_fit_its_column_is_refused(stage: Stage) -> None:
    job_id = stage.add()
    with pytest.raises(InvalidInput):
        change(stage, job_id, name="a\0b")
    assert read(stage, job_id).rev == 1


def test_an_extra_firing_gets_the_new_definition_and_keeps_its_time(stage: Stage) -> None:
    """A redrive goes on while its job is paused: somebody asked for it."""
    row = stage.run()
    stage.complete(ending(row, RunStatus.DEAD, Action.MOVE, next_us=NEXT_US, is_letter=True))
    extra = stage.store.redrive(row.firing_id, row.fence)
    change(
        stage, row.job_id, status=JobStatus.PAUSED, payload="[2]", scheduled_us=INFINITY_US,
        due_us=INFINITY_US,
    )  # fmt: skip
    [claimed] = stage.claim(until_us=NEXT_US)
    assert (claimed.firing_id, claimed.payload, claimed.scheduled_us) == (extra, b"[2]", START_US)
