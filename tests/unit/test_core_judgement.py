"""Late firings: which are judged, what the policy says, whose turn it is, what is announced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.core.catch_up import LARGE_OCCURRENCES, CatchUp, CatchUps, LargeCatchUp
from mainspring.core.judgement import Judgement, judge, late_rows, settled
from mainspring.core.preparation import claim_and_prepare
from mainspring.core.requests import ClaimIds, ClaimPage, Prepared
from mainspring.instants import INFINITY_US
from mainspring.model import (
    Definition,
    FiringId,
    Job,
    JobId,
    JobStatus,
    MissedWindow,
    RunStatus,
    Trigger,
)
from mainspring.store.protocol import MissedStep
from unit.core_stage import EPOCH_US, MS, S, Stage, row

ALL = MissedWindow.RUN_ALL
SKIP = MissedWindow.SKIP
ONCE = MissedWindow.RUN_ONCE


def job_of(each: ClaimRow, **changes: Any) -> Job:
    """Return the definition behind a claimed firing."""
    return Job(
        job_id=JobId(each.job_id),
        shard=0,
        rev=1,
        status=JobStatus.ACTIVE,
        definition=Definition(
            name=each.name, task=each.task, schedule=each.schedule, timezone=each.zone, **changes
        ),
        anchor_us=each.anchor_us,
        is_once=each.schedule[0].isdigit() and "T" in each.schedule,
        created_us=each.anchor_us,
        updated_us=each.anchor_us,
        next_us=each.scheduled_us,
    )


def judged(claimed: list[ClaimRow], catch_up: CatchUp | None = None, **changes: Any) -> Judgement:
    """Judge what is late of a batch, each by the same policy."""
    batch = ClaimBatch.from_rows(claimed)
    jobs = {JobId(each.job_id): job_of(each, **changes) for each in claimed}
    return judge(batch, late_rows(batch), jobs, catch_up or CatchUp(1_000))


def late(firing_id: int, seconds: int, **changes: Any) -> ClaimRow:
    """Return a firing of every ten seconds that is claimed so late, with a grace of 1 s."""
    return row(
        firing_id,
        **{"claimed_us": EPOCH_US + seconds * S, "grace_s": 1, "anchor_us": EPOCH_US} | changes,
    )


def test_only_attempt_one_of_a_scheduled_firing_never_claimed_before_is_judged() -> None:
    claimed = [
        late(1, 70),
        late(2, 70, first_claim=False),
        late(3, 70, trigger=int(Trigger.MANUAL)),
        late(4, 1),
    ]
    assert [0] == late_rows(ClaimBatch.from_rows(claimed)).tolist()


@pytest.mark.parametrize(
    ("policy", "scheduled_s", "is_catch_up", "dropped", "missed"),
    [(ONCE, 60, True, 6, 7), (SKIP, 70, False, 7, 7), (ALL, 50, True, 5, 6)],
)
def test_each_policy_moves_the_firing_and_names_what_nothing_runs(
    policy: MissedWindow, scheduled_s: int, is_catch_up: bool, dropped: int, missed: int
) -> None:
    """Due at 0, 10 .. 70 with a grace of 1: seven are missed, and the newest is on time.

    RUN_ALL keeps two; the second is counted when it runs.
    """
    judgement = judged([late(1, 70)], missed_window=policy, max_missed=2)

    (record,) = judgement.rows
    assert (MissedStep.RUN, EPOCH_US + scheduled_s * S) == (record.step, record.scheduled_us)
    assert (is_catch_up, EPOCH_US, dropped) == (
        record.is_catch_up,
        record.dropped_us,
        record.dropped_count,
    )
    assert (missed, dropped) == (judgement.missed_count, judgement.dropped_count)


def test_a_skipped_firing_goes_on_with_the_first_occurrence_after_now() -> None:
    judgement = judged([late(1, 75)], missed_window=SKIP)

    (record,) = judgement.rows
    assert (MissedStep.WAIT, EPOCH_US + 80 * S, EPOCH_US + 80 * S, False, 8) == (
        record.step,
        record.scheduled_us,
        record.due_us,
        record.is_catch_up,
        record.dropped_count,
    )


def test_a_skipped_one_off_is_over() -> None:
    once = late(1, 75, schedule="2026-06-08T12:00:00Z", anchor_us=EPOCH_US - S)
    (record,) = judged([once], missed_window=SKIP).rows

    assert (MissedStep.REMOVE, 1) == (record.step, record.dropped_count)


def test_a_one_off_that_was_past_when_it_was_registered_misses_nothing() -> None:
    """It was meant to run at once; one that was waited for in vain is missed, and so is a cron."""
    once = {"schedule": "2026-06-08T12:00:00Z"}
    judgement = judged(
        [
            late(1, 3_600, **once, anchor_us=EPOCH_US),
            late(2, 3_600, **once, anchor_us=EPOCH_US + 1_000 * S),
            late(3, 3_600, **once, anchor_us=EPOCH_US - 1),
            late(4, 3_600, schedule="0 12 * * *"),
        ]
    )
    assert [3, 4] == [each.firing_id for each in judgement.rows]
    assert judgement.missed_count == 2


def test_a_schedule_that_cannot_be_read_any_more_is_not_judged() -> None:
    gone = late(1, 3_600, zone="Nowhere/Gone", schedule="0 9 * * *")
    assert ([], 0) == (judged([gone]).rows, judged([gone]).missed_count)


def test_jobs_with_h_are_judged_each_for_itself() -> None:
    """The same text means other instants for another job."""
    claimed = [late(each, 7_200, schedule="H * * * *") for each in range(1, 9)]
    latest = {each.scheduled_us for each in judged(claimed).rows}
    assert len(latest) > 4


def test_catch_up_is_paced_and_a_put_off_firing_has_had_its_turn() -> None:
    """Ten a second: the first second's worth runs now, each other has its tenth."""
    claimed = [late(each, 5) for each in range(1, 26)]
    judgement = judged(claimed, CatchUp(10))

    now, later = judgement.rows[:10], judgement.rows[10:]
    assert {MissedStep.RUN} == {each.step for each in now}
    assert [EPOCH_US + 5 * S + 100_000 * each for each in range(10, 25)] == [
        each.due_us for each in later
    ]
    assert {MissedStep.WAIT} == {each.step for each in later}
    assert judgement.missed_count == 10, "counted when it runs"

    marked = [late(each, 7, catch_up=True) for each in range(1, 26)]
    again = judged(marked, CatchUp(0.01))
    assert (25, []) == (again.missed_count, again.rows), "nothing to record, all run"


def test_pace_is_kept_over_claims_and_not_saved_up() -> None:
    catch_up = CatchUp(10)
    assert 10 == sum(catch_up.take_time(0) is None for _ in range(20))
    assert catch_up.take_time(0) == 2 * S
    assert 10 == sum(catch_up.take_time(60 * S) is None for _ in range(11))


def test_a_new_term_has_its_own_pace() -> None:
    catch_ups = CatchUps(1)
    assert catch_ups.of(3, 1) is catch_ups.of(3, 1)
    assert catch_ups.of(3, 1) is not catch_ups.of(4, 1)
    assert catch_ups.of(3, 1) is not catch_ups.of(3, 2)


def test_a_large_catch_up_is_news_once() -> None:
    """The whole of it is announced at its first firing, and not again by those that follow."""
    catch_up = CatchUp(1_000)
    seconds = 10 * LARGE_OCCURRENCES
    first = judged([late(1, seconds)], catch_up, missed_window=ALL, max_missed=50)
    follows = late(
        1, seconds + 1, scheduled_us=EPOCH_US + (seconds - 480) * S, claimed_us=EPOCH_US + 2**40
    )
    assert [LargeCatchUp(1, 100, 50)] == first.large
    assert [] == judged([late(2, seconds - 20)], catch_up, missed_window=ALL).large
    assert [] == judged([follows], catch_up, missed_window=ALL, max_missed=50).large


def test_only_what_was_recorded_stays_in_the_batch_and_with_its_new_fence() -> None:
    """What was put off does not, nor what is somebody else's by now."""
    claimed = [late(1, 5), late(2, 5), late(3, 0), late(4, 5)]
    batch = ClaimBatch.from_rows(claimed)
    for rate, fences in ((1_000, {1: 9}), (1.0, {1: 9, 2: 9, 4: 9})):
        judgement = judged(claimed, CatchUp(rate))
        kept = settled(batch, judgement, {FiringId(each): fences[each] for each in fences})

        assert [1, 3] == kept.firing_id.tolist()
        assert [9, 1] == kept.fence.tolist()
        assert [1, 0] == kept.catch_up.tolist()


def outage(policy: MissedWindow, max_missed: int) -> tuple[Stage, int]:
    """Every five minutes, the one of 00:00 done, everything stopped from 00:02 to 12:02."""
    stage = Stage(catch_up_rate=100_000)
    job_id = stage.add_every(300 * S, missed_window=policy, max_missed=max_missed)
    stage.mono_us = 12 * 3_600 * S + 120 * S
    return stage, job_id


def serve(stage: Stage, job_id: int) -> tuple[list[int], int, list[Prepared]]:
    """Claim, run and complete until nothing is due; returns what ran, and the next."""
    _, who = stage.begin_term()
    ran: list[int] = []
    answers = []
    while True:
        page = ClaimIds(np.array([job_id]), np.array([-1]), stage.store.database_us())
        answer = claim_and_prepare(stage.store, who, page, stage.recipe)
        answers.append(answer)
        if not answer.frames:
            break
        ran += stage.run_to_success(answer.frames)
    job = stage.store.get_jobs([job_id])[JobId(job_id)]
    assert job.next_us is not None
    return ran, job.next_us, answers


@pytest.mark.parametrize(
    ("policy", "max_missed", "runs", "dropped"),
    [(SKIP, 100, 0, 144), (ONCE, 100, 1, 143), (ALL, 100, 100, 44), (ALL, 200, 144, 0)],
)
def test_after_an_outage_of_144_occurrences(
    policy: MissedWindow, max_missed: int, runs: int, dropped: int
) -> None:
    """Distinct missed occurrences, oldest first, all counted, and the ordinary one of 12:05 next.

    Source: github.com/kubernetes/kubernetes/issues/42649 (given up for good after 100 misses).
    """
    stage, job_id = outage(policy, max_missed)
    ran, next_us, answers = serve(stage, job_id)

    slots = [EPOCH_US + 300 * S * number for number in range(1, 145)]
    assert ran == (slots[-runs:] if runs else [])
    assert next_us == EPOCH_US + 300 * S * 145
    assert 144 == sum(answer.missed_count for answer in answers)
    assert dropped == sum(answer.dropped_count for answer in answers)
    assert [LargeCatchUp(job_id, 144, dropped)] == [
        large for answer in answers for large in answer.large
    ]
    rows = stage.store.runs_of_job(job_id, limit=500)
    assert dropped == sum(run.missed_count for run in rows if run.status is RunStatus.MISSED)
    assert runs == sum(run.status is RunStatus.SUCCESS and run.catch_up for run in rows)
    assert len(rows) == runs + (1 if dropped else 0) + 1, "one row for all that is dropped"


def test_what_is_put_off_comes_back_as_a_hint_and_runs_at_its_time() -> None:
    """Three jobs, one each 1.25 s: the leader knows when, and need not come upon them."""
    stage = Stage(catch_up_rate=0.8, arm_ahead_us=0)
    for _ in range(3):
        stage.add_every(40 * S)
    stage.mono_us = 110 * S
    leader, who = stage.begin_term()
    released = stage.settle(leader, who)
    assert [1] == [int(each) for frame in released for each in frame.firing_ids]
    for passed_ms, count in ((1_200, 1), (100, 2), (1_100, 2), (200, 3)):
        stage.mono_us += passed_ms * MS
        released += stage.settle(leader, who)
        assert len(released) == count
    assert [1, 2, 3] == [int(each) for frame in released for each in frame.firing_ids]
    assert all(frame.is_catch_up for frame in released)
    assert stage.start(released) == {1, 2, 3}


def test_a_page_that_was_put_off_as_a_whole_is_still_full() -> None:
    """Or the leader would take it that nothing more is due."""
    stage = Stage(catch_up_rate=0.01)
    for _ in range(4):
        stage.add_every(40 * S)
    stage.mono_us = 110 * S
    _, who = stage.begin_term()
    page = ClaimPage((0, 0), EPOCH_US + 110 * S, 2)
    first = claim_and_prepare(stage.store, who, page, stage.recipe)
    assert first.last is not None
    rest = claim_and_prepare(
        stage.store, who, ClaimPage(first.last, EPOCH_US + 110 * S, 2), stage.recipe
    )
    assert (2, 1, 2, 0) == (
        first.claimed_count, len(first.frames), rest.claimed_count, len(rest.frames)
    )  # fmt: skip
    assert [3, 4] == rest.put_off_ids.tolist()
    assert (rest.put_off_us < INFINITY_US).all()
