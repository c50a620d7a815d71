"""How ends are decided on a store, also after lost answers and changed definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from mainspring.change import change_of, changed, paused, resumed
from mainspring.changing import Decide, change_job
from mainspring.core.completion import (
    CLOCK_JUMP_US,
    DECISIONS_MAX,
    PendingEnd,
    complete_runs,
    end_lost_runs,
)
from mainspring.core.ending import UNREADABLE_US, EndKind, Report
from mainspring.core.execution import StartRequest
from mainspring.core.requests import ClaimPage
from mainspring.core.starting import start_firings
from mainspring.errors import StoreUnavailable
from mainspring.instants import INFINITY_US
from mainspring.model import Backoff, FiringId, JobId, RunStatus
from mainspring.store.protocol import Acceptance, Action
from unit.core_stage import EPOCH_US, S, Stage

PERIOD_US = 10 * S


class Hooked:
    """A store that does something before or after some of its methods."""

    def __init__(self, store: Any, **hooks: Callable[[], None]) -> None:
        self._store = store
        self._hooks = hooks
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append(name)
            if (before := self._hooks.get(f"before_{name}")) is not None:
                before()
            answer = method(*arguments, **keywords)
            if (after := self._hooks.get(f"after_{name}")) is not None:
                after()
            return answer

        return call


def begin(stage: Stage, kind: EndKind = "success") -> PendingEnd:
    """Claim and start the one firing that is due; returns its end."""
    _, who = stage.begin_term()
    until_us = stage.now.low_us
    answer = stage.carry(who, ClaimPage((-(2**62), 0), until_us, 10))
    (frame,) = answer.frames  # type: ignore[union-attr]
    assert len(stage.start([frame])) == 1
    firing_id = int(frame.firing_ids[0])
    run = stage.store.read_started([firing_id])[FiringId(firing_id)]
    job = stage.store.get_jobs([run.job_id])[run.job_id]
    next_us = INFINITY_US if job.is_once else run.scheduled_us + PERIOD_US
    return PendingEnd(
        firing_id, run.fence, run.rev, run.job_id, run.scheduled_us, next_us, Report(kind)
    )


def recurring(**changes: Any) -> Stage:
    stage = Stage()
    stage.add_every(PERIOD_US, **changes)
    stage.mono_us = PERIOD_US
    return stage


def change(stage: Stage, **fields: object) -> None:
    """Change the job, of its payload unless said otherwise."""
    given = change_of(fields or {"payload": stage.mono_us})
    carry(stage, lambda job, now_us: changed(job, given, now_us))


def carry(stage: Stage, decide: Decide) -> None:
    change_job(stage.store, JobId(1), decide, now_us=stage.store.database_us)


def statuses(stage: Stage, job_id: int = 1) -> list[RunStatus]:
    runs = stage.store.runs_of_job(job_id, limit=20)
    return [run.status for run in runs if run.status is not RunStatus.PENDING]


def test_a_success_needs_no_reading_and_moves_the_cursor() -> None:
    stage = recurring()
    pending = begin(stage)
    store = Hooked(stage.store)
    (result,) = complete_runs(store, [pending], stage.chance)  # type: ignore[arg-type]

    assert ["complete"] == store.calls
    assert (Acceptance.ACCEPTED, EPOCH_US + 2 * PERIOD_US) == (result.acceptance, result.due_us)
    assert [RunStatus.SUCCESS] == statuses(stage)


@pytest.mark.parametrize(
    ("kind", "max_retries", "status"),
    [
        ("success", 3, RunStatus.SUCCESS),
        ("failed", 3, RunStatus.FAILED),
        ("failed", 1, RunStatus.DEAD),
        ("dead", 3, RunStatus.DEAD),
    ],
)
def test_an_end_whose_answer_was_lost_is_answered_replayed(
    kind: EndKind, max_retries: int, status: RunStatus
) -> None:
    """Whatever it had been decided to be; nothing is written twice."""
    stage = recurring(max_retries=max_retries)
    pending = begin(stage, kind)
    complete_runs(stage.store, [pending], stage.chance)
    (result,) = complete_runs(stage.store, [pending], stage.chance)

    assert (Acceptance.REPLAYED, status) == (result.acceptance, result.end.status)
    assert [status] == statuses(stage)


@pytest.mark.parametrize("kind", ["success", "failed", "dead"])
def test_an_end_whose_lease_another_ended_is_stale_and_writes_nothing(kind: EndKind) -> None:
    stage = recurring()
    pending = begin(stage, kind)
    stage.store.leave(stage.worker)
    end_lost_runs(
        stage.store,
        0,
        1,
        extension_us=0,
        asked_us=stage.now.high_us,
        limit=10,
        chance=stage.chance,
    )
    (result,) = complete_runs(stage.store, [pending], stage.chance)

    assert Acceptance.STALE is result.acceptance
    assert [RunStatus.LOST] == statuses(stage)


@pytest.mark.parametrize("kind", ["success", "failed"])
def test_a_late_end_does_not_end_the_run_that_took_its_place(kind: EndKind) -> None:
    """The same firing is going on again, under another fence: that one's end counts."""
    stage = recurring(retry_backoff=Backoff.FIXED, retry_base_seconds=0)
    late = begin(stage, kind)
    lose(stage)
    stage.worker = int(stage.store.register_holder("worker", "w", "w"))
    second = begin(stage)
    (stale,) = complete_runs(stage.store, [late], stage.chance)
    (accepted,) = complete_runs(stage.store, [second], stage.chance)

    assert [Acceptance.STALE, Acceptance.ACCEPTED] == [stale.acceptance, accepted.acceptance]
    assert [RunStatus.SUCCESS, RunStatus.LOST] == statuses(stage)


@pytest.mark.parametrize("kind", ["success", "failed"])
@pytest.mark.parametrize(("schedule", "next_s"), [(None, 20), ("@every 20s", 45 + 20)])
def test_a_definition_changed_during_a_run_is_read_again(
    kind: EndKind, schedule: str | None, next_s: int
) -> None:
    """A changed schedule goes on after the change, any other change where the run was."""
    stage = recurring(max_retries=1)
    pending = begin(stage, kind)
    stage.mono_us += 35 * S
    change(stage, **({"schedule": schedule} if schedule else {}))
    stage.mono_us += 120 * S
    (result,) = complete_runs(stage.store, [pending], stage.chance)

    assert (Acceptance.ACCEPTED, EPOCH_US + next_s * S) == (result.acceptance, result.due_us)
    assert len(statuses(stage)) == 1


@pytest.mark.parametrize("kind", ["success", "failed"])
def test_a_run_that_outlasts_a_pause_is_followed_by_the_first_occurrence_after_it(
    kind: EndKind,
) -> None:
    """And one that ends within the pause by nothing, with no dead letter for attempts it had."""
    stage = recurring(max_retries=3, retry_backoff=Backoff.FIXED, retry_base_seconds=1)
    pending = begin(stage, kind)
    carry(stage, lambda job, _: paused(job))
    (parked,) = complete_runs(stage.store, [pending], stage.chance)
    assert (Action.PARK, INFINITY_US, False) == (
        parked.end.action,
        parked.due_us,
        parked.end.is_letter,
    )
    expected = RunStatus.SUCCESS if kind == "success" else RunStatus.FAILED
    assert [expected] == statuses(stage)

    stage = recurring(max_retries=1)
    pending = begin(stage, kind)
    carry(stage, lambda job, _: paused(job))
    stage.mono_us += 35 * S
    carry(stage, resumed)
    stage.mono_us += 120 * S
    (result,) = complete_runs(stage.store, [pending], stage.chance)
    assert EPOCH_US + 50 * S == result.due_us


def test_a_job_deleted_while_it_runs_keeps_its_true_status_and_goes() -> None:
    """Also if it is deleted between the reading and the completion."""
    for kind, status in (("success", RunStatus.SUCCESS), ("failed", RunStatus.DEAD)):
        stage = recurring()
        pending = begin(stage, kind)  # type: ignore[arg-type]
        store = Hooked(stage.store, after_get_jobs=lambda at=stage: at.store.delete_job(1))
        if kind == "success":
            stage.store.delete_job(1)
        (result,) = complete_runs(store, [pending], stage.chance)  # type: ignore[arg-type]

        assert (Acceptance.ACCEPTED, Action.REMOVE) == (result.acceptance, result.end.action)
        assert [status] == statuses(stage)
        assert {} == stage.store.get_jobs([1])
        assert [] == stage.store.list_dead_letters(limit=10)


def test_a_definition_that_changes_at_every_decision_is_given_up_as_changed() -> None:
    stage = recurring()
    pending = begin(stage)
    store = Hooked(stage.store, before_complete=lambda: change(stage))
    (result,) = complete_runs(store, [pending], stage.chance)  # type: ignore[arg-type]

    assert Acceptance.CHANGED is result.acceptance
    assert DECISIONS_MAX == store.calls.count("complete")
    assert 1 in {int(firing_id) for firing_id in stage.store.read_started([1])}


def test_results_are_parallel_to_what_was_asked_whatever_order_the_store_needs() -> None:
    stage = Stage()
    stage.add_once(EPOCH_US, EPOCH_US, EPOCH_US)
    _, who = stage.begin_term()
    answer = stage.carry(who, ClaimPage((0, 0), EPOCH_US, 10))
    stage.start(answer.frames)  # type: ignore[union-attr]
    pending = [
        PendingEnd(i, 1, 1, i, EPOCH_US, INFINITY_US, Report("success", output=str(i)))
        for i in (3, 1, 2)
    ]
    pending.insert(1, PendingEnd(99, 1, 1, 99, EPOCH_US, INFINITY_US, Report("failed")))
    results = complete_runs(stage.store, pending, stage.chance)

    assert pending == [each.pending for each in results]
    assert [Acceptance.ACCEPTED, Acceptance.STALE, Acceptance.ACCEPTED, Acceptance.ACCEPTED] == [
        each.acceptance for each in results
    ]
    assert [3, 99, 1, 2] == [each.end.firing_id for each in results]


def lose(stage: Stage, asked_us: int | None = None) -> Any:
    stage.store.leave(stage.worker)
    return end_lost_runs(
        stage.store,
        0,
        1,
        extension_us=0,
        asked_us=stage.now.high_us if asked_us is None else asked_us,
        limit=10,
        chance=stage.chance,
    )


def test_a_lost_run_is_tried_again_one_attempt_higher_until_it_is_dead() -> None:
    stage = recurring(max_retries=2, retry_backoff=Backoff.FIXED, retry_base_seconds=0)
    begin(stage)
    first = lose(stage)
    assert (1, 1, 0) == (len(first.runs), first.retried_count, first.letter_count)
    assert [stage.store.database_us()] == first.due_us

    stage.worker = int(stage.store.register_holder("worker", "w", "w"))
    _, who = stage.begin_term()
    answer = stage.carry(who, ClaimPage((-(2**62), 0), stage.now.low_us, 10))
    stage.start(answer.frames)  # type: ignore[union-attr]
    stage.store.leave(stage.worker)
    second = end_lost_runs(
        stage.store,
        0,
        2,
        extension_us=0,
        asked_us=stage.now.high_us,
        limit=10,
        chance=stage.chance,
    )

    assert (1, 0, 1) == (len(second.runs), second.retried_count, second.letter_count)
    assert [RunStatus.LOST, RunStatus.LOST] == statuses(stage)
    assert [EPOCH_US + 2 * PERIOD_US] == second.due_us


def test_a_lost_run_of_a_job_deleted_meanwhile_writes_its_row_and_goes() -> None:
    stage = recurring()
    begin(stage)
    stage.store.delete_job(1)
    ended = lose(stage)

    assert ([INFINITY_US], 0, 0) == (ended.due_us, ended.retried_count, ended.letter_count)
    assert [RunStatus.LOST] == statuses(stage)
    assert {} == stage.store.get_jobs([1])


def test_a_lost_run_of_a_job_changed_meanwhile_continues_from_now() -> None:
    """A definition changed since is not run for the time before its change."""
    stage = recurring(max_retries=0)
    begin(stage)
    stage.mono_us += 35 * S
    change(stage, schedule="@every 20s")
    ended = lose(stage)

    assert [EPOCH_US + 65 * S] == ended.due_us


def test_a_lost_run_of_a_schedule_that_cannot_be_read_is_parked() -> None:
    stage = recurring(max_retries=0)
    begin(stage)
    state = stage.store._state
    ((job_id, job),) = state.jobs.items()
    gone = msgspec.structs.replace(job.definition, timezone="Nowhere/Gone")
    state.jobs[job_id] = msgspec.structs.replace(job, definition=gone)
    ended = lose(stage)

    assert ([INFINITY_US], 1) == (ended.due_us, ended.letter_count)
    assert stage.store.get_jobs([1])[job_id].next_us is None


def test_a_success_of_a_schedule_that_cannot_be_read_is_parked_and_not_removed() -> None:
    stage = recurring()
    pending = begin(stage)
    unreadable = PendingEnd(
        *[getattr(pending, name) for name in ("firing_id", "fence", "rev", "job_id")],
        pending.scheduled_us,
        UNREADABLE_US,
        pending.report,
    )
    (result,) = complete_runs(stage.store, [unreadable], stage.chance)

    assert (Acceptance.ACCEPTED, Action.PARK) == (result.acceptance, result.end.action)
    assert 1 in stage.store.get_jobs([1])


def test_nothing_is_ended_while_the_database_clock_is_ahead_of_what_the_leader_knows() -> None:
    """By a step that it has not seen yet, leases would be over that are not."""
    stage = recurring()
    begin(stage)
    asked_us = stage.now.high_us
    stage.offset_us += 180 * S

    assert (
        []
        == end_lost_runs(
            stage.store, 0, 1, extension_us=0, asked_us=asked_us, limit=10, chance=stage.chance
        ).runs
    )
    assert [] == statuses(stage)[1:]
    later_us = stage.store.database_us() - CLOCK_JUMP_US
    ended = end_lost_runs(
        stage.store, 0, 1, extension_us=0, asked_us=later_us, limit=10, chance=stage.chance
    )
    assert 1 == len(ended.runs)


@pytest.mark.parametrize(
    ("age_us", "extension_us", "is_ended"),
    [
        (8 * S, 0, False),  # 3 s of time-out and 5 s of slack
        (8 * S + 1, 0, True),
        (8 * S + 1, 1 * S, False),
        (9 * S + 1, 1 * S, True),
    ],
)
def test_a_run_of_a_living_worker_ends_when_its_lease_and_the_extension_are_over(
    age_us: int, extension_us: int, is_ended: bool
) -> None:
    stage = recurring()
    begin(stage)
    stage.mono_us += age_us
    ended = end_lost_runs(
        stage.store,
        0,
        1,
        extension_us=extension_us,
        asked_us=stage.now.high_us,
        limit=10,
        chance=stage.chance,
    )

    assert is_ended == bool(ended.runs)


def request(stage: Stage) -> StartRequest:
    stage.add_once(EPOCH_US, EPOCH_US)
    _, who = stage.begin_term()
    stage.carry(who, ClaimPage((0, 0), EPOCH_US, 10))
    ids = np.array([1, 2], np.int64)
    return StartRequest(stage.worker, ids, np.ones(2, np.int64), np.full(2, 3, np.int64))


def test_a_start_whose_answer_was_lost_is_repeated_and_answers_what_it_had_started() -> None:
    stage = Stage()
    wanted = request(stage)
    lost = iter([True, False])

    def fail() -> None:
        if next(lost):
            raise StoreUnavailable("the answer was lost")

    waits: list[int] = []
    store = Hooked(stage.store, after_start=fail)
    starts = start_firings(store, wanted, slack_s=5, wait=lambda n: not waits.append(n))  # type: ignore[arg-type, func-returns-value]

    assert starts is not None
    assert ([1, 2], [1]) == (starts.firing_id.tolist(), waits)


def test_what_the_repeat_skips_because_the_first_copy_holds_it_is_read() -> None:
    """Started by this worker under this fence means that it is this worker's to run."""
    stage = Stage()
    wanted = request(stage)
    calls = 0

    class Skipping(Hooked):
        def start(self, holder: int, ids: Any, fences: Any, timeouts: Any, *, slack_s: int) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                stage.store.start(holder, ids[:1], fences[:1], timeouts[:1], slack_s=slack_s)
                raise StoreUnavailable("the answer was lost")
            return stage.store.start(holder, ids[1:], fences[1:], timeouts[1:], slack_s=slack_s)

    starts = start_firings(Skipping(stage.store), wanted, slack_s=5, wait=lambda _: True)  # type: ignore[arg-type]

    assert starts is not None
    assert {1: 1, 2: 1} == dict(zip(starts.firing_id.tolist(), starts.fence.tolist(), strict=True))


def test_a_start_is_given_up_when_there_is_no_more_waiting() -> None:
    stage = Stage()
    wanted = request(stage)

    def fail() -> None:
        raise StoreUnavailable("down")

    store = Hooked(stage.store, before_start=fail)
    assert start_firings(store, wanted, slack_s=5, wait=lambda n: n < 3) is None  # type: ignore[arg-type]
    assert 3 == store.calls.count("start")


def test_a_worker_that_is_dead_or_has_left_starts_nothing() -> None:
    """Also by the repeat of a start that it had asked for while it was alive."""
    for is_dead in (True, False):
        stage = Stage()
        wanted = request(stage)
        if is_dead:
            (me,) = (h for h in stage.store.read_holders().holders if h.kind == "worker")
            assert stage.store.declare_dead(stage.worker, me.beat)
        else:
            stage.store.leave(stage.worker)
        starts = start_firings(stage.store, wanted, slack_s=5, wait=lambda _: True)

        assert starts is not None
        assert [] == starts.firing_id.tolist()
        assert {} == stage.store.read_started([1, 2])
