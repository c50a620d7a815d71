"""A worker's decisions: what it starts, runs, completes, gives back, and tells its leaders."""

from __future__ import annotations

import pytest

from mainspring.core.execution import START_ROWS_MAX, Execution, Work
from mainspring.core.holding import BEACON_GAP_MIN_US, LOST_TOLD_TIMES
from mainspring.instants import INFINITY_US
from mainspring.queue.answers import (
    VERSION,
    Beacon,
    Envelope,
    Hints,
    Returned,
    decode_answer,
    encode,
)
from mainspring.store.protocol import Acceptance
from unit.core_stage import EPOCH_US, MS, S, decoded
from unit.worker_stage import LEADER, ME, SUCCESS, completed, deliver, execution, started


def told(work: Work, kind: type) -> list[object]:
    return [each.answer for each in work.answers if isinstance(each.answer, kind)]


def in_hand(made: Execution, monotonic_us: int) -> dict[int, int]:
    (beacon,) = told(made.poll(monotonic_us, is_trusted=False), Beacon)
    assert isinstance(beacon, Beacon)
    return dict(beacon.in_hand)


def test_only_as_many_firings_are_started_as_there_are_free_slots() -> None:
    """Across frames, in order; one request under way at a time."""
    made = execution(concurrency=3)
    deliver(made, 1, {1: 1, 2: 1})
    deliver(made, 2, {3: 1, 4: 1})
    first = made.poll(0, is_trusted=True).start
    assert first is not None

    assert [1, 2, 3] == first.firing_ids.tolist()
    assert [3, 3, 3] == first.timeouts_s.tolist()
    assert made.poll(0, is_trusted=True).start is None
    made.on_started(started(first))
    work = made.poll(0, is_trusted=True)
    assert ([0, 1, 0], None) == ([each.index for each in work.begin], work.start)
    made.on_run_ended(work.begin[0].run_key, SUCCESS, 0)
    after = made.poll(0, is_trusted=True).start
    assert after is not None
    assert [4] == after.firing_ids.tolist()


def test_what_it_finishes_in_the_time_ahead_is_started_beyond_the_free_slots() -> None:
    made = execution(concurrency=1, start_ahead_us=100 * MS, complete_rows=1_000)
    deliver(made, 1, dict.fromkeys(range(1, 200), 1))
    open_counts = []
    open_count = 0
    for at_us in range(0, 2 * S, 20 * MS):
        work = made.poll(at_us, is_trusted=True)
        if work.start is not None:
            open_count += len(work.start.firing_ids)
            made.on_started(started(work.start))
        open_counts.append(open_count)
        (begun,) = [*work.begin, *made.poll(at_us, is_trusted=True).begin]
        made.on_run_ended(begun.run_key, SUCCESS, at_us)
        open_count -= 1

    assert 1 == open_counts[0]
    assert 5 <= open_counts[-1] <= 6, "50 a second make 5 in 100 ms, beside one slot"


def test_nothing_is_started_without_trust_or_while_draining() -> None:
    made = execution()
    deliver(made, 1, {1: 1})

    assert made.poll(0, is_trusted=False).start is None
    made.on_drain()
    assert made.poll(0, is_trusted=True).start is None


def test_a_second_copy_of_a_firing_waits_for_the_next_statement_and_does_not_starve() -> None:
    made = execution(concurrency=10)
    deliver(made, 1, {1: 4, 2: 1})
    deliver(made, 2, {1: 6, 3: 1})
    first = made.poll(0, is_trusted=True).start
    assert first is not None

    assert [(1, 4), (2, 1)] == list(
        zip(first.firing_ids.tolist(), first.fences.tolist(), strict=True)
    )
    made.on_started(started(first, 1))
    second = made.poll(0, is_trusted=True).start
    assert second is not None
    assert [(1, 6), (3, 1)] == list(
        zip(second.firing_ids.tolist(), second.fences.tolist(), strict=True)
    )


def test_one_statement_starts_no_more_than_its_limit() -> None:
    made = execution(concurrency=10_000)
    for seq in (1, 2):
        deliver(made, seq, {seq * 10_000 + k: 1 for k in range(1_500)})
    request = made.poll(0, is_trusted=True).start
    assert request is not None

    assert START_ROWS_MAX == len(request.firing_ids)


def test_what_the_store_refuses_goes_back_before_the_beacon_that_omits_it() -> None:
    made = execution()
    deliver(made, 1, {1: 1, 2: 1})
    request = made.poll(10 * MS, is_trusted=True).start
    assert request is not None
    made.on_started(started(request, 1))
    work = made.poll(20 * MS, is_trusted=True)

    answers = [each.answer for each in work.answers]
    assert Returned(VERSION, ME, LEADER, 1, (1,)) == answers[0]
    assert isinstance(answers[1], Beacon)
    assert ((1, 1),) == answers[1].in_hand
    assert [1] == [each.index for each in work.begin]


def test_a_firing_is_in_hand_until_it_is_completed() -> None:
    made = execution()
    deliver(made, 1, {1: 1})
    assert {1: 1} == in_hand(made, 10 * MS)
    request = made.poll(10 * MS, is_trusted=True).start
    assert request is not None
    made.on_started(started(request))
    (begun,) = made.poll(10 * MS, is_trusted=True).begin
    made.on_run_ended(begun.run_key, SUCCESS, 20 * MS)
    pending = made.poll(20 * MS, is_trusted=True).complete
    assert pending is not None
    assert not made.is_idle
    assert 1 == made.held_count
    made.on_completed(completed(pending, Acceptance.ACCEPTED, INFINITY_US), EPOCH_US)

    assert {} == in_hand(made, 30 * MS)
    assert made.is_idle
    assert 1 == made.counts.completed


def test_ends_wait_a_little_for_company_but_not_for_a_full_batch() -> None:
    """Flushed when full, when the delay is over, or when nothing else runs."""
    made = execution(concurrency=5, complete_rows=2)
    deliver(made, 1, dict.fromkeys(range(1, 6), 1))
    request = made.poll(0, is_trusted=True).start
    assert request is not None
    made.on_started(started(request))
    begun = [each.run_key for each in made.poll(0, is_trusted=True).begin]
    made.on_run_ended(begun[0], SUCCESS, 1 * MS)
    assert made.poll(1 * MS, is_trusted=True).complete is None
    assert 11 * MS >= made.next_wake_us(1 * MS)
    made.on_run_ended(begun[1], SUCCESS, 2 * MS)
    full = made.poll(2 * MS, is_trusted=True).complete
    assert full is not None
    assert [1, 2] == [each.firing_id for each in full]

    made.on_run_ended(begun[2], SUCCESS, 3 * MS)
    assert made.poll(20 * MS, is_trusted=True).complete is None, "one batch under way at a time"
    made.on_completed(completed(full, Acceptance.ACCEPTED, INFINITY_US), EPOCH_US)
    late = made.poll(20 * MS, is_trusted=True).complete
    assert late is not None
    made.on_completed(completed(late, Acceptance.ACCEPTED, INFINITY_US), EPOCH_US)
    made.on_run_ended(begun[3], SUCCESS, 21 * MS)
    assert made.poll(21 * MS, is_trusted=True).complete is None
    made.on_run_ended(begun[4], SUCCESS, 22 * MS)
    last = made.poll(22 * MS, is_trusted=True).complete
    assert last is not None
    assert [4, 5] == [each.firing_id for each in last]


def end_one(made: Execution, acceptance: Acceptance, due_us: int) -> Work:
    deliver(made, 1, {7: 1})
    request = made.poll(0, is_trusted=True).start
    assert request is not None
    made.on_started(started(request))
    (begun,) = made.poll(0, is_trusted=True).begin
    made.on_run_ended(begun.run_key, SUCCESS, 0)
    pending = made.poll(0, is_trusted=True).complete
    assert pending is not None
    made.on_completed(completed(pending, acceptance, due_us), EPOCH_US)
    return made.poll(10 * MS, is_trusted=True)


@pytest.mark.parametrize(
    ("acceptance", "due_us", "is_hinted"),
    [
        (Acceptance.ACCEPTED, EPOCH_US + 600 * S, True),
        (Acceptance.ACCEPTED, EPOCH_US + 600 * S + 1, False),
        (Acceptance.ACCEPTED, INFINITY_US, False),
        (Acceptance.STALE, EPOCH_US, False),
    ],
)
def test_the_leader_is_told_what_is_due_again_soon(
    acceptance: Acceptance, due_us: int, is_hinted: bool
) -> None:
    work = end_one(execution(), acceptance, due_us)

    hints = [Hints(VERSION, ME, LEADER, (0,), (7,), (due_us,))] if is_hinted else []
    assert hints == told(work, Hints)


@pytest.mark.parametrize("acceptance", [Acceptance.STALE, Acceptance.CHANGED])
def test_an_end_that_was_not_accepted_is_counted_and_not_as_completed(
    acceptance: Acceptance,
) -> None:
    made = execution()
    end_one(made, acceptance, INFINITY_US)

    assert (0, 1) == (made.counts.completed, made.counts.stale_completions)
    assert made.is_idle


def test_a_drain_gives_back_what_is_not_started_and_finishes_what_is() -> None:
    made = execution(concurrency=2)
    deliver(made, 1, {1: 1, 2: 1, 3: 1})
    request = made.poll(0, is_trusted=True).start
    assert request is not None
    made.on_drain()
    made.on_started(started(request, 2))
    deliver(made, 2, {9: 1})
    work = made.poll(10 * MS, is_trusted=True)

    returned = [(each.seq, each.firing_ids) for each in told(work, Returned)]  # type: ignore[attr-defined]
    assert [(1, (3,)), (1, (2,)), (2, (9,))] == returned
    (beacon,) = told(work, Beacon)
    assert isinstance(beacon, Beacon)
    assert (True, 0, ((1, 1),)) == (beacon.draining, beacon.window, beacon.in_hand)
    assert [0] == [each.index for each in work.begin]
    assert not made.is_idle


def test_a_frame_for_another_worker_or_a_second_time_is_dropped_and_counted() -> None:
    dropped: list[str] = []
    made = execution()
    made._holding._on_dropped = dropped.append
    made.on_delivery(Envelope(VERSION, LEADER, ME + 1, 1, "l"), decoded({1: 1}))
    made.on_delivery(Envelope(VERSION, LEADER + 1, ME, 1, "l"), decoded({1: 1}, leader=LEADER))
    deliver(made, 1, {1: 1})
    deliver(made, 1, {1: 1})

    assert ["stranger", "stranger", "repeated"] == dropped
    assert 1 == made.held_count


def test_what_the_wire_lost_is_told_in_several_beacons_since_one_may_be_lost_too() -> None:
    made = execution()
    deliver(made, 3, {1: 1})
    lost = []
    for number in range(1, LOST_TOLD_TIMES + 3):
        (beacon,) = told(made.poll(number * 200 * MS, is_trusted=False), Beacon)
        assert isinstance(beacon, Beacon)
        lost.append(beacon.lost)

    assert [(1, 2)] * LOST_TOLD_TIMES + [()] * 2 == lost


def test_a_beacon_goes_out_at_once_on_news_and_else_every_period() -> None:
    made = execution()
    instants = []
    at_us = 0
    deliver(made, 1, {1: 1})
    while at_us < 500 * MS:
        at_us = made.next_wake_us(at_us)
        if told(made.poll(at_us, is_trusted=False), Beacon):
            instants.append(at_us)

    assert [BEACON_GAP_MIN_US, BEACON_GAP_MIN_US + 200 * MS, BEACON_GAP_MIN_US + 400 * MS] == [
        at_us for at_us in instants if at_us < 500 * MS
    ]


def test_a_dead_leaders_frames_are_dropped_and_what_was_started_of_them_goes_on() -> None:
    made = execution(concurrency=1)
    deliver(made, 1, {1: 1, 2: 1})
    request = made.poll(0, is_trusted=True).start
    assert request is not None
    made.on_leaders({})
    made.on_started(started(request))
    work = made.poll(10 * MS, is_trusted=True)

    assert ([0], [], None) == ([each.index for each in work.begin], work.answers, work.start)
    made.on_run_ended(work.begin[0].run_key, SUCCESS, 10 * MS)
    pending = made.poll(10 * MS, is_trusted=True).complete
    assert pending is not None
    made.on_completed(completed(pending, Acceptance.ACCEPTED, EPOCH_US), EPOCH_US)
    assert made.is_idle
    assert 0 == made.held_count


def test_a_new_identity_holds_nothing_and_ends_what_the_old_one_started() -> None:
    """Also what was asked to be started when the old one was found dead."""
    made = execution(concurrency=2)
    deliver(made, 1, {1: 1, 2: 1, 3: 1})
    request = made.poll(0, is_trusted=True).start
    assert request is not None
    made.on_new_identity(ME + 1)
    made.on_started(started(request, 2))
    work = made.poll(10 * MS, is_trusted=True)

    assert (ME, None) == (request.worker_id, work.start)
    assert [] == told(work, Returned), "not the new one's to return"
    (beacon,) = told(work, Beacon)
    assert isinstance(beacon, Beacon)
    assert (ME + 1, 0, ()) == (beacon.worker, beacon.received_seq, beacon.in_hand)
    deliver(made, 1, {9: 1})
    assert 1 == made.held_count
    made.on_run_ended(work.begin[0].run_key, SUCCESS, 10 * MS)
    assert made.poll(30 * MS, is_trusted=True).complete is not None


def test_more_hints_than_one_answer_may_have_go_out_in_several() -> None:
    """Everything a worker says is within the limits of the wire."""
    made = execution()
    held = made._holding.on_delivery(Envelope(VERSION, LEADER, ME, 1, "l"), decoded({1: 1}))
    assert held is not None
    for number in range(1, 25_001):
        made._holding.hint(held, number, EPOCH_US)
    hints = told(made.poll(10 * MS, is_trusted=True), Hints)

    assert [20_000, 5_000] == [len(each.firing_ids) for each in hints]  # type: ignore[attr-defined]
    assert all(decode_answer(encode(each)) == each for each in hints)  # type: ignore[arg-type]


def ids_to_start(made: Execution) -> list[int]:
    """Return what it would start now, and let all of it be started."""
    work = made.poll(0, is_trusted=True)
    if work.start is None:
        return []
    made.on_started(started(work.start))
    made.poll(0, is_trusted=True)
    return work.start.firing_ids.tolist()


def test_live_firings_are_started_before_catch_up_that_came_first() -> None:
    """And catch-up has no more than half of the slots, one at least, until some of it ends."""
    made = execution(concurrency=4)
    deliver(made, 1, {1: 1, 2: 1, 3: 1}, catch_up=True)
    deliver(made, 2, {4: 1})

    assert ids_to_start(made) == [4, 1, 2]
    deliver(made, 3, {5: 1})
    assert ids_to_start(made) == [5]
    made.on_run_ended(2, SUCCESS, 0)  # the second that was started, of catch-up
    assert ids_to_start(made) == [3]

    one = execution(concurrency=1)
    deliver(one, 1, {1: 1, 2: 1}, catch_up=True)
    assert ids_to_start(one) == [1]


def test_catch_up_in_hand_is_given_back_at_the_end_as_live_is() -> None:
    made = execution(concurrency=2)
    deliver(made, 1, {1: 1, 2: 1, 3: 1}, catch_up=True)
    deliver(made, 2, {4: 1})
    assert ids_to_start(made) == [4, 1]
    made.on_drain()
    returned = [
        firing_id
        for answer in made.poll(0, is_trusted=True).answers
        if isinstance(answer.answer, Returned)
        for firing_id in answer.answer.firing_ids
    ]
    assert sorted(returned) == [2, 3]
