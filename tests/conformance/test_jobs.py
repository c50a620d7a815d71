"""Facts about registration, reading and deletion of jobs, for every store."""

from __future__ import annotations

import msgspec
import pytest

from conformance.stage import HOUR_US, START_US, Stage, ending, int64s, new_job
from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.cron.spread import spread
from mainspring.errors import Conflict, InvalidInput
from mainspring.instants import MINUS_INFINITY_US
from mainspring.model import (
    Backoff,
    Definition,
    JobStatus,
    MissedWindow,
    NewJob,
    RunStatus,
    shard_of,
)
from mainspring.registration import job_from, job_in
from mainspring.store.protocol import Acceptance, Action, Store

FULL = Definition(
    name="send-weekly-report",
    task="report",
    queue="mail",
    schedule="0 9 * * 1",
    timezone="America/New_York",
    payload='{"b": 1, "a": [1.50, "\\u00e9", "ü"]}',
    idempotency_key_template="report-{{week}}",
    max_retries=7,
    retry_backoff=Backoff.LINEAR,
    retry_base_seconds=11,
    retry_cap_seconds=12,
    timeout_seconds=13,
    missed_window=MissedWindow.RUN_ALL,
    max_missed=14,
    misfire_grace_seconds=15,
)


def test_ids_are_given_out_once_and_in_order(stage: Stage) -> None:
    """take_ids never gives an id twice, and jobs draw from the same sequence."""
    first = stage.store.take_ids(3)
    job_id = stage.add()
    second = stage.store.take_ids(1)
    assert [first[0], first[0] + 1, first[0] + 2] == first
    assert [first[2] + 1, first[2] + 2] == [job_id, second[0]]


def test_an_h_is_placed_by_the_id_that_the_store_draws(stage: Stage) -> None:
    """Two jobs with one schedule are first due when their own id says, not when the caller did."""
    now_us = stage.store.database_us()
    new = job_from(job_in({"name": "spread", "schedule": "H H * * *"}), now_us)
    job_ids = stage.store.add_jobs([new, new])
    jobs = stage.store.get_jobs(job_ids)

    for job_id in job_ids:
        schedule = parse_schedule(spread("H H * * *", job_id), "UTC", anchor_us=0)
        assert next_occurrence_us(schedule, now_us) == jobs[job_id].next_us
    assert jobs[job_ids[0]].next_us != jobs[job_ids[1]].next_us


def test_no_ids(stage: Stage) -> None:
    """take_ids(0) gives none."""
    assert stage.store.take_ids(0) == []


def test_an_id_was_given_out_if_it_is_not_above_the_last(stage: Stage) -> None:
    """was_given_out tells 404 for an unknown id from 204 for a deleted job."""
    [last] = stage.store.take_ids(1)
    given = [stage.store.was_given_out(each) for each in (-1, 0, 1, last, last + 1, 2**63 - 1)]
    assert given == [False, False, True, True, False, False]


def test_nothing_was_given_out_before_the_first_id(bare_store: Store) -> None:
    """In a fresh database not even id 1 was given out."""
    assert [bare_store.was_given_out(each) for each in (0, 1)] == [False, False]


def test_a_definition_is_read_as_it_was_registered(stage: Stage) -> None:
    """Every field survives, payload text included, and the store adds the rest."""
    new = NewJob(definition=FULL, first_us=START_US + HOUR_US, anchor_us=START_US - 1, is_once=True)
    [job_id] = stage.store.add_jobs([new])
    job = stage.store.get_jobs([job_id])[job_id]
    assert job.definition == FULL
    assert msgspec.structs.asdict(job) == {
        "job_id": job_id,
        "shard": 0,
        "rev": 1,
        "status": JobStatus.ACTIVE,
        "definition": FULL,
        "anchor_us": START_US - 1,
        "is_once": True,
        "created_us": START_US,
        "updated_us": START_US,
        "timed_us": MINUS_INFINITY_US,
        "next_us": START_US + HOUR_US,
    }


def test_get_jobs_leaves_out_what_is_not_there(stage: Stage) -> None:
    """Unknown ids are simply missing, doubles come once."""
    job_id = stage.add()
    assert list(stage.store.get_jobs([job_id, 10**9, job_id, -1])) == [job_id]
    assert stage.store.get_jobs([]) == {}


def test_jobs_are_listed_in_id_order_by_pages(stage: Stage) -> None:
    """list_jobs pages by the last id seen."""
    ids = stage.store.add_jobs([new_job(START_US + each, name=f"job {each}") for each in range(5)])
    first = stage.store.list_jobs(limit=2)
    rest = stage.store.list_jobs(after_id=first[-1].job_id, limit=10)
    assert [job.job_id for job in first + rest] == sorted(ids)
    assert [job.definition.name for job in first + rest] == [f"job {each}" for each in range(5)]


def test_jobs_are_spread_over_the_shards_by_their_id(bare_store: Store) -> None:
    """The shard is the jump hash of the id over the number of shards."""
    bare_store.make_shards(5)
    ids = bare_store.add_jobs([new_job(START_US) for _ in range(50)])
    jobs = bare_store.get_jobs(ids)
    assert {job_id: shard_of(job_id, 5) for job_id in ids} == {
        job_id: jobs[job_id].shard for job_id in ids
    }


def test_jobs_need_shards(bare_store: Store) -> None:
    """Registration before make_shards is refused."""
    with pytest.raises(Conflict):
        bare_store.add_jobs([new_job(START_US)])


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "a\0b"},
        {"payload": '"\ud800"'},
        {"max_retries": 2**31},
        {"misfire_grace_seconds": -(2**31) - 1},
        {"timeout_seconds": 0},
    ],
)
def test_a_value_that_no_column_can_hold_is_refused(stage: Stage, bad: dict[str, object]) -> None:
    """InvalidInput, and the good job beside it is not registered either."""
    with pytest.raises(InvalidInput):
        stage.store.add_jobs([new_job(START_US), new_job(START_US, **bad)])
    assert stage.store.list_jobs() == []
    assert stage.read_hints() == []
    assert stage.claim() == []


def test_no_jobs_are_registered(stage: Stage) -> None:
    """An empty registration does nothing."""
    assert stage.store.add_jobs([]) == []
    assert stage.read_hints() == []


def test_a_registration_hints_its_firing(stage: Stage) -> None:
    """One job: the hint names shard, due time and firing."""
    job_id = stage.add(START_US + 7)
    assert stage.read_hints() == [(0, START_US + 7, job_id)]


def test_a_registration_of_many_hints_the_earliest(stage: Stage) -> None:
    """Several jobs of one shard: one hint, the earliest due time, firing 0."""
    stage.store.add_jobs([new_job(START_US + each) for each in (9, 4, 8)])
    assert stage.read_hints() == [(0, START_US + 4, 0)]


def test_deletion_takes_an_idle_job_with_its_firing(stage: Stage) -> None:
    """Nothing of it is left to read, to refill or to claim."""
    job_id = stage.add()
    assert stage.store.delete_job(job_id) is True
    assert stage.store.get_jobs([job_id]) == {}
    assert stage.store.list_jobs() == []
    assert stage.claim() == []
    assert stage.store.runs_of_job(job_id, limit=10) == []


def test_deleting_what_is_not_there(stage: Stage) -> None:
    """False for an unknown id, and for the second deletion."""
    job_id = stage.add()
    answers = [stage.store.delete_job(each) for each in (job_id, job_id, 10**9)]
    assert answers == [True, False, False]


def test_a_leased_job_cannot_start_after_its_deletion(stage: Stage) -> None:
    """The lease is worth nothing once the firing is gone."""
    job_id = stage.add()
    [row] = stage.claim()
    assert stage.store.delete_job(job_id) is True
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == []


def test_a_started_job_is_marked_deleted(stage: Stage) -> None:
    """It can be read but is not listed; job and firing get a new rev, the fence stays."""
    row = stage.run(START_US)
    stage.clock.pass_s(1)
    assert stage.store.delete_job(row.job_id) is True
    job = stage.store.get_jobs([row.job_id])[row.job_id]
    assert (job.status, job.rev, job.updated_us) == (JobStatus.DELETED, 2, START_US + 10**6)
    assert stage.store.list_jobs() == []
    started = stage.store.read_started([row.firing_id])[row.firing_id]
    assert (started.fence, started.rev) == (row.fence, row.rev + 1)
    assert stage.store.delete_job(row.job_id) is False


def test_a_deleted_job_goes_with_its_last_run(stage: Stage) -> None:
    """The completion that knew the old definition is told so, the next one removes the job."""
    row = stage.run()
    stage.store.delete_job(row.job_id)
    first = stage.complete(ending(row, action=Action.MOVE, next_us=START_US + HOUR_US))
    assert first.acceptances == [Acceptance.CHANGED]
    assert list(stage.store.get_jobs([row.job_id])) == [row.job_id]
    second = stage.complete(ending(row, rev=row.rev + 1))
    assert second.acceptances == [Acceptance.ACCEPTED]
    assert stage.store.get_jobs([row.job_id]) == {}
    [run] = stage.store.runs_of_job(row.job_id, limit=10)
    assert run.status is RunStatus.SUCCESS


def test_deletion_keeps_what_runs_and_removes_what_waits(stage: Stage) -> None:
    """A job with a started cursor and a waiting extra firing loses the extra one."""
    row = stage.run(max_retries=1)
    stage.die(row, Action.MOVE, START_US)
    extra = stage.store.redrive(row.firing_id, row.fence)
    again = stage.restart(row.firing_id)
    assert stage.store.delete_job(row.job_id) is True
    assert stage.claim_ids([(extra, -1)]) == []
    assert list(stage.store.read_started([extra, row.firing_id])) == [again.firing_id]


def test_deletion_of_a_job_leaves_its_dead_letter(stage: Stage) -> None:
    """The letter stays to be read, but cannot be redriven."""
    row = stage.run()
    stage.die(row, Action.MOVE, START_US + HOUR_US)
    assert stage.store.delete_job(row.job_id) is True
    assert [each.firing_id for each in stage.store.list_dead_letters(limit=9)] == [row.firing_id]
    with pytest.raises(Conflict):
        stage.store.redrive(row.firing_id, row.fence)


def test_a_finished_one_off_takes_its_definition_with_it(stage: Stage) -> None:
    """History stays when the job is gone."""
    row = stage.run(is_once=True)
    stage.complete(ending(row))
    assert stage.store.get_jobs([row.job_id]) == {}
    assert [run.status for run in stage.store.runs_of_job(row.job_id, limit=9)] == [
        RunStatus.SUCCESS
    ]


def test_a_recurring_job_outlives_a_removed_cursor(stage: Stage) -> None:
    """Only one-offs and deleted jobs go with their last firing."""
    row = stage.run()
    stage.complete(ending(row))
    assert stage.store.get_jobs([row.job_id])[row.job_id].next_us is None


def test_a_one_off_stays_until_its_last_letter_is_gone(stage: Stage) -> None:
    """Died twice over redrives, then succeeded: only then the definition goes."""
    row = stage.run(is_once=True)
    stage.die(row)
    assert list(stage.store.get_jobs([row.job_id])) == [row.job_id]
    again = stage.restart(stage.store.redrive(row.firing_id, row.fence))
    stage.die(again)
    assert list(stage.store.get_jobs([row.job_id])) == [row.job_id]
    last = stage.restart(stage.store.redrive(again.firing_id, again.fence))
    stage.complete(ending(last))
    assert stage.store.get_jobs([row.job_id]) == {}
    assert stage.store.list_dead_letters(limit=9) == []


def test_a_dead_one_off_can_be_deleted(stage: Stage) -> None:
    """No firing is left, only definition and letter: deletion takes the definition."""
    row = stage.run(is_once=True)
    stage.die(row)
    assert stage.store.delete_job(row.job_id) is True
    assert stage.store.get_jobs([row.job_id]) == {}
    assert stage.store.delete_job(row.job_id) is False


def test_a_refill_after_deletion_is_empty(stage: Stage) -> None:
    """The index entry goes with the row."""
    job_id = stage.add()
    stage.store.delete_job(job_id)
    ids, dues = stage.store.refill(0, 0, START_US + HOUR_US, limit=9)
    assert (ids.tolist(), dues.tolist()) == ([], [])
    assert int64s([]).dtype == ids.dtype == dues.dtype
