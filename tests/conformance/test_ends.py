"""Facts about the end of a run and the next step of its firing, for every store."""

from __future__ import annotations

import pytest

from conformance.stage import HOUR_US, START_US, Stage, ending, missed, new_job
from mainspring.errors import TermLost
from mainspring.instants import INFINITY_US, US_PER_DAY, US_PER_S
from mainspring.model import DeadLetter, Run, RunStatus, Trigger
from mainspring.store.protocol import Acceptance, Action, CompletionAnswer
from mainspring.store.text import clean_text

NEXT_US = START_US + HOUR_US
NOTHING = [INFINITY_US]


def test_a_success_moves_the_cursor_and_is_recorded(stage: Stage) -> None:
    """The run row holds what was locked; the firing waits for its next occurrence."""
    row = stage.run()
    stage.clock.pass_s(2)
    answer = stage.complete(ending(row, action=Action.MOVE, next_us=NEXT_US, output="42 rows"))
    assert answer == CompletionAnswer([Acceptance.ACCEPTED], [NEXT_US])
    pending, ended = stage.store.runs_of_job(row.job_id, limit=9)
    assert ended == Run(
        firing_id=row.firing_id,  # type: ignore[arg-type]
        fence=row.fence,
        job_id=row.job_id,  # type: ignore[arg-type]
        scheduled_us=START_US,
        attempt=1,
        status=RunStatus.SUCCESS,
        trigger=Trigger.SCHEDULE,
        catch_up=False,
        started_us=START_US,
        finished_us=START_US + 2 * US_PER_S,
        worker_id=stage.worker,
        output="42 rows",
    )
    assert (pending.status, pending.scheduled_us, pending.fence, pending.attempt) == (
        RunStatus.PENDING,
        NEXT_US,
        row.fence + 1,
        1,
    )
    assert stage.store.get_jobs([row.job_id])[row.job_id].next_us == NEXT_US  # type: ignore[index]


def test_a_failure_is_retried_after_its_delay(stage: Stage) -> None:
    """Same occurrence, next attempt, due from the database's now; the fence is raised."""
    row = stage.run()
    stage.clock.pass_s(2)
    due_us = stage.now_us + 5
    end = ending(row, RunStatus.FAILED, Action.RETRY, delay_us=5, error="boom")
    assert stage.complete(end) == CompletionAnswer([Acceptance.ACCEPTED], [due_us])
    assert stage.claim(until_us=due_us - 1) == []
    [again] = stage.claim(until_us=due_us)
    assert (again.scheduled_us, again.due_us, again.attempt, again.fence) == (
        START_US,
        due_us,
        2,
        row.fence + 2,
    )
    assert [
        (run.status, run.attempt, run.error) for run in stage.store.runs_of_job(row.job_id, limit=9)
    ] == [(RunStatus.PENDING, 2, None), (RunStatus.FAILED, 1, "boom")]


def test_an_ended_firing_is_not_started_any_more(stage: Stage) -> None:
    """Its lease went: neither swept as ended nor read as started."""
    row = stage.run()
    stage.complete(ending(row, RunStatus.FAILED, Action.RETRY))
    stage.store.leave(stage.worker)
    assert stage.store.read_started([row.firing_id]) == {}
    assert stage.store.sweep_ended(0, extension_us=0, limit=9) == []


def test_a_parked_cursor_waits_at_infinity(stage: Stage) -> None:
    """No next time is shown, no claim finds it, no pending run stands."""
    row = stage.run()
    answer = stage.complete(ending(row, action=Action.PARK))
    assert answer == CompletionAnswer([Acceptance.ACCEPTED], NOTHING)
    assert stage.store.get_jobs([row.job_id])[row.job_id].next_us is None  # type: ignore[index]
    assert stage.claim(until_us=INFINITY_US - 1) == []
    assert [run.status for run in stage.store.runs_of_job(row.job_id, limit=9)] == [
        RunStatus.SUCCESS
    ]


def test_a_removed_firing_is_gone(stage: Stage) -> None:
    """Nothing is due again."""
    row = stage.run(is_once=True)
    assert stage.complete(ending(row)) == CompletionAnswer([Acceptance.ACCEPTED], NOTHING)
    assert stage.store.refill(0, 0, INFINITY_US, limit=9)[0].tolist() == []


def test_a_dead_run_leaves_a_letter(stage: Stage) -> None:
    """Named by firing and fence of its last run."""
    row = stage.run()
    stage.clock.pass_s(1)
    stage.die(row, Action.MOVE, NEXT_US)
    assert stage.store.list_dead_letters(limit=9) == [
        DeadLetter(
            firing_id=row.firing_id,  # type: ignore[arg-type]
            fence=row.fence,
            job_id=row.job_id,  # type: ignore[arg-type]
            scheduled_us=START_US,
            attempt=1,
            trigger=Trigger.SCHEDULE,
            catch_up=False,
            died_us=START_US + US_PER_S,
            error="no such table",
        )
    ]
    [again] = stage.claim(until_us=NEXT_US)
    assert (again.scheduled_us, again.attempt) == (NEXT_US, 1)


def test_losses_are_counted_over_the_attempts_of_one_occurrence(stage: Stage) -> None:
    """A failure between them keeps the count, the next occurrence starts at 0."""
    row = stage.run()
    counts = []
    for status in (RunStatus.LOST, RunStatus.FAILED, RunStatus.LOST):
        stage.complete(ending(row, status, Action.RETRY))
        row = stage.restart(row.firing_id)
        counts.append(row.lost_count)
    stage.complete(ending(row, RunStatus.LOST, Action.MOVE, next_us=START_US))
    counts.append(stage.restart(row.firing_id).lost_count)
    assert counts == [1, 1, 2, 0]


def test_catch_up_lasts_for_the_retries_of_its_occurrence(stage: Stage) -> None:
    """And ends with them."""
    job_id = stage.add()
    [row] = stage.claim()
    moved = stage.store.record_missed(0, stage.term, stage.leader, [missed(row, START_US)])
    caught_up = row._replace(fence=moved[job_id])  # type: ignore[index]
    stage.start([(job_id, caught_up.fence)])
    stage.complete(ending(caught_up, RunStatus.FAILED, Action.RETRY))
    again = stage.restart(job_id)
    stage.complete(ending(again, action=Action.MOVE, next_us=START_US))
    last = stage.restart(job_id)
    assert (row.catch_up, again.catch_up, last.catch_up) == (False, True, False)


def test_a_replay_is_told_as_one(stage: Stage) -> None:
    """The second copy of an accepted end changes nothing, wherever the firing went."""
    row = stage.run()
    end = ending(row, action=Action.MOVE, next_us=START_US)
    stage.complete(end)
    stage.restart(row.firing_id)
    assert stage.complete(end) == CompletionAnswer([Acceptance.REPLAYED], NOTHING)
    assert len(stage.store.runs_of_job(row.job_id, limit=9)) == 2


def test_a_replay_after_removal_is_told_as_one(stage: Stage) -> None:
    """The history remembers it when firing and job are gone."""
    row = stage.run(is_once=True)
    stage.complete(ending(row))
    assert stage.complete(ending(row)).acceptances == [Acceptance.REPLAYED]


def test_a_replay_is_told_by_job_nominal_time_and_status(stage: Stage) -> None:
    """An end that names another occurrence, or says something else of it, is no replay."""
    row = stage.run(is_once=True)
    stage.complete(ending(row))
    for other in (
        ending(row, job_id=row.job_id + 1),
        ending(row, scheduled_us=START_US + 1),
        ending(row, RunStatus.CANCELLED),
    ):
        assert stage.complete(other).acceptances == [Acceptance.STALE]


def test_a_replay_is_remembered_for_two_days(stage: Stage) -> None:
    """Its copy comes within seconds; older partitions are not searched."""
    row = stage.run(is_once=True)
    stage.complete(ending(row))
    stage.clock.now_us += 2 * US_PER_DAY - 1
    assert stage.complete(ending(row)).acceptances == [Acceptance.REPLAYED]
    stage.clock.now_us += 1
    assert stage.complete(ending(row)).acceptances == [Acceptance.STALE]


def test_a_leader_is_told_a_replay_too(stage: Stage) -> None:
    """end_lost after a lost answer."""
    row = stage.run()
    lost = ending(row, RunStatus.LOST, Action.RETRY)
    answers = [stage.store.end_lost(0, stage.term, [lost]).acceptances for _ in range(2)]
    assert answers == [[Acceptance.ACCEPTED], [Acceptance.REPLAYED]]


def test_an_end_that_comes_twice_in_a_batch_is_its_own_replay(stage: Stage) -> None:
    """The first copy is accepted, the second changes nothing."""
    row = stage.run()
    end = ending(row, action=Action.MOVE, next_us=NEXT_US)
    assert stage.complete(end, end) == CompletionAnswer(
        [Acceptance.ACCEPTED, Acceptance.REPLAYED], [NEXT_US, INFINITY_US]
    )
    assert len(stage.store.runs_of_job(row.job_id, limit=9)) == 2


def test_a_late_report_of_a_lost_run_is_stale(stage: Stage) -> None:
    """Its row stays lost."""
    row = stage.run()
    lost = ending(row, RunStatus.LOST, Action.RETRY)
    assert stage.store.end_lost(0, stage.term, [lost]).acceptances == [Acceptance.ACCEPTED]
    late = ending(row, action=Action.MOVE, next_us=NEXT_US)
    assert stage.complete(late) == CompletionAnswer([Acceptance.STALE], NOTHING)
    assert [run.status for run in stage.store.runs_of_job(row.job_id, limit=9)] == [
        RunStatus.PENDING,
        RunStatus.LOST,
    ]


def test_an_end_with_another_fence_is_stale(stage: Stage) -> None:
    """Too old, too new, of a firing that never started, or of none."""
    row = stage.run()
    stage.add()
    [leased] = stage.claim()
    ends = [
        ending(row, fence=row.fence - 1),
        ending(row, fence=row.fence + 1),
        ending(leased),
        ending(row, firing_id=10**9),
    ]
    answer = stage.complete(*ends)
    assert answer == CompletionAnswer([Acceptance.STALE] * 4, NOTHING * 4)
    assert list(stage.store.read_started([row.firing_id])) == [row.firing_id]


def test_an_end_by_another_rev_is_told_to_read_the_job_again(stage: Stage) -> None:
    """The fence stands, so the same end with the new rev is accepted."""
    row = stage.run()
    stage.store.delete_job(row.job_id)
    assert stage.complete(ending(row)) == CompletionAnswer([Acceptance.CHANGED], NOTHING)
    assert stage.complete(ending(row, rev=row.rev + 1)).acceptances == [Acceptance.ACCEPTED]


def test_a_batch_is_answered_in_its_own_order(stage: Stage) -> None:
    """Whatever order the rows were locked in."""
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(3)])
    rows = [stage.restart(firing_id) for firing_id in reversed(ids)]
    ends = [
        ending(rows[0], action=Action.MOVE, next_us=NEXT_US),
        ending(rows[1], fence=99),
        ending(rows[2], RunStatus.FAILED, Action.RETRY, delay_us=7),
    ]
    assert stage.complete(*ends) == CompletionAnswer(
        [Acceptance.ACCEPTED, Acceptance.STALE, Acceptance.ACCEPTED],
        [NEXT_US, INFINITY_US, START_US + 7],
    )


def test_an_empty_batch(stage: Stage) -> None:
    """Nothing in, nothing out."""
    assert stage.complete() == CompletionAnswer([], [])


def test_lost_runs_are_ended_by_the_leader(stage: Stage) -> None:
    """Another term changes nothing."""
    row = stage.run()
    lost = ending(row, RunStatus.LOST, Action.RETRY)
    for term in (stage.term - 1, stage.term + 1):
        with pytest.raises(TermLost):
            stage.store.end_lost(0, term, [lost])
    with pytest.raises(TermLost):
        stage.store.end_lost(1, stage.term, [lost])
    stage.store.end_term(0, stage.term, stage.leader)
    for ends in ([lost], []):
        with pytest.raises(TermLost):
            stage.store.end_lost(0, stage.term, ends)
    assert list(stage.store.read_started([row.firing_id])) == [row.firing_id]


def test_a_lost_one_off_out_of_attempts_takes_nothing_with_it(stage: Stage) -> None:
    """end_lost writes the letter, and the definition stays for it."""
    row = stage.run(is_once=True)
    lost = ending(row, RunStatus.LOST, Action.REMOVE, is_letter=True)
    stage.store.end_lost(0, stage.term, [lost])
    assert list(stage.store.get_jobs([row.job_id])) == [row.job_id]
    assert [each.firing_id for each in stage.store.list_dead_letters(limit=9)] == [row.firing_id]


def test_a_lost_run_of_a_deleted_job_takes_the_job_with_it(stage: Stage) -> None:
    """end_lost removes finished definitions as complete does."""
    row = stage.run()
    stage.store.delete_job(row.job_id)
    lost = ending(row, RunStatus.LOST, Action.REMOVE, rev=row.rev + 1)
    stage.store.end_lost(0, stage.term, [lost])
    assert stage.store.get_jobs([row.job_id]) == {}


def test_texts_are_kept_as_they_came(stage: Stage) -> None:
    """Line feeds, quotes, backslashes and any script."""
    row = stage.run()
    text = "línea 1\n\\t \"quoted\" 'x' {a,b} NULL \U0001f600"
    stage.complete(ending(row, action=Action.PARK, error=text, output=text))
    [run] = stage.store.runs_of_job(row.job_id, limit=9)
    assert (run.error, run.output) == (text, text)


def test_texts_that_no_column_can_hold_are_cleaned_and_cut(stage: Stage) -> None:
    """NUL and half a surrogate pair are replaced; the letter keeps the same text as the run."""
    row = stage.run()
    end = ending(
        row, RunStatus.DEAD, Action.PARK, is_letter=True, error="a\0\ud800", output="é" * 5_000
    )
    stage.complete(end)
    [run] = stage.store.runs_of_job(row.job_id, limit=9)
    [letter] = stage.store.list_dead_letters(limit=9)
    assert (run.error, letter.error, run.output) == (
        "a\ufffd\ufffd",
        "a\ufffd\ufffd",
        clean_text("é" * 5_000),
    )
