"""The scheduler's loop: owns the leaders, the dispatch and the sockets of one process."""

from __future__ import annotations

import itertools
import queue
import random

import numpy as np

from mainspring.clock import DatabaseClock, monotonic_us
from mainspring.config import SchedulerSettings
from mainspring.core.catch_up import CatchUps
from mainspring.core.completion import Chance
from mainspring.core.dispatch import Dispatch, FrameName
from mainspring.core.leader import LeaderLimits, LeaderTimes, ShardLeader
from mainspring.core.now import Now
from mainspring.core.observer import DeathObserver
from mainspring.core.preparation import Leadership, Recipe
from mainspring.core.requests import Ended, Failed, Prepared, PreparedFrame
from mainspring.core.trust import TrustWindow
from mainspring.cron import OccurrenceMemo
from mainspring.election import Elector
from mainspring.errors import HolderLost, MainspringError, TermLost
from mainspring.instants import US_PER_S
from mainspring.logs import get_logger
from mainspring.metrics import SchedulerMetrics
from mainspring.model import format_job_id
from mainspring.queue.answers import VERSION, Beacon, Envelope, Hints, Returned, encode
from mainspring.queue.leader_side import LeaderSockets
from mainspring.scheduler.claimers import Claimers
from mainspring.scheduler.events import (
    Answered,
    Event,
    Hinted,
    HintsLost,
    Pulse,
    TermBegun,
    TermEnded,
    TermsRenewed,
)
from mainspring.scheduler.listener import HintSource, Listener
from mainspring.scheduler.pulse import PulseThread
from mainspring.scheduler.rezoner import Rezoner
from mainspring.store.protocol import Store

log = get_logger("mainspring.scheduler")

CLAIMER_THREADS = 2  # one claim is in Postgres while the other is being encoded
ANSWERS_PER_ROUND = 1_000
WAIT_MAX_US = 200_000
LARGE_NAMED_MAX = 10
AT_ONCE_US = 0


class _Led:
    """A shard that this process leads, with the term and the trust it has in it."""

    def __init__(self, leader: ShardLeader, who: Leadership, trust: TrustWindow) -> None:
        self.leader = leader
        self.who = who
        self.trust = trust
        self.wake_us = AT_ONCE_US

    def told(self) -> ShardLeader:
        """Return the leader, to be told something: it is polled in the next round.

        The others sleep till their own time, so that a round costs nothing for each shard: one
        shard's answer wakes the loop some fifty times a second in a node that is idle.
        """
        self.wake_us = AT_ONCE_US
        return self.leader


class Scheduler:
    """One scheduler process.  Build it, call `run` in one thread, `stop` from any.

    Parameters
    ----------
    store
        Thread safe; used by the pulse, the claimers and the rezoner at once.
    elector
        Used by the pulse thread alone.
    metrics
        Counters of this process.
    """

    def __init__(
        self,
        store: Store,
        elector: Elector,
        settings: SchedulerSettings,
        metrics: SchedulerMetrics,
        *,
        name: str,
        hints: HintSource,
    ) -> None:
        self._store = store
        self._elector = elector
        self._settings = settings
        self._metrics = metrics
        self._name = name
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._listener = Listener(hints, self._tell)
        self._clock = DatabaseClock()
        self._led: dict[int, _Led] = {}
        self._extension_us = 0
        self._failure: BaseException | None = None
        self._pulse: PulseThread | None = None
        self._rezoner = Rezoner(store, metrics, on_bug=self._fail)
        self._is_stopping = False
        self._frame_numbers = itertools.count(1)
        self._sockets = LeaderSockets(settings.bind_host, on_dropped=self._count_dropped)
        self._dispatch = Dispatch(
            silence_us=_us(settings.silence_seconds),
            unanswered_us=_us(settings.unanswered_seconds),
        )
        self._times = LeaderTimes(
            tick_us=_us(settings.tick_seconds),
            arm_ahead_us=_us(settings.arm_ahead_seconds),
            refill_us=_us(settings.refill_seconds),
            horizon_us=_us(settings.horizon_seconds),
            sweep_us=_us(settings.sweep_seconds),
        )
        self._limits = LeaderLimits(
            page_rows=settings.claim_page_rows, queue_firings=settings.queue_firings_max
        )
        try:
            self.holder_id = store.register_holder("scheduler", self._sockets.address, name)
        except BaseException:
            self._sockets.close()
            raise

    @property
    def address(self) -> str:
        """Where this scheduler takes answers."""
        return self._sockets.address

    def stop(self) -> None:
        """Ask the loop to stop claiming, hand back what was not sent, and resign."""
        self._is_stopping = True
        self._sockets.wake()

    def run(self) -> None:
        """Lead until `stop`; raises what ended it if it was not that."""
        try:
            self._store.make_partitions(days_ahead=self._settings.partition_days_ahead)
            shard_count = self._store.count_shards()
        except BaseException:
            self._sockets.close()
            raise
        chance = Chance(OccurrenceMemo(), random.SystemRandom().random)
        claimers = Claimers(
            self._store,
            Recipe(
                memo=chance.memo,
                tick_us=self._times.tick_us,
                frame_firings_max=self._settings.frame_firings_max,
                take_frame_no=lambda: next(self._frame_numbers),
                catch_ups=CatchUps(self._settings.catch_up_rate),
            ),
            chance,
            threads=CLAIMER_THREADS,
            tell=self._tell,
            on_bug=self._fail,
        )
        self._pulse = pulse = PulseThread(
            self._store,
            self._elector,
            self.holder_id,
            shard_count=shard_count,
            observer=DeathObserver(dead_after_us=_us(self._settings.dead_after_seconds)),
            tell=self._tell,
            on_lost_holder=lambda: self._fail(
                HolderLost(f"holder {self.holder_id} was silent for too long and declared dead")
            ),
            on_failure=self._fail,
            period_s=self._settings.term_ttl_seconds / 3,
            partition_days_ahead=self._settings.partition_days_ahead,
            history_days=self._settings.history_days,
        )
        try:
            claimers.start()
            pulse.start()
            self._listener.start()
            self._rezoner.start()
            while not self._is_stopping and self._failure is None:
                self._round(claimers)
        finally:
            self._end(claimers, pulse)
        if self._failure is not None:
            raise self._failure

    def _round(self, claimers: Claimers) -> None:
        self._take_events()
        self._take_answers()
        if not self._clock.is_known:
            self._sockets.wait(WAIT_MAX_US)
            return
        now = self._now()
        wake_us = now.monotonic_us + WAIT_MAX_US
        for shard, led in list(self._led.items()):
            if not led.trust.is_open(now.monotonic_us):
                continue
            if now.monotonic_us < led.wake_us:
                wake_us = min(wake_us, led.wake_us)
                continue
            request, released = led.leader.poll(now, self._extension_us)
            if request is not None:
                claimers.submit(led.who, request)
            if released:
                self._release(shard, released, now)
            led.wake_us = led.leader.next_wake_us(now)
            wake_us = min(wake_us, led.wake_us)
            counts = self._metrics.shard(shard)
            counts.queue_depth = led.leader.ledger_firings
            counts.wheel_timers = led.leader.timers
            counts.overdue_unleased = led.leader.overdue_unleased_count
        self._unanswered(self._dispatch.overdue(now.monotonic_us))
        self._send()
        self._metrics.waiting = self._dispatch.waiting()
        self._sockets.wait(max(0, wake_us - monotonic_us()))

    def _release(self, shard: int, released: list[PreparedFrame], now: Now) -> None:
        due_us = np.concatenate([frame.due_us for frame in released])
        counts = self._metrics.shard(shard)
        counts.released += len(due_us)
        counts.lateness_seconds.observe_us(now.high_us - due_us)
        self._dispatch.release(released)

    def _send(self) -> None:
        while True:
            monotonic_now_us = monotonic_us()
            send = self._dispatch.next_send(monotonic_now_us)
            if send is None:
                return
            led = self._led.get(send.frame.shard)
            if led is None or not led.trust.is_open(monotonic_now_us):
                # Outside the trust window nothing leaves this process (I5).
                self._dispatch.on_sent(send, is_sent=False)
                self._drop(send.frame.shard)
                continue
            envelope = Envelope(
                VERSION, self.holder_id, send.worker_id, send.seq, self._sockets.address
            )
            is_sent = self._sockets.send(send.worker_id, encode(envelope), send.frame.data)
            self._dispatch.on_sent(send, is_sent=is_sent)

    def _take_answers(self) -> None:
        for answer in self._sockets.receive(ANSWERS_PER_ROUND):
            if answer.leader != self.holder_id:
                self._count_dropped("stranger")
                continue
            match answer:
                case Beacon():
                    finished, unanswered = self._dispatch.on_beacon(answer, monotonic_us())
                    for name in finished:
                        if name.shard in self._led:
                            self._led[name.shard].told().on_finished(name.frame_no)
                    self._unanswered(unanswered)
                case Returned():
                    place = self._dispatch.on_returned(answer)
                    if place is not None and place[0].shard in self._led:
                        name, firing_ids = place
                        self._metrics.shard(name.shard).returned += len(firing_ids)
                        leader = self._led[name.shard].told()
                        leader.on_unanswered(name.frame_no, firing_ids)
                case Hints():
                    self._take_hints(answer)

    def _take_hints(self, hints: Hints) -> None:
        shards = np.array(hints.shards, np.int64)
        firing_ids = np.array(hints.firing_ids, np.int64)
        due_us = np.array(hints.due_us, np.int64)
        for shard in np.unique(shards).tolist():
            if shard in self._led:
                chosen = shards == shard
                self._led[shard].told().on_hints(firing_ids[chosen], due_us[chosen])

    def _take_events(self) -> None:
        while True:
            try:
                event = self._inbox.get_nowait()
            except queue.Empty:
                return
            match event:
                case Pulse():
                    self._on_pulse(event)
                case TermBegun():
                    self._on_term(event)
                case TermsRenewed():
                    for shard in event.shards & self._led.keys():
                        self._led[shard].trust.renewed(event.sent_us)
                case TermEnded():
                    self._drop(event.shard)
                case Answered():
                    self._on_answered(event)
                case Hinted():
                    if event.shard in self._led:
                        self._led[event.shard].told().on_hints(
                            np.array([event.firing_id], np.int64),
                            np.array([event.due_us], np.int64),
                        )
                case HintsLost():
                    self._metrics.node.hints_lost += 1
                    for led in self._led.values():
                        led.told().on_hints_lost(self._now())

    def _on_pulse(self, pulse: Pulse) -> None:
        if self._clock.observe(pulse.sent_us, pulse.received_us, pulse.reading.read_us):
            log.warning("database clock stepped", step_us=self._clock.last_step_us)
        self._extension_us = pulse.extension_us
        for led in self._led.values():
            led.told()  # when database time is reached is known better now
        workers: dict[int, str] = {
            holder.holder_id: holder.address
            for holder in pulse.reading.holders
            if holder.kind == "worker"
        }
        known = self._dispatch.addresses()
        for worker_id in known.keys() - workers.keys():
            self._sockets.disconnect(worker_id)
            for led in self._led.values():
                led.told().on_worker_gone(self._now())
        for worker_id in workers.keys() - known.keys():
            self._sockets.connect(worker_id, workers[worker_id])
        self._unanswered(self._dispatch.on_workers(workers, monotonic_us()))
        self._metrics.node.holders_alive = len(pulse.reading.holders)
        self._metrics.node.shards_led = len(self._led)

    def _on_term(self, begun: TermBegun) -> None:
        trust = TrustWindow(
            ttl_us=_us(self._settings.term_ttl_seconds),
            margin_us=_us(self._settings.term_margin_seconds),
        )
        trust.renewed(begun.sent_us)
        leader = ShardLeader(begun.shard, self._times, self._limits, self._now())
        who = Leadership(begun.shard, begun.term, self.holder_id)
        self._led[begun.shard] = _Led(leader, who, trust)
        self._rezoner.on_term(who)

    def _on_answered(self, answered: Answered) -> None:
        led = self._led.get(answered.shard)
        if led is None or led.who.term != answered.term:
            return  # of an earlier term: what it leased is found by this term's full sweep
        answer = answered.answer
        counts = self._metrics.shard(answered.shard)
        match answer:
            case Failed():
                log.failed("request failed", answer.error, shard=answered.shard)
                if isinstance(answer.error, TermLost):
                    self._drop(answered.shard)
                    return
            case Prepared():
                counts.claimed += answer.claimed_count
                counts.missed += answer.missed_count
                counts.missed_dropped += answer.dropped_count
                counts.large_catch_ups += len(answer.large)
                if answer.missed_count:
                    log.warning(
                        "occurrences missed",
                        shard=answered.shard,
                        count=answer.missed_count,
                        dropped=answer.dropped_count,
                        jobs=[format_job_id(job_id) for job_id in answer.missed_job_ids],
                    )
                for large in answer.large[:LARGE_NAMED_MAX]:
                    log.warning(
                        "large catch-up",
                        job_id=format_job_id(large.job_id),
                        missed=large.missed_count,
                        dropped=large.dropped_count,
                    )
            case Ended():
                counts.lost += len(answer.runs)
                counts.retried += answer.retried_count
                counts.dead += answer.letter_count
                if answer.runs:
                    log.warning("runs lost", shard=answered.shard, count=len(answer.runs))
            case _:
                pass
        led.told().on_answer(answer, self._now())

    def _unanswered(self, names: list[FrameName]) -> None:
        for name in names:
            if name.shard in self._led:
                self._led[name.shard].told().on_unanswered(name.frame_no)
                self._metrics.shard(name.shard).unanswered_frames += 1

    def _drop(self, shard: int) -> None:
        """Throw away everything of a shard: the next term reads the truth again."""
        led = self._led.pop(shard, None)
        self._dispatch.drop(shard)
        if led is not None and self._pulse is not None:
            self._pulse.give_up(shard, led.who.term)

    def _end(self, claimers: Claimers, pulse: PulseThread) -> None:
        self._listener.stop()
        self._rezoner.stop()
        claimers.stop()
        self._take_events()
        try:
            for led in self._led.values():
                firing_ids, fences = led.leader.hand_back()
                self._store.hand_back(self.holder_id, firing_ids, fences)
        except MainspringError as error:
            # The next term claims it all anyway; asking on could take seconds for each shard.
            log.failed("could not hand back", error)
        try:
            pulse.stop()
        finally:
            self._sockets.close()

    def _now(self) -> Now:
        monotonic_now_us = monotonic_us()
        return Now(
            monotonic_now_us,
            self._clock.low_us(monotonic_now_us),
            self._clock.high_us(monotonic_now_us),
        )

    def _count_dropped(self, reason: str) -> None:
        self._metrics.dropped_frames[reason] += 1

    def _tell(self, event: Event) -> None:
        self._inbox.put(event)
        self._sockets.wake()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._sockets.wake()


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)
