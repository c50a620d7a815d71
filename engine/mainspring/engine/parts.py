"""What runs between an engine's start and its stop: a database, two stores, two threads.

All methods block; `start` and `stop` are called from any thread, in this order, once each.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector

from mainspring.devpg import DevPostgres
from mainspring.election import PostgresElector
from mainspring.engine.figures import EngineMetrics
from mainspring.engine.options import Plan
from mainspring.engine.unknown_tasks import UnknownTaskWarning
from mainspring.errors import EngineFailed, InvalidInput, MainspringError
from mainspring.executor import GRACE_S, HostLoop
from mainspring.jobs import Jobs
from mainspring.logs import get_logger
from mainspring.metrics import serve_metrics
from mainspring.parent import process_name
from mainspring.scheduler import Scheduler, SchedulerLives
from mainspring.store.migrate import require_current
from mainspring.store.outage import Outage
from mainspring.store.postgres import PostgresStore
from mainspring.store.postgres.locks import open_lock_session
from mainspring.store.prepare import prepare_database
from mainspring.worker import WorkerProcess

log = get_logger("mainspring.engine")

SCHEDULER_CONNECTIONS: Final = 4  # two claimers, the pulse, the rezoner
WORKER_CONNECTIONS: Final = 3  # starter, completer, directory
JOBS_CONNECTIONS: Final = 4
"""Calls for jobs at a time; further ones wait."""

INTERRUPTED_END_S: Final = 2.0
"""For each part still to be ended, when somebody has interrupted the end."""

END_S_MAX: Final = 60.0
"""Beyond the drain: a part whose store does not answer ends within half of it."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What runs in a thread, how it is asked to end, how long that may take, and its store."""

    name: str
    run: Callable[[], None]
    ask: Callable[[], None]
    end_s: float
    store: PostgresStore


class Parts:
    """Scheduler and worker of one engine, from one start to its stop.

    Parameters
    ----------
    host
        The event loop for async handlers.  None means one of the worker's own.
    """

    def __init__(self, plan: Plan, metrics: EngineMetrics, host: HostLoop | None) -> None:
        self._plan = plan
        self._metrics = metrics
        self._host = host
        self._owner_pid = os.getpid()
        self._exit = ExitStack()
        self._lock = threading.Lock()
        self._is_ending = False
        self._is_interrupted = False
        self._asks: list[Callable[[], None]] = []
        self.outage = Outage(engine=plan.name)
        self.failure: EngineFailed | None = None
        self.over: Future[None] = Future()
        """Done when the engine was stopped; raises what it ended with by itself."""
        self.over.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        self.dsn = ""
        self.metrics_url: str | None = None
        self.jobs: Jobs
        self.calls: ThreadPoolExecutor
        """Threads for calls of `jobs` from an event loop."""

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that started it; a fork has none of its threads."""
        return self._owner_pid == os.getpid()

    def start(self) -> None:
        """Start everything; what was started is ended again if it raises.

        Raises
        ------
        StoreUnavailable, PoolerDetected, MigrationRefused
            The database cannot be used.
        DevPostgresError
            The embedded one cannot be started.
        """
        with ExitStack() as stack:
            try:
                self._open(stack)
            except MainspringError as error:
                error.message = f"engine {self._plan.name!r} cannot start: {error.message}"
                raise
            if self.failure is not None:  # of the scheduler, while the worker was being made
                raise self.failure
            self._exit = stack.pop_all()

    def stop(self) -> None:
        """Drain and end everything; a second call waits for the first and does nothing.

        A `KeyboardInterrupt` within it ends the waiting: what still runs is left to its daemon
        thread, quietly, and to the end of the process.
        """
        if not self.is_ours:
            return
        with self._lock:
            self._is_ending = True
            try:
                self._exit.close()
            finally:
                if not self.over.done():
                    self.over.set_result(None)

    def _open(self, stack: ExitStack) -> None:
        plan = self._plan
        if isinstance(plan.database, str):
            self.dsn = plan.database
        else:
            self.dsn = stack.enter_context(DevPostgres(plan.database.data_dir)).dsn
        if plan.migrate:
            prepare_database(self.dsn, shards=plan.shards)
        else:
            require_current(self.dsn)
        store = self._new_store("engine", JOBS_CONNECTIONS)
        stack.callback(store.close)
        shards = store.count_shards()
        if shards == 0:
            raise InvalidInput(
                "the database has no shards",
                hint="Leave migrate=False out once, or run `mainspring migrate`.",
            )
        if plan.shards_asked not in {None, shards}:
            log.warning(
                "the database keeps the shards it has",
                engine=plan.name,
                shards=shards,
                asked=plan.shards_asked,
            )
        # A client only, without handlers, has all of its tasks elsewhere.
        warning = UnknownTaskWarning(plan.name, plan.worker.queues) if plan.run_worker else None
        self.jobs = Jobs(store, plan.tasks, on_unknown=warning)
        self.calls = stack.enter_context(
            ThreadPoolExecutor(JOBS_CONNECTIONS, thread_name_prefix=f"{plan.name} jobs")
        )
        if plan.metrics_port is not None:
            self._serve_metrics(stack, plan.metrics_port)
        # Ended in the opposite order: what the worker finishes is still taken, and its unsent
        # firings go back to a leader that is there.
        if plan.run_scheduler:
            self._start_scheduler(stack)
        if plan.run_worker:
            self._start_worker(stack)

    def _new_store(self, kind: str, connections: int) -> PostgresStore:
        return PostgresStore(
            self.dsn,
            application_name=f"mainspring {kind}",
            pool_max=connections,
            outage=self.outage,
        )

    def _serve_metrics(self, stack: ExitStack, port: int) -> None:
        registry = CollectorRegistry()
        registry.register(self._metrics)
        ProcessCollector(registry=registry)
        host = self._plan.scheduler.bind_host
        port, stop = serve_metrics(registry, host, port)
        stack.callback(stop)
        self.metrics_url = f"http://{host}:{port}/metrics"

    def _start_scheduler(self, stack: ExitStack) -> None:
        store = self._new_store("scheduler", SCHEDULER_CONNECTIONS)
        dsn, plan, outage = self.dsn, self._plan, self.outage
        with closed_if_it_fails(store):
            scheduler = SchedulerLives(
                lambda: Scheduler(
                    store,
                    PostgresElector(lambda: open_lock_session(dsn, "mainspring elector", outage)),
                    plan.scheduler,
                    self._metrics.scheduler,
                    name=f"{process_name()} {plan.name}",
                    hints=store.hints,
                )
            )
        self._run(stack, _Part("scheduler", scheduler.run, scheduler.stop, END_S_MAX, store))

    def _start_worker(self, stack: ExitStack) -> None:
        store = self._new_store("worker", WORKER_CONNECTIONS)
        plan = self._plan
        with closed_if_it_fails(store):
            worker = WorkerProcess(
                plan.tasks,
                store,
                self.dsn,
                plan.worker,
                self._metrics.worker,
                name=f"{process_name()} {plan.name}",
                host=self._host,
                outage=self.outage,
            )
        end_s = plan.worker.drain_seconds + 2 * GRACE_S + END_S_MAX
        self._run(stack, _Part("worker", worker.run, worker.stop, end_s, store))

    def _run(self, stack: ExitStack, part: _Part) -> None:
        """Run a part in a thread until the stack is closed, or until it ends by itself."""
        # A daemon, so that a host that ends without stopping us ends.
        thread = threading.Thread(
            target=self._guard, args=(part,), name=f"{self._plan.name} {part.name}", daemon=True
        )

        def end() -> None:
            part.ask()
            if thread.ident is None:  # interrupted just before
                part.store.close()
                return
            try:
                thread.join(INTERRUPTED_END_S if self._is_interrupted else part.end_s)
            except BaseException:
                self._is_interrupted = True
                self.outage.silence()
                raise
            if thread.is_alive() and not self._is_interrupted:
                self._fail(part.name, EngineFailed(f"it did not end within {part.end_s:g} s"))

        self._asks.append(part.ask)
        stack.callback(end)
        thread.start()

    def _guard(self, part: _Part) -> None:
        try:
            part.run()
        except BaseException as error:  # noqa: BLE001  told to the host, whatever it is
            self._fail(part.name, error)
        else:
            if not self._is_ending:
                self._fail(part.name, EngineFailed("it left by itself"))
        finally:
            # Here, so that a part that nobody waits for any more has its store to the end.
            part.store.close()

    def _fail(self, part: str, error: BaseException) -> None:
        """Keep the first failure, tell whoever waits, and ask the other part to end."""
        if self.failure is not None:
            return
        if self._is_interrupted:
            return
        failure = EngineFailed(
            f"the {part} of engine {self._plan.name!r} has ended: {type(error).__name__}: {error}",
            hint="Stop the engine and start it again, or end the process and have it restarted.",
        )
        failure.__cause__ = error
        self.failure = failure
        log.error("engine failed", engine=self._plan.name, part=part, error=str(error))
        if not self.over.done():
            self.over.set_exception(failure)
        for ask in self._asks:
            ask()


@contextmanager
def closed_if_it_fails(store: PostgresStore) -> Iterator[None]:
    """Give a store up when what should use it cannot be made."""
    try:
        yield
    except BaseException:
        store.close()
        raise
