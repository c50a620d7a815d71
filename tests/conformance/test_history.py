"""Facts about runs, dead letters, redrives and partitions, for every store."""

from __future__ import annotations

import pytest

from conformance.stage import HOUR_US, START_US, Stage, ending, new_job
from mainspring.errors import Conflict, NotFound
from mainspring.instants import US_PER_DAY
from mainspring.model import RunStatus, Trigger
from mainspring.store.protocol import Acceptance, Action, Store

DAY_S = US_PER_DAY // 10**6


def test_runs_come_newest_occurrence_first_then_highest_attempt(stage: Stage) -> None:
    """The waiting firing is among them, as pending."""
    row = stage.run(max_retries=9)
    stage.complete(ending(row, RunStatus.FAILED, Action.RETRY))
    row = stage.restart(row.firing_id)
    stage.complete(ending(row, action=Action.MOVE, next_us=START_US + HOUR_US))
    runs = stage.store.runs_of_job(row.job_id, limit=9)
    assert [(run.scheduled_us, run.attempt, run.status) for run in runs] == [
        (START_US + HOUR_US, 1, RunStatus.PENDING),
        (START_US, 2, RunStatus.SUCCESS),
        (START_US, 1, RunStatus.FAILED),
    ]


def test_a_started_firing_is_shown_running_on_its_worker(stage: Stage) -> None:
    """A leased one is pending and shows nobody."""
    job_id = stage.add()
    [row] = stage.claim()
    [run] = stage.store.runs_of_job(job_id, limit=9)
    assert (run.status, run.worker_id, run.started_us) == (RunStatus.PENDING, None, None)
    stage.start([(job_id, row.fence)])
    [run] = stage.store.runs_of_job(job_id, limit=9)
    assert (run.status, run.worker_id, run.started_us, run.finished_us) == (
        RunStatus.RUNNING,
        stage.worker,
        START_US,
        None,
    )


def test_runs_are_paged_by_the_last_one_seen(stage: Stage) -> None:
    """Pages of any length join to the whole, without doubles."""
    row = stage.run(max_retries=9)
    for _ in range(2):
        for _ in range(2):
            stage.complete(ending(row, RunStatus.FAILED, Action.RETRY))
            row = stage.restart(row.firing_id)
        stage.complete(ending(row, action=Action.MOVE, next_us=row.scheduled_us))
        row = stage.restart(row.firing_id)
    whole = stage.store.runs_of_job(row.job_id, limit=500)
    assert len(whole) == 7
    for length in (1, 2, 3, 6, 7):
        pages = []
        before = None
        while page := stage.store.runs_of_job(row.job_id, limit=length, before=before):
            assert len(page) <= length
            pages += page
            last = page[-1]
            before = (last.scheduled_us, last.attempt, last.firing_id, last.fence)
        assert pages == whole


def test_a_job_that_never_was_has_no_runs(stage: Stage) -> None:
    """An empty list, not an error."""
    assert stage.store.runs_of_job(10**9, limit=9) == []


def test_recent_runs_are_the_newest_recorded_of_all_jobs(stage: Stage) -> None:
    """Within a day, the newest first, no waiting ones."""
    ids = []
    for _ in range(3):
        row = stage.run()
        stage.complete(ending(row, action=Action.PARK))
        ids.append(row.job_id)
        stage.clock.pass_s(1)
    runs = stage.store.recent_runs(limit=2)
    assert [run.job_id for run in runs] == [ids[2], ids[1]]
    stage.clock.now_us = START_US + US_PER_DAY
    assert [run.job_id for run in stage.store.recent_runs(limit=9)] == [ids[2], ids[1]]


def test_runs_of_one_instant_go_by_firing_and_fence(stage: Stage) -> None:
    """The highest first, so that a page is the same each time."""
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(3)])
    for firing_id in (ids[1], ids[2], ids[0], ids[1]):
        end = ending(stage.restart(firing_id), action=Action.MOVE, next_us=START_US)
        stage.complete(end)
    runs = stage.store.recent_runs(limit=9)
    assert [(run.firing_id, run.fence) for run in runs] == [
        (ids[2], 1),
        (ids[1], 3),
        (ids[1], 1),
        (ids[0], 1),
    ]


def test_letters_are_listed_oldest_first_by_pages(stage: Stage) -> None:
    """Letters of one instant go by firing and fence."""
    rows = [stage.run() for _ in range(3)]
    for row in reversed(rows):
        stage.die(row, Action.PARK)
    stage.clock.pass_s(-1)
    early = stage.run(stage.now_us)
    stage.die(early, Action.PARK)
    letters = stage.store.list_dead_letters(limit=9)
    assert [each.firing_id for each in letters] == [
        early.firing_id,
        *(row.firing_id for row in rows),
    ]
    pages = []
    after = None
    while page := stage.store.list_dead_letters(limit=3, after=after):
        pages += page
        after = (page[-1].died_us, page[-1].firing_id, page[-1].fence)
    assert pages == letters


def test_a_redrive_gives_a_dead_cursor_attempts_again(stage: Stage) -> None:
    """A new firing of the same occurrence, due now; attempts count on from the letter's."""
    row = stage.run()
    stage.complete(ending(row, RunStatus.FAILED, Action.RETRY))
    row = stage.restart(row.firing_id)
    stage.die(row, Action.MOVE, START_US + HOUR_US)
    stage.clock.pass_s(60)
    stage.read_hints()
    firing_id = stage.store.redrive(row.firing_id, row.fence)
    assert firing_id > row.firing_id
    assert stage.read_hints() == [(0, stage.now_us, firing_id)]
    assert stage.store.list_dead_letters(limit=9) == []
    [again] = stage.claim()
    assert again._replace(claimed_us=0) == row._replace(
        firing_id=firing_id,
        due_us=stage.now_us,
        fence=1,
        attempt=3,
        trigger=Trigger.REDRIVE,
        first_claim=False,
        claimed_us=0,
    )
    stage.start([(firing_id, again.fence)])
    assert stage.store.read_started([firing_id])[firing_id].attempts_spent == 2


def test_a_redriven_firing_keeps_its_id_when_it_dies_again(stage: Stage) -> None:
    """Its idempotency key names it; the fence goes on from the letter's."""
    row = stage.run(is_once=True)
    stage.die(row)
    first = stage.restart(stage.store.redrive(row.firing_id, row.fence))
    stage.die(first)
    assert stage.store.redrive(first.firing_id, first.fence) == first.firing_id
    [again] = stage.claim()
    assert (again.firing_id, again.fence, again.attempt, again.trigger) == (
        first.firing_id,
        first.fence + 2,
        3,
        Trigger.REDRIVE,
    )


def test_a_retry_after_a_redrive_keeps_the_attempts_spent(stage: Stage) -> None:
    """The policy counts from there."""
    row = stage.run()
    stage.die(row, Action.MOVE, START_US + HOUR_US)
    row = stage.restart(stage.store.redrive(row.firing_id, row.fence))
    stage.complete(ending(row, RunStatus.FAILED, Action.RETRY))
    row = stage.restart(row.firing_id)
    started = stage.store.read_started([row.firing_id])[row.firing_id]  # type: ignore[index]
    assert (started.attempt, started.attempts_spent) == (3, 1)


def test_a_redrive_takes_the_rev_of_its_job(stage: Stage) -> None:
    """It is claimed and completed by the definition that stands now."""
    row = stage.run()
    stage.die(row, Action.MOVE, START_US + HOUR_US)
    row = stage.restart(stage.store.redrive(row.firing_id, row.fence))
    assert row.rev == stage.store.get_jobs([row.job_id])[row.job_id].rev  # type: ignore[index]
    assert stage.complete(ending(row)).acceptances == [Acceptance.ACCEPTED]


def test_a_letter_is_redriven_once(stage: Stage) -> None:
    """The second try finds none, and so does a wrong fence."""
    row = stage.run()
    stage.die(row, Action.MOVE, START_US + HOUR_US)
    with pytest.raises(NotFound):
        stage.store.redrive(row.firing_id, row.fence + 1)
    stage.store.redrive(row.firing_id, row.fence)
    with pytest.raises(NotFound):
        stage.store.redrive(row.firing_id, row.fence)


def test_a_letter_of_a_deleted_job_is_not_redriven(stage: Stage) -> None:
    """Neither while its last run goes on nor afterwards; the letter stays."""
    row = stage.run()
    stage.die(row, Action.MOVE, START_US)
    running = stage.restart(row.firing_id)
    stage.store.delete_job(row.job_id)
    with pytest.raises(Conflict):
        stage.store.redrive(row.firing_id, row.fence)
    stage.complete(ending(running, rev=running.rev + 1))
    with pytest.raises(Conflict):
        stage.store.redrive(row.firing_id, row.fence)
    assert len(stage.store.list_dead_letters(limit=9)) == 1


def test_partitions_are_made_ahead_once(bare_store: Store, clock) -> None:  # type: ignore[no-untyped-def]
    """Today's and those of the following days."""
    assert bare_store.make_partitions(days_ahead=2) == 3
    assert bare_store.make_partitions(days_ahead=2) == 0
    clock.pass_s(DAY_S)
    assert bare_store.make_partitions(days_ahead=3) == 2


def test_runs_on_both_sides_of_midnight_are_kept(stage: Stage) -> None:
    """Each in its own day's partition, none in the default one."""
    stage.clock.now_us = START_US + US_PER_DAY - 1
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(2)])
    rows = [stage.restart(firing_id) for firing_id in ids]
    stage.complete(ending(rows[0], action=Action.PARK))
    stage.clock.now_us += 1
    stage.complete(ending(rows[1], action=Action.PARK))
    assert [run.job_id for run in stage.store.recent_runs(limit=9)] == [ids[1], ids[0]]
    assert stage.store.default_partition_rows() == 0


def test_old_partitions_go_with_their_runs(stage: Stage) -> None:
    """history_days whole days before today are kept."""
    row = stage.run()
    end = ending(row, action=Action.MOVE, next_us=START_US + US_PER_DAY)
    stage.complete(end)
    stage.clock.pass_s(DAY_S)
    second = stage.restart(row.firing_id)
    stage.clock.pass_s(1)
    stage.complete(ending(second, action=Action.PARK))
    assert stage.store.drop_partitions(history_days=1) == 0
    stage.clock.pass_s(DAY_S - 1)
    assert stage.store.drop_partitions(history_days=1) == 1
    assert stage.store.drop_partitions(history_days=1) == 0
    [run] = stage.store.runs_of_job(row.job_id, limit=9)
    assert run.scheduled_us == START_US + US_PER_DAY
    assert [each.fence for each in stage.store.recent_runs(limit=9)] == [second.fence]
    assert stage.complete(end).acceptances == [Acceptance.STALE]


def test_a_run_without_a_partition_of_its_day_is_counted(stage: Stage) -> None:
    """It is kept all the same, in the default partition."""
    row = stage.run()
    stage.clock.pass_s(30 * DAY_S)
    stage.complete(ending(row, action=Action.PARK))
    assert stage.store.default_partition_rows() == 1
    assert [run.status for run in stage.store.runs_of_job(row.job_id, limit=9)] == [
        RunStatus.SUCCESS
    ]


def test_without_keys_there_is_none_to_forget(stage: Stage) -> None:
    """Only handlers write keys, each on a connection of its own."""
    stage.run()
    stage.clock.pass_s(400 * DAY_S)
    assert stage.store.prune_keys(history_days=1, limit=10) == 0
