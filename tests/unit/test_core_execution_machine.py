"""A worker's core against a model of what it was sent, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainspring.core.completion import PendingEnd
from mainspring.core.execution import StartRequest
from mainspring.queue.answers import Returned, decode_answer, encode
from mainspring.store.protocol import Acceptance
from unit.core_stage import EPOCH_US, MS
from unit.worker_stage import SUCCESS, completed, deliver, execution, started


class ExecutionMachine(RuleBasedStateMachine):
    """Every firing received ends in exactly one way, and no more run than may."""

    @initialize(concurrency=st.integers(1, 4))
    def begin(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.made = execution(concurrency, start_ahead_us=50 * MS, complete_rows=3)
        self.now_us = 0
        self.seq = 0
        self.next_id = 1
        self.received: set[int] = set()
        self.asked: set[int] = set()
        self.begun: set[int] = set()
        self.ended: set[int] = set()
        self.returned: set[int] = set()
        self.forgotten: set[int] = set()
        self.request: StartRequest | None = None
        self.running: dict[int, int] = {}
        self.completing: list[PendingEnd] | None = None

    @rule(count=st.integers(1, 6), skipped=st.sampled_from([0, 0, 0, 2]))
    def deliver(self, count: int, skipped: int) -> None:
        self.seq += 1 + skipped
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        deliver(self.made, self.seq, dict.fromkeys(ids, 1))
        self.received.update(ids)

    @rule(us=st.sampled_from([0, 3 * MS, 60 * MS]), is_trusted=st.booleans())
    def poll(self, us: int, is_trusted: bool) -> None:
        self.now_us += us
        work = self.made.poll(self.now_us, is_trusted=is_trusted)
        if work.start is not None:
            assert is_trusted
            assert self.request is None
            self.request = work.start
            ids = set(work.start.firing_ids.tolist())
            assert len(ids) == len(work.start.firing_ids)
            assert not ids & (self.asked | self.returned | self.forgotten)
            self.asked |= ids
        for each in work.begin:
            firing_id = int(each.frame.firing_id[each.index])
            assert firing_id not in self.begun
            self.begun.add(firing_id)
            self.running[each.run_key] = firing_id
        if work.complete is not None:
            assert self.completing is None
            self.completing = work.complete
        for told_to in work.answers:
            assert decode_answer(encode(told_to.answer)) == told_to.answer
            if isinstance(told_to.answer, Returned):
                ids = set(told_to.answer.firing_ids)
                assert not ids & (self.returned | self.begun)
                self.returned |= ids
        assert self.made.next_wake_us(self.now_us) > self.now_us

    @precondition(lambda self: self.request is not None)
    @rule(data=st.data())
    def answer_start(self, data: st.DataObject) -> None:
        assert self.request is not None
        ids = self.request.firing_ids.tolist()
        refused = data.draw(st.sets(st.sampled_from(ids)))
        self.made.on_started(started(self.request, *refused))
        self.request = None

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.made.on_run_ended(key, SUCCESS, self.now_us)
        self.ended.add(self.running.pop(key))

    @precondition(lambda self: self.completing is not None)
    @rule(acceptance=st.sampled_from(Acceptance))
    def answer_completion(self, acceptance: Acceptance) -> None:
        assert self.completing is not None
        self.made.on_completed(completed(self.completing, acceptance, EPOCH_US), EPOCH_US)
        self.completing = None

    @rule()
    def new_identity(self) -> None:
        open_ids = self.received - self.asked - self.returned - self.forgotten
        self.poll(0, False)
        self.made.on_new_identity(self.made.worker_id + 1)
        self.forgotten |= open_ids
        self.seq = 0

    @invariant()
    def no_more_run_than_may(self) -> None:
        assert len(self.running) == self.made.running_count <= self.concurrency

    def teardown(self) -> None:
        """Drain: everything received was begun, returned or forgotten, each once."""
        if not hasattr(self, "made"):
            return
        self.made.on_drain()
        refused = set()
        for _ in range(1_000):
            if self.request is not None:
                if self.request.worker_id != self.made.worker_id:
                    refused |= set(self.request.firing_ids.tolist())
                    self.made.on_started(started(self.request, *self.request.firing_ids.tolist()))
                else:
                    self.made.on_started(started(self.request))
                self.request = None
            self.poll(10 * MS, False)
            for key in list(self.running):
                self.made.on_run_ended(key, SUCCESS, self.now_us)
                self.ended.add(self.running.pop(key))
            if self.completing is not None:
                self.answer_completion(Acceptance.ACCEPTED)
            if self.made.is_idle:
                break
        self.poll(10 * MS, False)
        assert self.made.is_idle
        assert 0 == self.made.held_count
        assert self.begun == self.ended
        unexplained = self.received - self.begun - self.returned - self.forgotten - refused
        assert unexplained <= self.asked, f"neither run, returned nor forgotten: {unexplained}"
        assert not self.begun & (self.returned | self.forgotten)


TestExecutionMachine = ExecutionMachine.TestCase
TestExecutionMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
