"""Which frame goes to which worker, by credit, age and what is heard of the workers."""

from __future__ import annotations

import dataclasses
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainspring.core.dispatch import OUTSTANDING_FRAMES_MAX, Dispatch, FrameName, Send
from mainspring.core.requests import PreparedFrame
from mainspring.queue.answers import VERSION, Beacon, Returned
from unit.core_stage import MS, S, prepared

SILENCE_US = 1 * S
UNANSWERED_US = 5 * S
LEADER = 99


def beacon(
    worker: int,
    *,
    window: int = 10,
    received: int = 0,
    in_hand: dict[int, int] | None = None,
    lost: tuple[int, ...] = (),
    tasks: tuple[str, ...] = ("work",),
    draining: bool = False,
) -> Beacon:
    return Beacon(
        VERSION,
        worker,
        LEADER,
        window,
        received,
        tuple((in_hand or {}).items()),
        lost,
        ("default",),
        tasks,
        draining,
    )


def dispatch(*workers: Beacon) -> Dispatch:
    """Return a dispatch that has heard of these workers at instant 0."""
    made = Dispatch(silence_us=SILENCE_US, unanswered_us=UNANSWERED_US)
    made.on_workers({each.worker: f"w{each.worker}" for each in workers}, 0)
    for each in workers:
        made.on_beacon(each, 0)
    return made


def frame(
    frame_no: int, count: int = 1, task: str = "work", shard: int = 0, *, is_catch_up: bool = False
) -> PreparedFrame:
    firings = {frame_no * 1_000 + k: 1 for k in range(count)}
    made = prepared(frame_no, firings, shard=shard, task=task)
    return dataclasses.replace(made, is_catch_up=is_catch_up)


def send_all(made: Dispatch, monotonic_us: int = 0) -> list[tuple[int, int]]:
    """Send whatever goes; returns (worker, frame number) in order."""
    sent = []
    while (send := made.next_send(monotonic_us)) is not None:
        made.on_sent(send, is_sent=True)
        sent.append((send.worker_id, send.frame.frame_no))
    return sent


def test_frames_go_out_in_order_of_release_as_far_as_credit_reaches() -> None:
    made = dispatch(beacon(1, window=5))
    made.release([frame(1, 2), frame(2, 2), frame(3, 2)])

    assert [(1, 1), (1, 2)] == send_all(made)
    assert {("default", "work"): 2} == made.waiting()
    made.on_beacon(beacon(1, window=5, received=2, in_hand={2: 2}), 0)
    assert [(1, 3)] == send_all(made)


def test_live_frames_go_before_catch_up_which_leaves_half_of_a_worker_to_them() -> None:
    """Also of another task, and whatever waited longer; what is counted as waiting is both."""
    made = dispatch(beacon(1, window=10, tasks=("work", "other")))
    made.release([frame(number, 2, is_catch_up=True) for number in range(1, 5)])
    made.release([frame(5, 2), frame(6, 2, "other")])

    assert [(1, 5), (1, 6)] == send_all(made)
    assert {("default", "work"): 8} == made.waiting()
    done = beacon(1, window=10, received=2, tasks=("work", "other"))
    made.on_beacon(done, 0)
    assert [(1, 1), (1, 2)] == send_all(made), "four of ten, and six would be more than half"
    made.release([frame(7, 6)])
    assert [(1, 7)] == send_all(made)
    assert {("default", "work"): 4} == made.waiting()
    made.drop(0)
    assert made.waiting() == {}


def test_catch_up_larger_than_half_a_worker_goes_to_one_that_has_nothing_else() -> None:
    made = dispatch(beacon(1, window=10))
    made.release([frame(1, 8, is_catch_up=True)])
    assert [(1, 1)] == send_all(made)


def test_the_worker_with_the_most_credit_is_chosen() -> None:
    made = dispatch(beacon(1, window=5), beacon(2, window=7))
    made.release([frame(number, 3) for number in (1, 2, 3)])

    assert [(2, 1), (1, 2), (2, 3)] == send_all(made)


def test_a_task_without_a_worker_waits_visibly_and_holds_up_nobody() -> None:
    made = dispatch(beacon(1))
    made.release([frame(1, 1, task="other"), frame(2)])

    assert [(1, 2)] == send_all(made)
    assert {("default", "other"): 1} == made.waiting()
    made.on_beacon(beacon(1, received=1, tasks=("work", "other")), 0)
    assert [(1, 1)] == send_all(made)


def test_a_frame_larger_than_the_window_goes_to_a_worker_that_has_nothing_else() -> None:
    """The one case in which credit is exceeded."""
    made = dispatch(beacon(1, window=4))
    made.release([frame(1), frame(2, 9), frame(3)])

    assert [(1, 1)] == send_all(made)
    made.on_beacon(beacon(1, window=4, received=1), 0)
    assert [(1, 2)] == send_all(made)


def test_a_large_frame_is_not_starved_by_small_ones_of_another_task() -> None:
    """A worker that could run the older frame is kept for it until its credit suffices."""
    made = dispatch(beacon(1, tasks=("work", "small")), beacon(2, tasks=("small",)))
    made.release([frame(1, 6), frame(2, 8), frame(3, 1, task="small")])

    assert [(1, 1), (2, 3)] == send_all(made)
    made.on_workers({1: "w1"}, 0)
    made.release([frame(4, 1, task="small")])
    assert [] == send_all(made)
    made.on_beacon(beacon(1, tasks=("work", "small"), received=1, in_hand={1: 1}), 0)
    assert [(1, 2), (1, 4)] == send_all(made)


@pytest.mark.parametrize(
    "told",
    [
        beacon(1, window=0),
        beacon(1, draining=True),
        beacon(1, tasks=("other",)),
    ],
)
def test_who_wants_nothing_or_knows_not_the_task_gets_nothing(told: Beacon) -> None:
    made = dispatch(told)
    made.release([frame(1)])

    assert [] == send_all(made)


def test_a_silent_worker_gets_nothing_new_and_loses_what_it_had_after_a_while() -> None:
    made = dispatch(beacon(1))
    made.release([frame(1), frame(2)])
    first = made.next_send(0)
    assert first is not None
    made.on_sent(first, is_sent=True)
    made.on_beacon(beacon(1, received=1, in_hand={1: 1}), 0)

    assert made.next_send(SILENCE_US + 1) is None
    assert made.next_send(SILENCE_US) is not None
    assert made.overdue(UNANSWERED_US) == []
    assert made.overdue(UNANSWERED_US + 99 * MS) == [], "looked a moment ago"
    assert made.overdue(UNANSWERED_US + 100 * MS) == [FrameName(0, 1), FrameName(0, 2)]
    assert made.overdue(UNANSWERED_US + 200 * MS) == []


def test_what_is_not_held_in_time_is_claimed_anew_though_the_worker_speaks() -> None:
    made = dispatch(beacon(1))
    made.release([frame(1), frame(2)])
    send_all(made)
    made.on_beacon(beacon(1, received=1, in_hand={1: 1}), UNANSWERED_US)

    assert made.overdue(UNANSWERED_US + 1) == [FrameName(0, 2)]


def test_a_worker_that_joined_and_never_spoke_holds_nothing() -> None:
    made = Dispatch(silence_us=SILENCE_US, unanswered_us=UNANSWERED_US)
    made.on_workers({1: "w1"}, 0)
    made.release([frame(1)])

    assert made.next_send(0) is None
    assert {1: "w1"} == made.addresses()


def test_a_beacon_divides_what_was_sent_into_held_lost_finished_and_unheard_of() -> None:
    made = dispatch(beacon(1))
    made.release([frame(number) for number in (1, 2, 3, 4)])
    send_all(made)

    finished, unanswered = made.on_beacon(beacon(1, received=3, in_hand={1: 1}, lost=(2,)), 0)

    assert ([FrameName(0, 3)], [FrameName(0, 2)]) == (finished, unanswered)
    assert ([], []) == made.on_beacon(beacon(1, received=3, in_hand={1: 1}, lost=(2,)), 0)
    finished, unanswered = made.on_beacon(beacon(1, received=4), 0)
    assert ([FrameName(0, 1), FrameName(0, 4)], []) == (finished, unanswered)


def test_nothing_is_believed_of_a_worker_that_is_not_known() -> None:
    made = dispatch(beacon(1))

    assert ([], []) == made.on_beacon(beacon(7, received=9), 0)
    assert made.on_returned(Returned(VERSION, 7, LEADER, 1, (1,))) is None


def test_what_is_returned_names_the_frame_it_came_with() -> None:
    made = dispatch(beacon(1))
    made.release([frame(1, 3, shard=2)])
    send_all(made)
    returned = Returned(VERSION, 1, LEADER, 1, (1_001,))

    assert (FrameName(2, 1), (1_001,)) == made.on_returned(returned)
    made.on_beacon(beacon(1, received=1), 0)
    assert made.on_returned(returned) is None


def test_a_dead_worker_loses_all_it_was_sent() -> None:
    made = dispatch(beacon(1), beacon(2))
    made.release([frame(1), frame(2), frame(3)])
    sent = send_all(made)

    names = made.on_workers({2: "w2"}, 0)

    assert [FrameName(0, no) for worker, no in sent if worker == 1] == names
    assert [] == made.on_workers({2: "w2"}, 0)


def test_a_refused_send_waits_first_in_its_lane_and_its_number_is_used_again() -> None:
    """No gap in the sequence, and nothing more for that worker until it speaks."""
    made = dispatch(beacon(1))
    made.release([frame(1), frame(2)])
    refused = made.next_send(0)
    assert refused is not None
    made.on_sent(refused, is_sent=False)

    assert made.next_send(0) is None
    made.on_beacon(beacon(1), 0)
    again = made.next_send(0)
    assert again is not None
    assert (refused.seq, refused.frame.frame_no) == (again.seq, again.frame.frame_no)


def test_a_shard_that_is_no_longer_led_is_forgotten_and_its_credit_is_free() -> None:
    made = dispatch(beacon(1, window=3))
    made.release([frame(1, 3, shard=0), frame(2, 2, shard=0), frame(3, 2, shard=1)])
    send_all(made)
    made.drop(0)

    assert {("default", "work"): 2} == made.waiting()
    assert [(1, 3)] == send_all(made)
    assert ([FrameName(1, 3)], []) == made.on_beacon(beacon(1, received=2), 0)


def test_no_more_frames_are_outstanding_than_a_beacon_can_list() -> None:
    made = dispatch(beacon(1, window=1_000_000))
    made.release([frame(number) for number in range(1, OUTSTANDING_FRAMES_MAX + 3)])

    assert OUTSTANDING_FRAMES_MAX == len(send_all(made))


class DispatchMachine(RuleBasedStateMachine):
    """Against a model: credit, order within a lane, and each frame in one place only."""

    WINDOW = 7

    @initialize()
    def begin(self) -> None:
        self.made = Dispatch(silence_us=SILENCE_US, unanswered_us=UNANSWERED_US)
        self.now_us = 0
        self.next_no = 1
        self.living: dict[int, tuple[str, ...]] = {}
        self.next_worker = 1
        self.waiting: dict[str, deque[int]] = {"a": deque(), "b": deque()}
        self.sizes: dict[int, int] = {}
        self.tasks: dict[int, str] = {}
        self.sent: dict[int, dict[int, int]] = {}  # worker -> seq -> frame number
        self.received: dict[int, int] = {}
        self.next_seq: dict[int, int] = {}
        self.remaining: dict[int, int] = {}
        self.gone: set[int] = set()

    @rule(tasks=st.sampled_from([("a",), ("b",), ("a", "b")]))
    def join(self, tasks: tuple[str, ...]) -> None:
        worker, self.next_worker = self.next_worker, self.next_worker + 1
        self.living[worker] = tasks
        self.sent[worker] = {}
        self.received[worker] = 0
        self.next_seq[worker] = 1
        self.made.on_workers(dict.fromkeys(self.living, "w"), self.now_us)

    @rule(count=st.integers(1, 12), task=st.sampled_from("ab"))
    def release(self, count: int, task: str) -> None:
        number, self.next_no = self.next_no, self.next_no + 1
        self.made.release([frame(number, count, task=task)])
        self.waiting[task].append(number)
        self.sizes[number] = self.remaining[number] = count
        self.tasks[number] = task

    @rule(us=st.sampled_from([1 * MS, 900 * MS, 3 * S]))
    def wait(self, us: int) -> None:
        self.now_us += us

    @rule(is_sent=st.sampled_from([True, True, True, False]))
    def send(self, is_sent: bool) -> None:
        send = self.made.next_send(self.now_us)
        if send is None:
            return
        self._check(send)
        self.made.on_sent(send, is_sent=is_sent)
        if is_sent:
            number = self.waiting[send.frame.task].popleft()
            self.sent[send.worker_id][send.seq] = number
            self.next_seq[send.worker_id] += 1

    def _check(self, send: Send) -> None:
        number, worker = send.frame.frame_no, send.worker_id
        assert worker in self.living
        assert send.frame.task in self.living[worker]
        assert number == self.waiting[send.frame.task][0], "first in, first out within a lane"
        assert send.seq == self.next_seq[worker], "no gap in what a worker is sent"
        promised = sum(self.remaining[no] for no in self.sent[worker].values())
        fits = promised + self.sizes[number] <= self.WINDOW
        assert fits or not self.sent[worker], "credit was exceeded"

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def hear(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.living)))
        sent = self.sent[worker]
        sent_up_to = self.next_seq[worker] - 1
        received = data.draw(st.integers(self.received[worker], sent_up_to))
        in_hand, lost = {}, []
        expected: tuple[list[FrameName], list[FrameName]] = ([], [])
        for seq, number in list(sent.items()):
            if seq > received:
                continue
            is_new = seq > self.received[worker]
            fate = data.draw(st.sampled_from(["held", "finished", *(["lost"] if is_new else [])]))
            if fate == "held":
                left = data.draw(st.integers(1, self.remaining[number]))
                in_hand[seq] = self.remaining[number] = left
                continue
            if fate == "lost":
                lost.append(seq)
            expected[fate == "lost"].append(FrameName(0, number))
            self._leave(worker, seq)
        self.received[worker] = received
        told = beacon(
            worker,
            window=self.WINDOW,
            received=received,
            in_hand=in_hand,
            lost=tuple(lost),
            tasks=self.living[worker],
        )

        assert expected == self.made.on_beacon(told, self.now_us)

    @rule()
    def reclaim(self) -> None:
        for name in self.made.overdue(self.now_us):
            self._lose(name)

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.living)))
        del self.living[worker]
        names = self.made.on_workers(dict.fromkeys(self.living, "w"), self.now_us)
        expected = [FrameName(0, number) for number in self.sent[worker].values()]
        assert expected == names
        for name in names:
            self._lose(name)

    def _lose(self, name: FrameName) -> None:
        for worker, sent in self.sent.items():
            for seq, number in list(sent.items()):
                if number == name.frame_no:
                    self._leave(worker, seq)
                    return
        raise AssertionError(f"{name} was not outstanding")

    def _leave(self, worker: int, seq: int) -> None:
        number = self.sent[worker].pop(seq)
        assert number not in self.gone
        self.gone.add(number)

    @invariant()
    def waiting_agrees(self) -> None:
        expected = {
            ("default", task): sum(self.sizes[number] for number in lane)
            for task, lane in self.waiting.items()
            if lane
        }
        assert expected == self.made.waiting()


TestDispatchMachine = DispatchMachine.TestCase
TestDispatchMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
