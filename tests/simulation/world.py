"""A whole cluster in one process: store, network, actors, jobs and a nemesis, from one seed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mainspring.core.ending import Report
from mainspring.core.execution import RunBegin
from mainspring.cron import OccurrenceMemo
from mainspring.errors import Conflict, NotFound
from mainspring.instants import format_instant
from mainspring.model import Backoff, DeadLetter, Definition, JobId, MissedWindow, NewJob
from mainspring.queue.answers import Envelope
from simulation.actors import MS, Actor, S, SimScheduler, SimWorker
from simulation.clockwork import Clockwork
from simulation.faults import FaultyStore, Rates
from simulation.recording import RecordingStore

DATABASE_EPOCH_US = 1_780_920_000 * S
FAULTS_UNTIL_S = 25
FROZEN_US = 3 * S  # the TTL of a term


@dataclass(frozen=True)
class Begun:
    """One handler that was begun: what a worker's own log would say."""

    job_id: int
    scheduled_us: int
    attempt: int
    firing_id: int
    fence: int
    database_us: int
    worker: int
    catch_up: bool


@dataclass
class Registered:
    """A job as its user knows it.

    `plan` is what its handler does at attempt 1, 2, ...; beyond its end it succeeds.
    """

    job_id: JobId
    first_us: int
    period_us: int
    plan: tuple[str, ...]


@dataclass
class History:
    """What the checker reads besides the store."""

    begun: list[Begun] = field(default_factory=list)
    jobs: dict[int, Registered] = field(default_factory=dict)
    strikes: int = 0


class World:
    """One seed's cluster."""

    def __init__(self, seed: int, rates: Rates | None = None) -> None:
        self.rng = random.Random(seed)
        self.rates = Rates.draw(self.rng) if rates is None else rates
        self.work = Clockwork()
        self.started_us = self.work.now_us
        self.database_offset_us = DATABASE_EPOCH_US - self.work.now_us
        self._highest_offset_us = self.database_offset_us
        self.store = RecordingStore(self.database_us, hints=self.notify)
        self.store.make_shards(self.rng.choice([1, 3]))
        self.store.make_partitions(days_ahead=2)
        self.schedulers: dict[int, SimScheduler] = {}
        self.workers: dict[int, SimWorker] = {}
        self.actors: list[Actor] = []
        self.stores: list[FaultyStore] = []
        self.leading: dict[int, SimScheduler] = {}
        self.history = History()
        self.is_faulty = True
        self._channel_us: dict[tuple[int, int], int] = {}
        self._memo = OccurrenceMemo()
        self._options = {
            "arm_ahead_us": self.rng.choice([0, 1 * S, 3 * S]),
            "queue_firings": self.rng.choice([30, 400, 10_000]),
            "page_rows": self.rng.choice([3, 50, 1_000]),
        }
        self._concurrency = self.rng.choice([2, 8, 40])
        for _ in range(self.rng.choice([1, 1, 2])):
            self.start_scheduler()
        for _ in range(self.rng.choice([1, 2, 3])):
            self.start_worker()
        self._plan_jobs()
        self._plan_nemesis()

    def database_us(self) -> int:
        """The database clock."""
        return self.work.now_us + self.database_offset_us

    def run_faults(self) -> None:
        """Let everything go wrong, and then heal it; everything must come to its end."""
        self.run_until(FAULTS_UNTIL_S)
        self.heal()

    def run_until(self, second: int) -> None:
        """Go on to so many seconds after the beginning."""
        self.work.run_until(self.started_us + second * S)

    def letters(self) -> list[DeadLetter]:
        """Return all dead letters."""
        letters: list[DeadLetter] = []
        after = None
        while page := self.store.list_dead_letters(limit=500, after=after):
            letters += page
            after = (page[-1].died_us, page[-1].firing_id, page[-1].fence)
        return letters

    def heal(self) -> None:
        """End every fault; the database clock goes to the latest that it ever showed."""
        self.is_faulty = False
        self.database_offset_us = self._highest_offset_us
        for store in self.stores:
            store.rates = Rates()
            store.is_down = False
        if not any(isinstance(a, SimWorker) and a.is_alive for a in self.actors):
            self.start_worker()

    def start_scheduler(self) -> None:
        """Start a scheduler process."""
        store = self._faulty_store()
        scheduler = SimScheduler(
            self.work,
            random.Random(self.rng.random()),
            store,
            self,
            memo=self._memo,
            **self._options,
        )
        self.actors.append(scheduler)

    def start_worker(self) -> None:
        """Start a worker process."""
        worker = SimWorker(
            self.work,
            random.Random(self.rng.random()),
            self._faulty_store(),
            self,
            concurrency=self._concurrency,
            run=self.begin,
            memo=self._memo,
        )
        self.actors.append(worker)

    def may_lead(self, shard: int, scheduler: SimScheduler) -> bool:
        """The election: a lock that its holder's death frees, and its silence for a TTL."""
        holder = self.leading.get(shard)
        if holder is None or not holder.is_alive or holder.is_frozen(FROZEN_US):
            self.leading[shard] = scheduler
        return self.leading[shard] is scheduler

    def call_us(self) -> int:
        """How long a call takes to reach the store."""
        is_slow = self._is_lost(self.rates.call_slow)
        return self.rng.randrange(1, 3 * S if is_slow else 20 * MS)

    def is_refused(self) -> bool:
        """Whether a socket does not take a frame."""
        return self._is_lost(self.rates.send_refused)

    def notify(self, shard: int, due_us: int, firing_id: int) -> None:
        """NOTIFY: a hint, which may be lost."""
        for scheduler in list(self.schedulers.values()):
            if scheduler.is_alive and self.rng.random() < 0.9:
                self.work.after(
                    MS, lambda s=scheduler: s.is_alive and s.hint(shard, due_us, firing_id)
                )

    def deliver(self, envelope: Envelope, data: bytes) -> None:
        """Leader to worker: in order, and sometimes not at all."""
        worker = self.workers.get(envelope.worker)
        if worker is None or self._is_lost(self.rates.delivery_lost):
            return
        self._send((envelope.leader, envelope.worker), worker, lambda: worker.take(envelope, data))

    def answer(self, leader_id: int, answer: Any) -> None:
        """Worker to leader: in order, and sometimes not at all."""
        scheduler = self.schedulers.get(leader_id)
        if scheduler is None or self._is_lost(self.rates.answer_lost):
            return
        self._send((answer.worker, -leader_id), scheduler, lambda: scheduler.take(answer))

    def begin(self, worker: SimWorker, begin: RunBegin) -> tuple[int, Report | None]:
        """What the handler does: logged, then it succeeds, fails, or kills its process."""
        frame, i = begin.frame, begin.index
        begun = Begun(
            job_id=int(frame.job_id[i]),
            scheduled_us=int(frame.scheduled_us[i]),
            attempt=int(frame.attempt[i]),
            firing_id=int(frame.firing_id[i]),
            fence=int(frame.fence[i]),
            database_us=self.database_us(),
            worker=worker.execution.worker_id if worker.execution else 0,
            catch_up=frame.catch_up(i),
        )
        self.history.begun.append(begun)
        self.work.note("begun", begun)
        plan = self.history.jobs[begun.job_id].plan
        planned = plan[begun.attempt - 1] if begun.attempt <= len(plan) else "success"
        duration_us = self.rng.choice([0, 1 * MS, 20 * MS, 300 * MS])
        match planned:
            case "kill":
                self.crash(worker)
                return 0, None
            case "hang":  # longer than its lease; it ends well and nobody may believe it
                return self.rng.randrange(10 * S, 14 * S), Report("success", output='"late"')
            case "failed" | "dead":
                return duration_us, Report(planned, error="planned")
            case _:
                return duration_us, Report("success", output='"done"')

    def on_left(self, worker: SimWorker) -> None:
        """Replace a worker that was drained."""
        self.work.note("left", worker.execution.worker_id if worker.execution else 0)
        self._restart(worker)

    def crash(self, actor: Actor) -> None:
        """Kill -9; another process of the kind starts later."""
        if not actor.is_alive:
            return
        actor.is_alive = False
        self.history.strikes += 1
        self._restart(actor)

    def _restart(self, actor: Actor) -> None:
        start = self.start_worker if isinstance(actor, SimWorker) else self.start_scheduler
        within_us = self.rates.restart_us if self.is_faulty else 1 * S
        self.work.after(self.rng.randrange(100 * MS, within_us + 1), start)

    def _stop(self, scheduler: SimScheduler) -> None:
        if self.work.now_us >= scheduler.paused_until_us:
            scheduler.stop()
            self._restart(scheduler)

    def _redrive(self) -> None:
        letters = self.store.list_dead_letters(limit=100)
        if letters:
            letter = self.rng.choice(letters)
            with contextlib.suppress(NotFound, Conflict):
                self.store.redrive(letter.firing_id, letter.fence)

    def _faulty_store(self) -> FaultyStore:
        rates = self.rates if self.is_faulty else Rates()
        store = FaultyStore(self.store, rates, random.Random(self.rng.random()))
        self.stores.append(store)
        return store

    def _is_lost(self, rate: float) -> bool:
        return self.is_faulty and self.rng.random() < rate

    def _send(self, channel: tuple[int, int], actor: Actor, event: Callable[[], None]) -> None:
        at_us = max(
            self._channel_us.get(channel, 0), self.work.now_us + self.rng.randrange(100, 5 * MS)
        )
        self._channel_us[channel] = at_us + 1
        self.work.at(at_us, lambda: actor.later(0, event))

    def _plan_jobs(self) -> None:
        for _ in range(self.rng.randrange(5, 30)):
            self.work.after(self.rng.randrange(0, 18 * S), self._register_one)
        burst_us = self.rng.randrange(5, 20) * S
        count = self.rng.choice([0, 40, 200])
        self.work.after(
            self.rng.randrange(0, burst_us), lambda: self._register_burst(burst_us, count)
        )

    def _register_one(self) -> None:
        kind = self.rng.random()
        if kind < 0.5:
            period_us = self.rng.choice([1, 2, 2, 5, 5, 10]) * S
            self._register(f"@every {period_us // S}s", self.database_us() + period_us, period_us)
        else:
            at_us = self.database_us() + self.rng.randrange(-5 * S, 15 * S)
            self._register_once(at_us)
        job_id = list(self.history.jobs)[-1]
        if self.rng.random() < 0.2:
            self.work.after(self.rng.randrange(0, 20 * S), lambda: self.store.delete_job(job_id))

    def _register_burst(self, burst_us: int, count: int) -> None:
        for _ in range(count):
            self._register_once(DATABASE_EPOCH_US + burst_us, plan=())

    def _register_once(self, at_us: int, plan: tuple[str, ...] | None = None) -> None:
        at_us -= at_us % S
        self._register(format_instant(at_us), at_us, 0, plan)

    def _draw_plan(self, period_us: int) -> tuple[str, ...]:
        if period_us:  # its retries must fit between two occurrences, or it falls behind
            return ("failed",) if period_us >= 10 * S and self.rng.random() < 0.3 else ()
        plan = ["failed"] * self.rng.choice([0, 0, 0, 1, 2, 5])
        kind = self.rng.random()
        if kind < 0.06:
            plan[:0] = ["kill"] * self.rng.choice([1, 2])
        elif kind < 0.12:
            plan[:0] = ["hang"]
        elif kind < 0.18:
            plan.append("dead")
        return tuple(plan)

    def _register(
        self,
        schedule: str,
        first_us: int,
        period_us: int,
        plan: tuple[str, ...] | None = None,
    ) -> None:
        plan = self._draw_plan(period_us) if plan is None else plan
        definition = Definition(
            name="j",
            task="work",
            schedule=schedule,
            max_retries=5,
            retry_backoff=self.rng.choice(list(Backoff)),
            retry_base_seconds=self.rng.choice([0, 1]),
            retry_cap_seconds=2,
            timeout_seconds=3,
            # A short period with a long grace would run all it was late for, one by one.
            misfire_grace_seconds=self.rng.choice([0, 1] if 0 < period_us <= 2 * S else [0, 1, 60]),
            missed_window=self.rng.choice([*MissedWindow]) if period_us else MissedWindow.RUN_ONCE,
            max_missed=self.rng.choice([1, 3, 100]),
        )
        new = NewJob(
            definition=definition,
            first_us=first_us,
            anchor_us=first_us - period_us,
            is_once=period_us == 0,
        )
        job_id = self.store.add_jobs([new])[0]
        self.history.jobs[job_id] = Registered(job_id, first_us, period_us, plan)

    def _plan_nemesis(self) -> None:
        rates = self.rates
        self._strike(rates.worker_crash_s, lambda: self._on_one(SimWorker, self.crash))
        self._strike(rates.worker_pause_s, lambda: self._on_one(SimWorker, self._pause))
        self._strike(rates.scheduler_crash_s, lambda: self._on_one(SimScheduler, self.crash))
        self._strike(rates.scheduler_pause_s, lambda: self._on_one(SimScheduler, self._pause))
        self._strike(rates.worker_drain_s, lambda: self._on_one(SimWorker, SimWorker.drain))
        self._strike(rates.scheduler_stop_s, lambda: self._on_one(SimScheduler, self._stop))
        self._strike(
            rates.term_lost_s, lambda: self._on_one(SimScheduler, SimScheduler.forget_terms)
        )
        self._strike(rates.redrive_s, self._redrive)
        self._strike(rates.outage_s, self._outage)
        self._strike(rates.clock_step_s, self._step_clock)

    def _strike(self, mean_s: float, strike: Callable[[], None]) -> None:
        if not mean_s:
            return

        def again() -> None:
            if self.is_faulty:
                self.history.strikes += 1
                strike()
                self._strike(mean_s, strike)

        self.work.after(int(self.rng.expovariate(1 / mean_s) * S), again)

    def _on_one(self, kind: type[Actor], strike: Callable[[Any], None]) -> None:
        living = [a for a in self.actors if a.is_alive and isinstance(a, kind)]
        if living:
            strike(self.rng.choice(living))

    def _pause(self, actor: Actor) -> None:
        actor.pause(self.rng.randrange(0, 10 * S))

    def _outage(self) -> None:
        length_us = self.rng.randrange(0, 8 * S)
        for store in self.stores:
            store.is_down = True

        def back() -> None:
            for store in self.stores:
                store.is_down = False

        self.work.after(length_us, back)

    def _step_clock(self) -> None:
        self.database_offset_us += self.rng.choice(self.rates.steps_s) * S
        self._highest_offset_us = max(self._highest_offset_us, self.database_offset_us)
