"""Scheduler and worker as actors in virtual time: the simulated drivers of the cores.

They do what mainspring.scheduler and mainspring.worker do with threads and sockets, by events.  An
actor that is paused handles nothing until it goes on; one that crashed never does again.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mainspring.clock import DatabaseClock
from mainspring.core.carrying import carry_out
from mainspring.core.catch_up import CatchUps
from mainspring.core.completion import Chance, complete_runs
from mainspring.core.dispatch import Dispatch, FrameName
from mainspring.core.ending import Report
from mainspring.core.execution import Execution, RunBegin, WorkerLimits
from mainspring.core.leader import LeaderLimits, LeaderTimes, ShardLeader
from mainspring.core.now import Now
from mainspring.core.observer import DeathObserver
from mainspring.core.preparation import Leadership, Recipe
from mainspring.core.requests import Failed
from mainspring.core.starting import start_firings
from mainspring.core.trust import TrustWindow
from mainspring.cron import OccurrenceMemo
from mainspring.errors import MainspringError, StoreUnavailable, TermLost
from mainspring.frame import decode
from mainspring.metrics import WorkerCounts
from mainspring.queue.answers import VERSION, Beacon, Envelope, Hints, Returned
from simulation.clockwork import Clockwork
from simulation.faults import FaultyStore

MS = 1_000
S = 1_000_000
DEAD_AFTER_US = 5 * S
SOON_US = 5 * MS  # events close together are handled in one round

CATCH_UP_RATE = 20.0


class Actor:
    """Something that lives, pauses and crashes."""

    def __init__(self, work: Clockwork, rng: random.Random) -> None:
        self.work = work
        self.rng = rng
        self.is_alive = True
        self.paused_since_us = 0
        self.paused_until_us = 0
        self._wake_us: int | None = None

    def later(self, delay_us: int, event: Callable[[], None]) -> None:
        """Do something later, if still alive then; a pause puts it off."""

        def guarded() -> None:
            if not self.is_alive:
                return
            if self.work.now_us < self.paused_until_us:
                self.work.at(self.paused_until_us, guarded)
                return
            event()

        self.work.after(delay_us, guarded)

    def pause(self, duration_us: int) -> None:
        """Stop, as SIGSTOP does, and go on later."""
        if self.work.now_us >= self.paused_until_us:
            self.paused_since_us = self.work.now_us
        self.paused_until_us = max(self.paused_until_us, self.work.now_us + duration_us)

    def is_frozen(self, for_us: int) -> bool:
        """Return whether the actor has been paused that long by now."""
        now_us = self.work.now_us
        return now_us < self.paused_until_us and now_us - self.paused_since_us > for_us

    def wake(self, at_us: int | None = None) -> None:
        """Have a round made at that instant, or soon; the earliest wish counts."""
        now_us = self.work.now_us
        at_us = now_us + SOON_US if at_us is None else max(at_us, now_us)
        if self._wake_us is not None and self._wake_us <= at_us:
            return
        self._wake_us = at_us
        self.later(at_us - self.work.now_us, lambda: self._woken(at_us))

    def _woken(self, at_us: int) -> None:
        if self._wake_us == at_us:
            self._wake_us = None
            self.wake(self.round())

    def round(self) -> int:
        """What the process' loop does each time round; returns when it wants to be woken."""
        raise NotImplementedError

    def every(self, period_us: int, event: Callable[[], None]) -> None:
        """Do something again and again."""

        def again() -> None:
            self.later(period_us, again)
            event()

        self.later(self.rng.randrange(period_us), again)


class SimScheduler(Actor):
    """One scheduler process."""

    def __init__(
        self,
        work: Clockwork,
        rng: random.Random,
        store: FaultyStore,
        network: Any,
        *,
        arm_ahead_us: int,
        queue_firings: int,
        page_rows: int,
        memo: OccurrenceMemo,
    ) -> None:
        super().__init__(work, rng)
        self.store = store
        self.network = network
        self.holder_id = 0
        self.clock = DatabaseClock()
        self.times = LeaderTimes(
            tick_us=50 * MS,
            arm_ahead_us=arm_ahead_us,
            refill_us=10 * S,
            horizon_us=60 * S,
            sweep_us=1 * S,
        )
        self.limits = LeaderLimits(page_rows=page_rows, queue_firings=queue_firings)
        self.dispatch = Dispatch(silence_us=1 * S, unanswered_us=5 * S)
        self.observer = DeathObserver(dead_after_us=DEAD_AFTER_US)
        self.led: dict[int, tuple[ShardLeader, Leadership, TrustWindow]] = {}
        self.terms: dict[int, int] = {}
        self.poll_at_us: dict[int, int] = {}
        """When each leader wants to be polled; one that promised too late is caught by that."""
        self.extension_us = 0
        self.frame_numbers = itertools.count(1)
        self.chance = Chance(memo, rng.random)
        self.recipe = Recipe(
            memo, 50 * MS, 16, lambda: next(self.frame_numbers), CatchUps(CATCH_UP_RATE)
        )
        self.every(1 * S, self.pulse)
        self.wake()

    def now(self) -> Now:
        """Return what the core is told; this process' monotonic clock is true time."""
        t = self.work.now_us
        return Now(t, self.clock.low_us(t), self.clock.high_us(t))

    def hint(self, shard: int, due_us: int, firing_id: int) -> None:
        """Take a NOTIFY."""
        if shard in self.led and self.work.now_us >= self.paused_until_us:
            self.leader(shard).on_hints(
                np.array([firing_id], np.int64), np.array([due_us], np.int64)
            )
            self.wake()

    def leader(self, shard: int) -> ShardLeader:
        """Return a leader to tell it something; it is polled in the next round."""
        self.poll_at_us[shard] = 0
        return self.led[shard][0]

    def unanswered(self, names: Iterable[FrameName]) -> None:
        """Have frames claimed anew."""
        for name in names:
            if name.shard in self.led:
                self.leader(name.shard).on_unanswered(name.frame_no)

    def pulse(self) -> None:
        """Beat, read, declare, renew, campaign."""
        self.wake()
        try:
            if not self.holder_id:
                self.holder_id = self.store.register_holder("scheduler", f"s{id(self)}", "s")
                self.network.schedulers[self.holder_id] = self
            if not self.store.beat(self.holder_id):
                self.network.schedulers.pop(self.holder_id, None)
                self.holder_id = 0
                self.drop_all()
                return
            sent_us = self.work.now_us - self.rng.randrange(1, 3 * MS)
            reading = self.store.read_holders()
            self.clock.observe(sent_us, self.work.now_us, reading.read_us)
            for death in self.observer.on_reading(self.work.now_us, reading):
                if death.holder_id != self.holder_id:
                    self.store.declare_dead(death.holder_id, death.beat)
            self.extension_us = self.observer.extension_us(self.work.now_us)
            workers = {h.holder_id: h.address for h in reading.holders if h.kind == "worker"}
            if self.dispatch.addresses().keys() - workers.keys():
                for shard in self.led:
                    self.leader(shard).on_worker_gone(self.now())
            self.unanswered(self.dispatch.on_workers(workers, self.work.now_us))
            if self.terms:
                standing = self.store.renew_terms(self.holder_id, dict(self.terms))
                for shard in list(self.terms):
                    if shard in standing:
                        if shard in self.led:
                            self.led[shard][2].renewed(sent_us)
                    else:
                        self.drop(shard)
            for shard in range(self.store.count_shards()):
                if shard not in self.terms and self.network.may_lead(shard, self):
                    self.terms[shard] = self.store.take_term(shard, self.holder_id)
                    trust = TrustWindow(ttl_us=3 * S, margin_us=500 * MS)
                    trust.renewed(sent_us)
                    leader = ShardLeader(shard, self.times, self.limits, self.now())
                    who = Leadership(shard, self.terms[shard], self.holder_id)
                    self.led[shard] = (leader, who, trust)
                    self.poll_at_us[shard] = 0
        except StoreUnavailable:
            self.observer.on_failure(self.work.now_us)

    def drop(self, shard: int) -> None:
        """Throw a shard's state away."""
        self.led.pop(shard, None)
        self.terms.pop(shard, None)
        self.dispatch.drop(shard)

    def forget_terms(self) -> None:
        """Lose trust in every term, as after a pause; the election is still won."""
        self.drop_all()

    def stop(self) -> None:
        """SIGTERM: hand back, resign, leave."""
        try:
            for shard, (leader, who, _) in self.led.items():
                self.store.hand_back(self.holder_id, *leader.hand_back())
                self.store.end_term(shard, who.term, self.holder_id)
            self.store.leave(self.holder_id)
        except StoreUnavailable:
            pass  # others will notice
        self.is_alive = False

    def drop_all(self) -> None:
        """Throw everything away."""
        for shard in list(self.terms):
            self.drop(shard)

    def round(self) -> int:
        """Poll the leaders, release, reclaim, send."""
        t = self.work.now_us
        wake_us = t + 200 * MS
        if not self.clock.is_known:
            return wake_us
        for shard, (leader, who, trust) in list(self.led.items()):
            if not trust.is_open(t):
                continue
            if t < self.poll_at_us[shard]:
                wake_us = min(wake_us, self.poll_at_us[shard])
                continue
            request, released = leader.poll(self.now(), self.extension_us)
            self.dispatch.release(released)
            if request is not None:
                self.later(self.network.call_us(), self._carrier(shard, who, request))
            self.poll_at_us[shard] = leader.next_wake_us(self.now())
            wake_us = min(wake_us, self.poll_at_us[shard])
        self.unanswered(self.dispatch.overdue(t))
        while (send := self.dispatch.next_send(t)) is not None:
            led = self.led.get(send.frame.shard)
            if led is None or not led[2].is_open(t):
                self.dispatch.on_sent(send, is_sent=False)
                self.drop(send.frame.shard)
                continue
            is_sent = not self.network.is_refused()
            self.dispatch.on_sent(send, is_sent=is_sent)
            if is_sent:
                envelope = Envelope(VERSION, self.holder_id, send.worker_id, send.seq, "s")
                self.network.deliver(envelope, send.frame.data)
        return wake_us

    def _carrier(self, shard: int, who: Leadership, request: Any) -> Callable[[], None]:
        def carry() -> None:
            try:
                answer: Any = carry_out(self.store, who, request, self.recipe, self.chance)
            except MainspringError as error:
                answer = Failed(error)
            self.later(self.rng.randrange(1, 10 * MS), lambda: self._answered(shard, who, answer))

        return carry

    def _answered(self, shard: int, who: Leadership, answer: Any) -> None:
        led = self.led.get(shard)
        if led is None or led[1].term != who.term:
            return
        if isinstance(answer, Failed) and isinstance(answer.error, TermLost):
            self.drop(shard)
            return
        self.leader(shard).on_answer(answer, self.now())
        self.wake()

    def take(self, answer: Any) -> None:
        """Take what a worker said."""
        self.wake()
        match answer:
            case Beacon():
                finished, unanswered = self.dispatch.on_beacon(answer, self.work.now_us)
                for name in finished:
                    if name.shard in self.led:
                        self.leader(name.shard).on_finished(name.frame_no)
                self.unanswered(unanswered)
            case Returned():
                place = self.dispatch.on_returned(answer)
                if place and place[0].shard in self.led:
                    self.leader(place[0].shard).on_unanswered(place[0].frame_no, place[1])
            case Hints():
                for shard, firing_id, due_us in zip(
                    answer.shards, answer.firing_ids, answer.due_us, strict=True
                ):
                    self.hint(shard, due_us, firing_id)


class SimWorker(Actor):
    """One worker process."""

    def __init__(
        self,
        work: Clockwork,
        rng: random.Random,
        store: FaultyStore,
        network: Any,
        *,
        concurrency: int,
        run: Callable[[SimWorker, RunBegin], tuple[int, Report | None]],
        memo: OccurrenceMemo,
    ) -> None:
        super().__init__(work, rng)
        self.store = store
        self.network = network
        self.run = run
        self.limits = WorkerLimits(
            concurrency=concurrency,
            window_firings=64,
            start_ahead_us=100 * MS,
            complete_rows=50,
            complete_delay_us=10 * MS,
            beacon_us=300 * MS,
            hint_horizon_us=60 * S,
        )
        self.execution: Execution | None = None
        self.trust = TrustWindow(ttl_us=4 * S + 500 * MS, margin_us=500 * MS)
        self.chance = Chance(memo, rng.random)
        self.every(1 * S, self.beat)
        self.every(1 * S, self.read_directory)
        self.wake()

    def beat(self) -> None:
        """Register, or beat; a worker that finds itself dead draws a new id."""
        self.wake()
        sent_us = self.work.now_us
        try:
            if self.execution is not None and self.store.beat(self.execution.worker_id):
                self.trust.renewed(sent_us)
                return
            self.trust.close()
            holder_id = self.store.register_holder("worker", f"w{id(self)}", "w")
        except StoreUnavailable:
            return
        self.network.workers[holder_id] = self
        if self.execution is None:
            self.execution = Execution(
                holder_id,
                self.limits,
                queues=("default",),
                tasks=("work",),
                counts=WorkerCounts(),
                on_dropped=lambda _reason: None,
            )
        else:
            self.execution.on_new_identity(holder_id)
        self.trust.renewed(sent_us)

    def read_directory(self) -> None:
        """Learn which schedulers are alive."""
        if self.execution is None:
            return
        try:
            reading = self.store.read_holders()
        except StoreUnavailable:
            return
        self.execution.on_leaders(
            {h.holder_id: h.address for h in reading.holders if h.kind == "scheduler"}
        )

    def take(self, envelope: Envelope, data: bytes) -> None:
        """Take a delivery."""
        if self.execution is not None:
            self.execution.on_delivery(envelope, decode(data))
            self.wake()

    def drain(self) -> None:
        """SIGTERM: give back what is not started, finish what runs, leave."""
        if self.execution is not None:
            self.execution.on_drain()
            self.wake()

    def round(self) -> int:
        """Start, begin, complete, answer."""
        execution = self.execution
        t = self.work.now_us
        if execution is None:
            return t + S
        work = execution.poll(t, is_trusted=self.trust.is_open(t))
        for told in work.answers:
            self.network.answer(told.leader, told.answer)
        for begin in work.begin:
            duration_us, report = self.run(self, begin)
            if report is not None and self.is_alive:
                self.later(duration_us, self._ender(begin.run_key, report))
        if work.start is not None:
            self.later(self.network.call_us(), self._starter(work.start))
        if work.complete is not None:
            self.later(self.network.call_us(), self._completer(work.complete))
        if execution.draining and execution.is_idle and self.is_alive:
            self._leave(execution)
        return execution.next_wake_us(t)

    def _leave(self, execution: Execution) -> None:
        with contextlib.suppress(StoreUnavailable):
            self.store.leave(execution.worker_id)
        self.is_alive = False
        self.network.on_left(self)

    def _ender(self, run_key: int, report: Report) -> Callable[[], None]:
        def end() -> None:
            assert self.execution is not None
            self.execution.on_run_ended(run_key, report, self.work.now_us)
            self.wake()

        return end

    def _starter(self, request: Any, tries: int = 0) -> Callable[[], None]:
        def start() -> None:
            assert self.execution is not None
            starts = start_firings(self.store, request, slack_s=5, wait=lambda tries: tries < 4)
            if starts is None:  # go on trying: what was started must be known
                self.later(100 * MS, self._starter(request))
                return
            self.execution.on_started(starts)
            self.wake()

        return start

    def _completer(self, pending: Any) -> Callable[[], None]:
        def complete() -> None:
            assert self.execution is not None
            try:
                results = complete_runs(self.store, pending, self.chance)
                database_us = self.store.database_us()
            except StoreUnavailable:
                self.later(100 * MS, self._completer(pending))
                return
            self.execution.on_completed(results, database_us)
            self.wake()

        return complete
