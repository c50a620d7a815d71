"""The leader of one shard: what it asks for, when, and what it does with the answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.leader import FAILURE_PAUSE_US, ID_MAX, NOT_MINE, ShardLeader
from mainspring.core.now import Now
from mainspring.core.requests import (
    Answer,
    ClaimIds,
    ClaimPage,
    Ended,
    Failed,
    Prepared,
    Refill,
    Refilled,
    Request,
    SweepEnded,
    SweepUnleased,
    Swept,
)
from mainspring.errors import StoreUnavailable, TermLost
from unit.core_stage import EPOCH_US, MS, TICK_US, S, Stage

LOST_ANSWER = Failed(StoreUnavailable("the answer was lost"))


def ask(leader: ShardLeader, stage: Stage, kind: type[Request]) -> Request:
    """Answer whatever comes before a request of one kind, and return that, unanswered."""
    for _ in range(20):
        request, _ = leader.poll(stage.now, 0)
        assert request is not None, f"no {kind.__name__} was asked for"
        if isinstance(request, kind):
            return request
        leader.on_answer(nothing(request), stage.now)
    raise AssertionError(f"no {kind.__name__} within 20 requests")


def nothing(request: Request) -> Answer:
    """Answer that there was nothing."""
    none = np.empty(0, np.int64)
    match request:
        case ClaimPage() | ClaimIds():
            return Prepared([], 0, None, 0, None)
        case Refill():
            return Refilled(none, none, is_full=False)
        case SweepUnleased():
            return Swept(none, none, np.empty(0, np.uint8), is_full=False)
        case SweepEnded():
            return Ended([], [], 0, 0)


def test_a_term_taken_again_by_the_same_holder_finds_what_the_earlier_one_leased() -> None:
    """Pages pass over its own leases, so its first sweep reaches as far as anything is armed."""
    stage = Stage()
    stage.add_once(EPOCH_US, EPOCH_US + 2 * S)
    first, who = stage.begin_term()
    assert len(stage.settle(first, who)) == 1  # and the other one waits for its time

    second, who = stage.begin_term()
    released = stage.settle(second, who)
    stage.mono_us = 2 * S
    released += stage.settle(second, who)

    assert [1, 2] == sorted(i for frame in released for i in frame.firing_ids.tolist())
    assert {1, 2} == stage.start(released)


def test_what_page_and_sweep_both_find_is_in_one_frame_only() -> None:
    """The full sweep reaches beyond the cursor; a lease is in at most one frame (I8)."""
    stage = Stage(page_rows=2)
    ids = stage.add_once(*(EPOCH_US + 500 * MS + i for i in range(7)))
    leader, who = stage.begin_term()
    page, _ = leader.poll(stage.now, 0)
    assert isinstance(page, ClaimPage)
    leader.on_answer(stage.carry(who, page), stage.now)
    sweep, _ = leader.poll(stage.now, 0)
    assert sweep == SweepUnleased((stage.now.low_us + 3 * S, ID_MAX), full=True, limit=10_002)
    swept = stage.carry(who, sweep)
    assert isinstance(swept, Swept)
    assert ids == swept.firing_ids.tolist()
    leader.on_answer(swept, stage.now)

    stage.mono_us = 1 * S
    released = stage.settle(leader, who)

    held = [i for frame in released for i in frame.firing_ids.tolist()]
    assert ids == sorted(held)
    assert len(ids) == leader.ledger_firings
    assert set(ids) == stage.start(released)


@pytest.mark.parametrize("kind", [ClaimPage, ClaimIds])
def test_a_claim_whose_answer_was_lost_is_claimed_anew(kind: type[Request]) -> None:
    """It may have been committed: a full sweep finds leases that are in no frame."""
    stage = Stage()
    stage.add_once(EPOCH_US)
    leader, who = stage.begin_term()
    if kind is ClaimIds:
        page, _ = leader.poll(stage.now, 0)
        leader.on_answer(nothing(page), stage.now)
        leader.on_hints(np.array([1]), np.array([-(2**63)]))
    request = ask(leader, stage, kind)
    stage.carry(who, request)
    leader.on_answer(LOST_ANSWER, stage.now)

    stage.mono_us += FAILURE_PAUSE_US
    released = stage.settle(leader, who)

    assert {1} == stage.start(released)


@pytest.mark.parametrize(
    "request_",
    [
        ClaimPage((0, 0), EPOCH_US, 10),
        ClaimIds(np.array([2]), np.array([-1]), EPOCH_US),
        SweepEnded(0, EPOCH_US + S),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_was_asked_in_a_term_that_is_over_changes_nothing(request_: Request) -> None:
    """It may reach the store long after the next term has begun."""
    stage = Stage()
    stage.add_once(EPOCH_US)
    leader, who = stage.begin_term()
    stage.start(stage.settle(leader, who))
    stage.store.leave(stage.worker)
    stage.add_once(EPOCH_US)
    _, over = stage.begin_term()
    stage.scheduler = int(stage.store.register_holder("scheduler", "s2", "s2"))
    stage.begin_term()
    before = stage.store.runs_of_job(1, limit=9) + stage.store.runs_of_job(2, limit=9)
    with pytest.raises(TermLost):
        stage.carry(over, request_)

    assert before == stage.store.runs_of_job(1, limit=9) + stage.store.runs_of_job(2, limit=9)


def test_a_failure_is_followed_by_a_pause() -> None:
    """A store that is down is not asked in a busy loop."""
    stage = Stage()
    leader, _ = stage.begin_term()
    leader.poll(stage.now, 0)
    leader.on_answer(LOST_ANSWER, stage.now)

    assert leader.poll(stage.now, 0) == (None, [])
    assert FAILURE_PAUSE_US == leader.next_wake_us(stage.now)
    stage.mono_us = FAILURE_PAUSE_US
    assert leader.poll(stage.now, 0)[0] is not None


def test_the_page_cursor_stays_where_it_is_when_a_page_fails() -> None:
    """What the page would have claimed is asked for again."""
    stage = Stage()
    stage.add_once(EPOCH_US, EPOCH_US + 1 * S)
    leader, who = stage.begin_term()
    stage.settle(leader, who)
    stage.mono_us = 1 * S
    before = ask(leader, stage, ClaimPage)
    assert isinstance(before, ClaimPage)
    assert (EPOCH_US + 1 * S, 2) == before.after
    leader.on_answer(LOST_ANSWER, stage.now)
    stage.mono_us += FAILURE_PAUSE_US
    again = ask(leader, stage, ClaimPage)

    assert isinstance(again, ClaimPage)
    assert before.after == again.after


def test_a_frame_is_released_by_the_lower_bound_of_database_time() -> None:
    """Database time may not have reached the upper one; losses are judged by that one."""
    stage = Stage()
    stage.add_once(EPOCH_US + 1 * S)
    leader, who = stage.begin_term()
    stage.settle(leader, who)
    at_us = 1 * S + 10 * MS

    assert [] == leader.poll(Now(at_us, EPOCH_US + 1 * S - 1, EPOCH_US + 1 * S + 20 * MS), 0)[1]
    _, released = leader.poll(Now(at_us, EPOCH_US + 1 * S, EPOCH_US + 1 * S + 20 * MS), 0)
    assert 1 == len(released)


def test_a_long_backlog_of_pages_starves_no_other_request() -> None:
    """Requests take turns: whoever had its turn goes to the end."""
    stage = Stage(page_rows=1)
    stage.add_once(*[EPOCH_US] * 50)
    leader, who = stage.begin_term()
    leader.on_hints(np.array([50]), np.array([-(2**63)]))
    kinds = []
    for _ in range(5):
        request, _ = leader.poll(stage.now, 0)
        assert request is not None
        kinds.append(type(request))
        leader.on_answer(stage.carry(who, request), stage.now)

    assert [ClaimPage, ClaimIds, SweepUnleased, SweepEnded, Refill] == kinds


@pytest.mark.parametrize("back_us", [2 * S, 180 * S])
def test_a_database_clock_set_back_does_not_hold_up_what_is_due_by_it(back_us: int) -> None:
    """Wheels and page cursor go back with it."""
    stage = Stage(arm_ahead_us=1 * S)
    stage.add_once(EPOCH_US)
    leader, who = stage.begin_term()
    stage.settle(leader, who)
    stage.mono_us = 10 * S
    stage.settle(leader, who)

    stage.offset_us -= back_us
    late_us = stage.store.database_us() + 300 * MS
    (job_id,) = stage.add_once(late_us)
    stage.settle(leader, who)
    stage.mono_us += 1 * S
    (frame,) = stage.settle(leader, who)

    assert [job_id] == frame.firing_ids.tolist()
    assert stage.start([frame]) == {job_id}


def test_what_waits_for_its_time_is_released_by_a_clock_set_back() -> None:
    """A frame whose time is over by the new clock too does not wait for the old one."""
    stage = Stage()
    leader, who = stage.begin_term()
    stage.mono_us = 200 * S
    stage.settle(leader, who)
    stage.add_once(stage.store.database_us() + 1 * S)
    stage.mono_us += 100 * MS
    leader.on_hints_lost(stage.now)
    stage.settle(leader, who)
    assert leader.ledger_firings == 1

    stage.offset_us -= 1_500 * MS
    assert stage.settle(leader, who) == []
    stage.mono_us += 2_500 * MS

    assert len(stage.settle(leader, who)) == 1


def test_a_hint_of_the_past_is_claimed_by_name_and_one_of_the_future_waits_on_the_wheel() -> None:
    """The page cursor is the border."""
    stage = Stage(arm_ahead_us=0)
    stage.add_once(EPOCH_US)
    leader, who = stage.begin_term()
    stage.settle(leader, who)
    timers = leader.timers
    leader.on_hints(np.array([7, 8]), np.array([EPOCH_US, EPOCH_US + 5 * S]))

    assert timers + 1 == leader.timers
    request = ask(leader, stage, ClaimIds)
    assert ([7], [NOT_MINE]) == (request.firing_ids.tolist(), request.fences.tolist())
    leader.on_answer(nothing(request), stage.now)
    stage.mono_us = 5 * S - 1
    stage.settle(leader, who)
    wake_us = leader.next_wake_us(stage.now)
    assert 5 * S == wake_us
    stage.mono_us = wake_us
    assert isinstance(leader.poll(stage.now, 0)[0], ClaimPage)


def test_a_hint_during_a_refill_outlives_the_wheel_that_is_replaced() -> None:
    """What is read may be older than the hint; also for times beyond the old horizon."""
    stage = Stage(arm_ahead_us=0)
    leader, _ = stage.begin_term()
    request = ask(leader, stage, Refill)
    leader.on_hints(np.array([7]), np.array([EPOCH_US + 59 * S]))
    leader.on_answer(nothing(request), stage.now)

    assert leader.timers == 1
    leader.on_hints(np.array([7]), np.array([EPOCH_US + 61 * S]))
    assert leader.timers == 1, "beyond the horizon is the next refill's business"


def test_a_hint_without_a_name_is_swept_for_at_once_but_not_too_often() -> None:
    """Id 0 stands for any firing of that time; ten sweeps a second at most."""
    stage = Stage(arm_ahead_us=0)
    stage.add_once(EPOCH_US)
    leader, who = stage.begin_term()
    stage.settle(leader, who)
    leader.on_hints(np.array([0]), np.array([EPOCH_US]))

    assert leader.poll(stage.now, 0)[0] is None
    assert 100 * MS == leader.next_wake_us(stage.now)
    stage.mono_us = 100 * MS
    assert isinstance(leader.poll(stage.now, 0)[0], SweepUnleased)


def test_an_unanswered_frame_is_claimed_anew_by_its_fence_and_a_finished_one_is_not() -> None:
    """Or some firings of it; what is not in the ledger any more is nobody's to claim."""
    stage = Stage(frame_firings=3)
    stage.add_once(*[EPOCH_US] * 6)
    leader, who = stage.begin_term()
    first, second = stage.settle(leader, who)
    leader.on_unanswered(first.frame_no, [2, 99])
    leader.on_finished(second.frame_no)
    leader.on_unanswered(second.frame_no)

    assert leader.ledger_firings == 2
    request = ask(leader, stage, ClaimIds)
    assert ([2], [1]) == (request.firing_ids.tolist(), request.fences.tolist())
    leader.on_answer(stage.carry(who, request), stage.now)
    assert leader.ledger_firings == 3
    leader.on_unanswered(first.frame_no)
    request = ask(leader, stage, ClaimIds)
    assert ([1, 3], [1, 1]) == (request.firing_ids.tolist(), request.fences.tolist())


def test_a_full_ledger_stops_claims_and_does_not_spin() -> None:
    """Rows beyond the bound simply stay due, until a worker is through with something."""
    stage = Stage(queue_firings=4, page_rows=3, frame_firings=1)
    stage.add_once(*[EPOCH_US] * 6)
    leader, who = stage.begin_term()
    released = stage.settle(leader, who)

    assert (4, 4) == (len(released), leader.ledger_firings)
    assert leader.next_wake_us(stage.now) > stage.mono_us
    leader.on_finished(released[0].frame_no)
    assert leader.next_wake_us(stage.now) == stage.mono_us
    assert len(stage.settle(leader, who)) == 1


def test_the_end_hands_back_everything_that_is_in_the_ledger() -> None:
    """Ids and fences match the store's, so that others can claim at once."""
    stage = Stage(frame_firings=2)
    ids = stage.add_once(EPOCH_US, EPOCH_US, EPOCH_US + 2 * S)
    leader, who = stage.begin_term()
    stage.settle(leader, who)

    firing_ids, fences = leader.hand_back()

    assert ids == stage.store.hand_back(stage.scheduler, firing_ids, fences).tolist()
    assert leader.ledger_firings == 0
    assert leader.hand_back()[0].tolist() == []


def test_overdue_and_unleased_for_two_sweeps_is_counted() -> None:
    """The alarm: something is due, and this leader does not get it."""
    stage = Stage(arm_ahead_us=0)
    leader, _ = stage.begin_term()
    leader.on_answer(nothing(ask(leader, stage, SweepUnleased)), stage.now)
    counts = []
    for found in ([1, 2], [2, 3], [2], [4]):
        stage.mono_us += 1 * S
        request = ask(leader, stage, SweepUnleased)
        assert isinstance(request, SweepUnleased)
        assert not request.full
        ids = np.array(found, np.int64)
        leader.on_answer(Swept(ids, ids, np.zeros(len(ids), np.uint8), is_full=False), stage.now)
        counts.append(leader.overdue_unleased_count)

    assert counts == [0, 1, 1, 0]


def test_more_dead_runs_than_one_statement_ends_are_asked_for_again_at_once() -> None:
    """And what they are due again at is a hint."""
    stage = Stage()
    leader, _ = stage.begin_term()
    ask(leader, stage, SweepEnded)
    leader.on_answer(Ended([], [], 0, 0, is_full=True), stage.now)

    assert isinstance(ask(leader, stage, SweepEnded), SweepEnded)


def asked_at_us(leader: ShardLeader, stage: Stage, kind: type[Request], seconds: int) -> list[int]:
    """Answer everything at once for so many seconds; returns when a kind of request came."""
    asked: list[int] = []
    end_us = stage.mono_us + seconds * S
    while stage.mono_us < end_us:
        request, _ = leader.poll(stage.now, 0)
        if request is None:
            stage.mono_us += 50 * MS
            continue
        if isinstance(request, kind):
            asked.append(stage.mono_us)
        leader.on_answer(nothing(request), stage.now)
    return asked


@pytest.mark.parametrize("kind", [SweepUnleased, SweepEnded])
@pytest.mark.parametrize(("took_ms", "rest_s"), [(5, 1), (40, 4), (3_000, 10)])
def test_a_sweep_rests_a_hundred_times_as_long_as_it_took(
    kind: type[Request], took_ms: int, rest_s: int
) -> None:
    """Its period at least, so that nothing changes while it is cheap; ten periods at most."""
    stage = Stage()
    leader, _ = stage.begin_term()
    begun_us = stage.mono_us
    request = ask(leader, stage, kind)
    stage.mono_us += took_ms * MS
    leader.on_answer(nothing(request), stage.now)
    (next_us, *_) = asked_at_us(leader, stage, kind, 12)

    assert rest_s * S <= next_us - begun_us <= rest_s * S + 100 * MS


def test_a_worker_that_is_gone_ends_the_rest_of_its_sweep() -> None:
    """Also when the news comes while a sweep is under way that cannot have seen it."""
    stage = Stage()
    leader, _ = stage.begin_term()
    request = ask(leader, stage, SweepEnded)
    stage.mono_us += 3 * S
    leader.on_worker_gone(stage.now)
    leader.on_answer(nothing(request), stage.now)
    again = ask(leader, stage, SweepEnded)
    stage.mono_us += 3 * S
    leader.on_answer(nothing(again), stage.now)
    leader.on_worker_gone(stage.now)

    assert isinstance(ask(leader, stage, SweepEnded), SweepEnded)


def test_a_database_clock_a_little_behind_is_waited_for_without_a_busy_loop() -> None:
    """Readings of it differ a little; a timer that the wheel has passed waits for it too."""
    stage = Stage()
    leader, who = stage.begin_term()
    stage.settle(leader, who)
    stage.offset_us -= 300 * MS
    leader.on_hints(np.array([7]), np.array([stage.now.low_us + 1 * S]))
    stage.settle(leader, who)

    assert leader.next_wake_us(stage.now) > stage.mono_us


@settings(max_examples=60, deadline=None)
@given(
    dues_ms=st.lists(st.integers(0, 20_000), min_size=1, max_size=40),
    arm_ahead_ms=st.sampled_from([0, 70, 1_000, 3_000]),
    page_rows=st.sampled_from([1, 7, 100]),
    frame_firings=st.sampled_from([1, 16]),
)
def test_who_polls_when_told_to_releases_everything_on_time_and_never_spins(
    dues_ms: list[int], arm_ahead_ms: int, page_rows: int, frame_firings: int
) -> None:
    """Sleeping until `next_wake_us` is enough: each firing once, at its tick, none early."""
    stage = Stage(arm_ahead_us=arm_ahead_ms * MS, page_rows=page_rows, frame_firings=frame_firings)
    stage.add_once(*(EPOCH_US + due_ms * MS for due_ms in dues_ms))
    leader, who = stage.begin_term()
    released: dict[int, int] = {}
    while stage.mono_us <= 21 * S:
        for frame in stage.settle(leader, who):
            for firing_id in frame.firing_ids.tolist():
                assert firing_id not in released
                released[firing_id] = stage.store.database_us()
        wake_us = leader.next_wake_us(stage.now)
        assert wake_us > stage.mono_us, "a busy loop"
        stage.mono_us = wake_us

    late_us = [released[i + 1] - EPOCH_US - due_ms * MS for i, due_ms in enumerate(dues_ms)]
    assert min(late_us) >= 0
    assert max(late_us) < TICK_US
