"""Facts about starts, misses, hand-backs and the sweep of ended runs, for every store."""

from __future__ import annotations

import dataclasses

import pytest

from conformance.stage import HOUR_US, SLACK_S, START_US, Stage, int64s, missed, new_job
from mainspring.errors import TermLost
from mainspring.instants import US_PER_S
from mainspring.model import Run, RunStatus, Trigger
from mainspring.store.protocol import MissedStep


def test_a_start_carries_the_fence_and_sets_the_lease(stage: Stage) -> None:
    """locked_until is now, the firing's own timeout and the slack."""
    job_id = stage.add()
    [row] = stage.claim()
    stage.clock.pass_s(1)
    starts = stage.start([(job_id, row.fence)], timeout_s=10)
    assert [each.tolist() for each in (starts.firing_id, starts.fence, starts.started_us)] == [
        [job_id],
        [row.fence],
        [START_US + US_PER_S],
    ]
    assert starts.locked_until_us.tolist() == [START_US + (1 + 10 + SLACK_S) * US_PER_S]
    started = stage.store.read_started([job_id, job_id, 10**9])
    assert {job_id: (row.fence, row.rev, 1, 0, 0, START_US, stage.worker)} == {
        each: (
            run.fence,
            run.rev,
            run.attempt,
            run.attempts_spent,
            run.trigger,
            run.scheduled_us,
            run.locked_by,
        )
        for each, run in started.items()
    }


def test_a_start_answers_for_those_it_took_only(stage: Stage) -> None:
    """Of a frame of three, one lost its lease and one is deleted."""
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(3)])
    rows = {row.firing_id: row.fence for row in stage.claim()}
    stage.claim_ids([(ids[0], rows[ids[0]])])
    stage.store.delete_job(ids[1])
    starts = stage.start(list(rows.items()))
    assert starts.firing_id.tolist() == [ids[2]]


def test_a_start_of_nothing(stage: Stage) -> None:
    """Empty arrays in, empty arrays out."""
    starts = stage.start([])
    assert (starts.firing_id.tolist(), starts.locked_until_us.dtype) == ([], "int64")


def test_nothing_starts_early(stage: Stage) -> None:
    """An armed firing starts at its due time by the database clock, not a microsecond before."""
    job_id = stage.add(START_US + 1)
    [row] = stage.claim(until_us=START_US + 1)
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == []
    stage.clock.now_us += 1
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == [job_id]


def test_a_start_can_be_repeated_by_its_worker(stage: Stage) -> None:
    """After a lost answer: started_at stays, the lease begins anew."""
    row = stage.run()
    stage.clock.pass_s(5)
    again = stage.start([(row.firing_id, row.fence)], timeout_s=10)
    assert again.started_us.tolist() == [START_US]
    assert again.locked_until_us.tolist() == [START_US + (5 + 10 + SLACK_S) * US_PER_S]


def test_a_started_firing_is_not_started_by_another_worker(stage: Stage) -> None:
    """A second copy of a frame is refused."""
    row = stage.run()
    other = stage.store.register_holder("worker", "", "host:9")
    assert stage.start([(row.firing_id, row.fence)], worker=other).firing_id.tolist() == []
    assert stage.store.read_started([row.firing_id])[row.firing_id].locked_by == stage.worker  # type: ignore[index]


@pytest.mark.parametrize("error", [-1, 1])
def test_a_start_needs_the_fence(stage: Stage, error: int) -> None:
    """Neither an older nor a newer one will do."""
    job_id = stage.add()
    [row] = stage.claim()
    assert stage.start([(job_id, row.fence + error)]).firing_id.tolist() == []


def test_the_dead_and_the_gone_start_nothing(stage: Stage) -> None:
    """A worker's own holder row must be alive, and must exist."""
    job_id = stage.add()
    [row] = stage.claim()
    dead = stage.store.register_holder("worker", "", "")
    gone = stage.store.register_holder("worker", "", "")
    stage.store.declare_dead(dead, 0)
    stage.store.leave(gone)
    for worker in (dead, gone, 10**9):
        assert stage.start([(job_id, row.fence)], worker=worker).firing_id.tolist() == []
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == [job_id]


def test_hand_back_ends_leases_and_raises_the_fence(stage: Stage) -> None:
    """The firing can be claimed at once; its attempt number stays."""
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(3)])
    rows = stage.claim()
    back = stage.store.hand_back(
        stage.leader, int64s([row.firing_id for row in rows]), int64s([row.fence for row in rows])
    )
    assert sorted(back.tolist()) == ids
    assert [(row.fence, row.attempt, row.first_claim) for row in stage.claim()] == [
        (3, 1, False)
    ] * 3


def test_hand_back_leaves_what_is_not_this_holders(stage: Stage) -> None:
    """Wrong fence, wrong holder, started, unknown: nothing happens."""
    started = stage.run()
    stage.add()
    [row] = stage.claim()
    for holder, firing_id, fence in [
        (stage.leader, row.firing_id, row.fence - 1),
        (stage.leader + 100, row.firing_id, row.fence),
        (stage.leader, started.firing_id, started.fence),
        (stage.worker, started.firing_id, started.fence),
        (stage.leader, 10**9, 1),
    ]:
        assert stage.store.hand_back(holder, int64s([firing_id]), int64s([fence])).tolist() == []
    assert stage.start([(row.firing_id, row.fence)]).firing_id.tolist() == [row.firing_id]


def test_a_missed_firing_becomes_its_catch_up_run(stage: Stage) -> None:
    """Nominal time moves, due time and lease stay, the dropped ones make one history row."""
    job_id = stage.add(START_US - 3 * HOUR_US)
    [row] = stage.claim()
    record = missed(row, START_US - HOUR_US, dropped_us=START_US - 3 * HOUR_US, dropped_count=2)
    moved = stage.store.record_missed(0, stage.term, stage.leader, [record])
    assert moved == {job_id: row.fence + 1}
    [written] = [
        run for run in stage.store.runs_of_job(job_id, limit=9) if run.status is RunStatus.MISSED
    ]
    assert written == Run(
        firing_id=row.firing_id,  # type: ignore[arg-type]
        fence=row.fence,
        job_id=job_id,
        scheduled_us=START_US - 3 * HOUR_US,
        attempt=1,
        status=RunStatus.MISSED,
        trigger=Trigger.SCHEDULE,
        catch_up=False,
        finished_us=START_US,
        missed_count=2,
    )
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == []
    [again] = stage.claim_ids([(job_id, row.fence + 1)])
    assert (again.scheduled_us, again.due_us, again.catch_up, again.fence, again.first_claim) == (
        START_US - HOUR_US,
        START_US - 3 * HOUR_US,
        True,
        row.fence + 2,
        False,
    )


def test_a_firing_that_is_put_off_is_due_then_and_never_claimed(stage: Stage) -> None:
    """Its lease ends, and its next claim is its first, with the mark of a catch-up."""
    job_id = stage.add(START_US - 3 * HOUR_US)
    [row] = stage.claim()
    later_us = START_US + 5 * US_PER_S
    record = missed(row, START_US - HOUR_US, step=MissedStep.WAIT, due_us=later_us)
    moved = stage.store.record_missed(0, stage.term, stage.leader, [record])
    assert moved == {job_id: row.fence + 1}
    assert stage.start([(job_id, row.fence + 1)]).firing_id.tolist() == []
    assert stage.claim(until_us=later_us - 1) == []
    [again] = stage.claim(until_us=later_us)
    assert (again.scheduled_us, again.due_us, again.catch_up, again.first_claim) == (
        START_US - HOUR_US,
        later_us,
        True,
        True,
    )
    assert (again.attempt, again.fence) == (1, row.fence + 2)


def test_a_skipped_one_off_goes_with_its_definition(stage: Stage) -> None:
    """What is left of it is the row that says so."""
    job_id = stage.add(START_US - HOUR_US, is_once=True)
    [row] = stage.claim()
    record = missed(
        row, START_US, step=MissedStep.REMOVE, dropped_us=START_US - HOUR_US, dropped_count=1
    )
    assert job_id in stage.store.record_missed(0, stage.term, stage.leader, [record])
    assert stage.store.get_jobs([job_id]) == {}
    [run] = stage.store.runs_of_job(job_id, limit=9)
    assert (run.status, run.scheduled_us, run.missed_count) == (
        RunStatus.MISSED,
        START_US - HOUR_US,
        1,
    )


def test_a_repeated_miss_changes_nothing(stage: Stage) -> None:
    """After a lost answer the lease is another one: no second row, no second step."""
    job_id = stage.add(START_US - 3 * HOUR_US)
    [row] = stage.claim()
    record = missed(row, START_US - HOUR_US, dropped_us=START_US - 3 * HOUR_US, dropped_count=2)
    answers = [stage.store.record_missed(0, stage.term, stage.leader, [record]) for _ in range(2)]
    assert answers == [{job_id: row.fence + 1}, {}]
    assert [run.status for run in stage.store.runs_of_job(job_id, limit=9)] == [
        RunStatus.PENDING,
        RunStatus.MISSED,
    ]


def test_a_miss_that_drops_nothing_writes_no_row(stage: Stage) -> None:
    """One late occurrence is run itself."""
    job_id = stage.add(START_US - HOUR_US)
    [row] = stage.claim()
    record = missed(row, row.scheduled_us)
    assert job_id in stage.store.record_missed(0, stage.term, stage.leader, [record])
    [run] = stage.store.runs_of_job(job_id, limit=9)
    assert (run.status, run.catch_up) == (RunStatus.PENDING, True)


def test_a_miss_is_recorded_by_the_lease(stage: Stage) -> None:
    """Wrong fence, started, or not leased by this leader: not moved."""
    started = stage.run()
    stage.add()
    [row] = stage.claim()
    other = stage.store.register_holder("scheduler", "", "")
    unleased = stage.add()
    rows = [
        missed(started, START_US),
        missed(row._replace(fence=row.fence + 1), START_US),
        missed(row._replace(firing_id=unleased, fence=0), START_US),
    ]
    for step in MissedStep:
        wanted = [dataclasses.replace(each, step=step) for each in rows]
        assert stage.store.record_missed(0, stage.term, stage.leader, wanted) == {}
    term = stage.store.take_term(0, other)
    mine = missed(row, START_US)
    assert stage.store.record_missed(0, term, other, [mine]) == {}


def test_misses_are_recorded_by_the_leader(stage: Stage) -> None:
    """The term is asked for, also for an empty list."""
    stage.store.end_term(0, stage.term, stage.leader)
    with pytest.raises(TermLost):
        stage.store.record_missed(0, stage.term, stage.leader, [])


def test_a_run_of_a_dead_worker_is_swept(stage: Stage) -> None:
    """As soon as its holder is declared dead, with all that its next step depends on."""
    row = stage.run()
    assert stage.store.sweep_ended(0, extension_us=0, limit=9) == []
    stage.store.declare_dead(stage.worker, 0)
    [ended] = stage.store.sweep_ended(0, extension_us=0, limit=9)
    assert ended == stage.store.read_started([row.firing_id])[row.firing_id]  # type: ignore[index]
    assert (ended.locked_by, ended.fence) == (stage.worker, row.fence)


def test_a_run_of_a_worker_that_left_is_swept(stage: Stage) -> None:
    """A clean exit ends its leases too."""
    row = stage.run()
    stage.store.leave(stage.worker)
    assert [each.firing_id for each in stage.store.sweep_ended(0, extension_us=0, limit=9)] == [
        row.firing_id
    ]


def test_a_run_beyond_its_lease_is_swept(stage: Stage) -> None:
    """After locked_until, put off by the extension, and not at it."""
    row = stage.run()
    stage.clock.pass_s(300 + SLACK_S)
    assert stage.store.sweep_ended(0, extension_us=0, limit=9) == []
    stage.clock.now_us += 1
    assert [each.firing_id for each in stage.store.sweep_ended(0, extension_us=0, limit=9)] == [
        row.firing_id
    ]
    assert stage.store.sweep_ended(0, extension_us=1, limit=9) == []


def test_a_sweep_of_ended_runs_goes_by_id_within_its_shard(stage: Stage) -> None:
    """Up to the limit; another shard's runs are not this one's."""
    ids = stage.store.add_jobs([new_job(START_US - each) for each in range(3)])
    for firing_id in ids:
        stage.restart(firing_id)
    stage.store.leave(stage.worker)
    found = stage.store.sweep_ended(0, extension_us=0, limit=2)
    assert [each.firing_id for each in found] == ids[:2]
    assert stage.store.sweep_ended(1, extension_us=0, limit=2) == []
