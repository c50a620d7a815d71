"""The worker's loop: owns the execution core and the sockets of one process.

Threads: the *loop* decides and talks to leaders; the *starter* and the *completer* each have one
request of the core under way on the store; the *directory* reads which schedulers are alive; the
executor runs handlers; the heartbeat is a child process, since a handler that holds the GIL must
not look dead.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mainspring.clock import monotonic_s, monotonic_us, sleep_s
from mainspring.config import WorkerSettings
from mainspring.core.completion import Chance, Completed, PendingEnd, complete_runs
from mainspring.core.execution import Execution, RunBegin, StartRequest, WorkerLimits
from mainspring.core.starting import start_firings
from mainspring.core.trust import TrustWindow
from mainspring.cron import OccurrenceMemo
from mainspring.errors import CorruptFrame, MainspringError, StoreUnavailable
from mainspring.executor import GRACE_S, LOOP_CLOSED, Executor, HostLoop
from mainspring.frame import decode
from mainspring.handlers import Outcome, OutcomeKind, Tasks
from mainspring.heartbeat import HeartbeatChild
from mainspring.instants import US_PER_S
from mainspring.logs import get_logger
from mainspring.metrics import WorkerMetrics
from mainspring.queue.worker_side import WorkerSockets
from mainspring.store.outage import Outage
from mainspring.store.protocol import Starts, Store
from mainspring.worker.context import context_of
from mainspring.worker.failures import FailureLog
from mainspring.worker.report import report_of

log = get_logger("mainspring.worker")

DELIVERIES_PER_ROUND = 100
HINT_HORIZON_US = 600 * US_PER_S
DIRECTORY_PERIOD_S = 1.0
RETRY_WAIT_S_MAX = 1.0
RECORD_S = 2.0
"""After the drain time and the grace of what it cancelled: for the store to take the last ends."""

JOIN_S = 10.0
"""For all threads together; a statement under way ends within six seconds."""

NO_STARTS = Starts(*(np.empty(0, np.int64) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class _Started:
    """The answer to a start request; None if it was given up."""

    starts: Starts | None


@dataclass(frozen=True, slots=True)
class _Ended:
    run_key: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Completed:
    results: list[Completed]
    database_us: int


@dataclass(frozen=True, slots=True)
class _Leaders:
    addresses: dict[int, str]


_Event = _Started | _Ended | _Completed | _Leaders


class WorkerProcess:
    """One worker process.  Build it, call `run` in one thread, `stop` from any.

    Parameters
    ----------
    dsn
        For the heartbeat child, which has a connection of its own.
    outage
        That of `store`: while it lasts a beat that fails is not worth a line of its own.
    host
        The event loop for async handlers, which somebody else runs; once it is closed this worker
        drains and leaves.  None, the default, means one of its own.
    """

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        dsn: str,
        settings: WorkerSettings,
        metrics: WorkerMetrics,
        *,
        name: str,
        host: HostLoop | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._store = store
        self._host = host
        self._settings = settings
        self._metrics = metrics
        self._name = name
        self._inbox: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._sockets = WorkerSockets(settings.bind_host, on_dropped=self._count_dropped)
        self._stop_us: int | None = None
        self._is_cancelled = False
        self._is_stopping = threading.Event()
        self._failure: BaseException | None = None
        self._failures = FailureLog()
        self._is_over = threading.Event()
        try:
            self.holder_id = store.register_holder("worker", self._sockets.address, name)
        except BaseException:
            self._sockets.close()
            raise
        self._execution = Execution(
            self.holder_id,
            _limits(settings),
            queues=settings.queues,
            tasks=tasks.names,
            counts=metrics.counts,
            on_dropped=self._count_dropped,
        )
        self._trust = TrustWindow(
            ttl_us=_us(settings.trust_seconds) + _us(settings.beat_seconds) // 2,
            margin_us=_us(settings.beat_seconds) // 2,
        )
        self._heartbeat = HeartbeatChild(
            dsn,
            self.holder_id,
            beat_s=settings.beat_seconds,
            is_lost=lambda: outage is not None and outage.is_lost,
        )
        self._executor = Executor(
            tasks,
            concurrency=settings.concurrency,
            on_end=self._on_run_end,
            output_bytes_max=settings.output_bytes_max,
            host=host,
        )
        self._chance = Chance(OccurrenceMemo(), random.SystemRandom().random)
        self._starts: queue.SimpleQueue[StartRequest | None] = queue.SimpleQueue()
        self._ends: queue.SimpleQueue[list[PendingEnd] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._guarded(target), name=title, daemon=True)
            for title, target in (
                ("starter", self._run_starts),
                ("completer", self._run_completions),
                ("directory", self._run_directory),
            )
        ]

    @property
    def address(self) -> str:
        """Where this worker takes frames."""
        return self._sockets.address

    def stop(self) -> None:
        """Ask the loop to drain: give back what is not started, finish what runs, and leave."""
        self._is_stopping.set()
        self._sockets.wake()

    def run(self) -> None:
        """Work until `stop` and the drain after it; raises what ended it if it was not that."""
        self._heartbeat.start()
        self._executor.start()
        for thread in self._threads:
            thread.start()
        try:
            while self._failure is None and not self._is_drained():
                self._round()
        finally:
            self._end()
        if self._failure is not None:
            raise self._failure

    def _round(self) -> None:
        if self._host is not None and self._host.is_closed and not self._is_stopping.is_set():
            log.error("the event loop of the handlers is closed, leaving")
            self.stop()
            self._executor.cancel_all(LOOP_CLOSED)
        if self._is_stopping.is_set() and not self._execution.draining:
            log.info("draining", running=self._execution.running_count)
            self._execution.on_drain()
            self._stop_us = monotonic_us() + _us(self._settings.drain_seconds)
        self._take_heartbeat()
        self._take_events()
        self._failures.tell_rest()
        for envelope, data in self._sockets.receive(DELIVERIES_PER_ROUND):
            try:
                self._execution.on_delivery(envelope, decode(data))
            except CorruptFrame as error:
                self._count_dropped("frame")
                log.warning("frame dropped", error=error.message)
        now_us = monotonic_us()
        work = self._execution.poll(now_us, is_trusted=self._trust.is_open(now_us))
        for told in work.answers:
            self._sockets.answer(told.leader, told.address, told.answer)
        if work.start is not None:
            self._starts.put(work.start)
        self._observe_lateness(work.begin)
        for begin in work.begin:
            self._begin(begin)
        if work.complete is not None:
            self._ends.put(work.complete)
        counts = self._metrics.counts
        counts.running = self._execution.running_count
        counts.in_hand = self._execution.held_count
        counts.stuck = self._executor.stuck_count
        self._sockets.wait(max(0, self._execution.next_wake_us(now_us) - monotonic_us()))

    def _begin(self, begin: RunBegin) -> None:
        frame, i = begin.frame, begin.index
        context = context_of(frame, i)
        self._executor.submit(
            begin.run_key, frame.task, context, frame.payload(i), float(frame.timeout_s[i])
        )

    def _observe_lateness(self, begins: list[RunBegin]) -> None:
        if begins:
            late_us = [begin.started_us - int(begin.frame.due_us[begin.index]) for begin in begins]
            self._metrics.counts.lateness_seconds.observe_us(np.array(late_us, np.int64))

    def _count_dropped(self, reason: str) -> None:
        self._metrics.dropped_frames[reason] += 1
        if reason == "resend":
            self._metrics.counts.hints_lost += 1

    def _take_heartbeat(self) -> None:
        self._heartbeat.poll()
        sent_us = self._heartbeat.last_sent_us()
        if sent_us is not None:
            self._trust.renewed(sent_us)
        if not self._heartbeat.is_dead():
            return
        # A leader saw us silent for too long.  What runs may still complete by its fence.
        self._trust.close()
        try:
            self.holder_id = self._store.register_holder(
                "worker", self._sockets.address, self._name
            )
        except StoreUnavailable as error:
            log.failed("could not register anew", error)
            return
        log.warning("declared dead, going on with a new id", holder_id=self.holder_id)
        self._execution.on_new_identity(self.holder_id)
        self._heartbeat.restart(self.holder_id)

    def _take_events(self) -> None:
        while True:
            try:
                event = self._inbox.get_nowait()
            except queue.Empty:
                return
            match event:
                case _Ended():
                    if event.outcome.kind is not OutcomeKind.SUCCESS:
                        context = context_of(*self._execution.row_of(event.run_key))
                        self._failures.on_run_ended(context, event.outcome)
                    self._execution.on_run_ended(
                        event.run_key, report_of(event.outcome), monotonic_us()
                    )
                case _Started():
                    self._execution.on_started(event.starts or NO_STARTS)
                case _Completed():
                    for frame, i, done in self._execution.letters_of(event.results):
                        error = done.pending.report.error
                        self._failures.on_dead_letter(context_of(frame, i), error)
                    self._execution.on_completed(event.results, event.database_us)
                case _Leaders():
                    self._execution.on_leaders(event.addresses)

    def _is_drained(self) -> bool:
        if self._stop_us is None:
            return False
        if self._execution.is_idle:
            return True
        if self._is_cancelled:
            self._executor.cancel_all()  # what was in line for a slot and has got one since
        if monotonic_us() < self._stop_us:
            return False
        if self._is_cancelled:
            return True
        # Every cancelled run ends within its grace, and its end is worth recording: what leaves
        # without one is retried as lost, as if this worker had crashed.
        self._is_cancelled = True
        cancelled = self._executor.cancel_all()
        log.warning("drain time is over, cancelling handlers", count=cancelled)
        self._stop_us = monotonic_us() + _us(GRACE_S + RECORD_S)
        return False

    def _end(self) -> None:
        self._is_over.set()
        self._failures.tell_rest(is_end=True)
        # The last beacons: nothing is in hand, nothing is wanted.
        for told in self._execution.poll(monotonic_us(), is_trusted=False).answers:
            self._sockets.answer(told.leader, told.address, told.answer)
        self._starts.put(None)
        self._ends.put(None)
        end_s = monotonic_s() + JOIN_S
        for thread in self._threads:
            thread.join(timeout=max(0.0, end_s - monotonic_s()))
        self._executor.stop(0)
        self._heartbeat.stop()
        try:
            self._store.leave(self.holder_id)
        except MainspringError as error:
            log.failed("could not say goodbye", error)
        finally:
            self._sockets.close()

    def _run_starts(self) -> None:
        while (request := self._starts.get()) is not None:
            starts = start_firings(
                self._store,
                request,
                slack_s=self._settings.lease_slack_seconds,
                wait=self._wait_before_retry,
            )
            self._tell(_Started(starts))

    def _run_completions(self) -> None:
        while (pending := self._ends.get()) is not None:
            tries = 0
            while True:
                try:
                    results = complete_runs(self._store, pending, self._chance)
                    database_us = self._store.database_us()
                    break
                except StoreUnavailable as error:
                    tries += 1
                    log.failed("completion failed", error, count=len(pending))
                    if not self._wait_before_retry(tries):
                        return
            self._tell(_Completed(results, database_us))

    def _run_directory(self) -> None:
        while True:
            try:
                reading = self._store.read_holders()
                self._tell(
                    _Leaders(
                        {
                            holder.holder_id: holder.address
                            for holder in reading.holders
                            if holder.kind == "scheduler"
                        }
                    )
                )
            except StoreUnavailable as error:
                log.failed("could not read the schedulers", error)
            if self._is_over.wait(DIRECTORY_PERIOD_S):
                return

    def _wait_before_retry(self, tries: int) -> bool:
        sleep_s(min(RETRY_WAIT_S_MAX, 0.02 * 2**tries) * (0.5 + self._chance.jitter01() / 2))
        return not self._is_over.is_set()

    def _on_run_end(self, run_key: int, outcome: Outcome) -> None:
        self._tell(_Ended(run_key, outcome))

    def _tell(self, event: _Event) -> None:
        self._inbox.put(event)
        self._sockets.wake()

    def _guarded(self, target: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                target()
            except BaseException as error:  # noqa: BLE001  handed to the loop, which ends with it
                self._failure = error
                self._sockets.wake()

        return run


def _limits(settings: WorkerSettings) -> WorkerLimits:
    return WorkerLimits(
        concurrency=settings.concurrency,
        window_firings=settings.credit_firings,
        start_ahead_us=_us(settings.start_ahead_seconds),
        complete_rows=settings.complete_rows_max,
        complete_delay_us=_us(settings.complete_delay_seconds),
        beacon_us=_us(settings.beacon_seconds),
        hint_horizon_us=HINT_HORIZON_US,
    )


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)
