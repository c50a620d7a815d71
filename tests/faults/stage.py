"""One scenario: real processes, a burst, a fault in its middle, and the verdict at the end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from faults import tally
from faults.checker import check
from faults.deletions import Deleter, delete, wall_us
from faults.expected import Deletion, expect
from faults.facts import RESUMED_S_MAX, TAKEOVER_S_MAX, Facts, Strike, StrikeKind, Verdict
from faults.handlers import LOG_VARIABLE
from faults.load import Planned, Registered, Size, plan_burst, register
from faults.pace import Pace
from faults.processes import Freeze, send, state_of
from faults.truth import Line, LogFolder, Tables, read_tables
from mainspring.cli.children import Child
from processes.cluster.stage import HERE, Cluster, wait_for

HANDLERS = "faults.handlers:tasks"
READY_S = 120.0
DRAIN_S = 180.0
STOP_S = 60.0
SPARE_S = 15.0
"""Of lateness beyond what the fault explains, on a machine that runs several scenarios at once."""

FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1"}  # NumPy would start some for each processor


def import_path() -> list[str]:
    """Return what the environment adds to the places where modules are found."""
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]


def regrets(words: str) -> list[str]:
    """Return the lines of a log that tell an exception other than a handler's."""
    return [
        line
        for line in words.splitlines()
        if line.startswith("Traceback") or ('"exception":' in line and '"run_id":' not in line)
    ]


def mono_us() -> int:
    """Return the monotonic clock, one for all processes of this machine."""
    return time.monotonic_ns() // 1_000


class Stage(Cluster):
    """A cluster under a burst.  Use `begin`, `strike`, then `finish`."""

    def __init__(self, dsn: str, folder: Path) -> None:
        super().__init__(dsn, folder)
        self.logs = LogFolder(folder / "log")
        self.jobs: list[Registered] = []
        self.strikes: list[Strike] = []
        self._registered_us = 0
        self._deleter: Deleter | None = None
        self._pace = Pace()
        self._asking: psycopg.Connection[tuple[Any, ...]] | None = None
        self._shown: dict[str, Any] = {}

    # Processes -------------------------------------------------------------------------------

    def launch(self, kind: str, title: str, dsn: str | None = None, **settings: str) -> Child:
        """Start a scheduler or a worker; `await_ready` tells when it is up."""
        target = [HANDLERS] if kind == "worker" else []
        child = Child(
            title,
            ["mainspring.cli", kind, *target, "--json"],
            environment={
                "MAINSPRING_DSN": dsn or self.dsn,
                LOG_VARIABLE: str(self.folder / "log"),
                "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), *import_path()]),
                **FEW_THREADS,
                **settings,
            },
            log_path=self.folder / f"{title}.stderr",
        )
        self.children.append(child)
        return child

    def await_ready(self, *children: Child) -> None:
        """Wait until they are ready."""
        for child in children:
            self.said[child.title] = child.wait_ready(READY_S)

    def crew(self, workers: int = 2, dsn: str | None = None, **settings: str) -> list[Child]:
        """Start a scheduler and workers at once; returns the workers."""
        made = [self.launch("scheduler", "scheduler", dsn, **settings)]
        made += [self.launch("worker", f"worker-{n + 1}", dsn, **settings) for n in range(workers)]
        self.await_ready(*made)
        wait_for("leaders", lambda: all(shard.leader for shard in self.store.read_shards()))
        return made[1:]

    def child(self, title: str) -> Child:
        """Return the newest process of that title."""
        return [child for child in self.children if child.title == title][-1]

    # The burst -------------------------------------------------------------------------------

    def begin(self, size: Size | None = None, plan: list[Planned] | None = None) -> None:
        """Register the load; from now on jobs are deleted as planned."""
        now_us = self.store.database_us()
        if plan is None:
            plan = plan_burst(now_us, size or Size())
        self._registered_us = now_us
        self.jobs = register(self.store, plan, now_us)
        doomed = [job for job in self.jobs if job.planned.delete_ahead_us]
        self._deleter = Deleter(self.store, doomed)

    def begun(self, pid: int | None = None) -> list[Line]:
        """Return what was begun so far, by everyone or by one process."""
        return [
            line for line in self.logs.lines() if line.event == "begin" and pid in {None, line.pid}
        ]

    def held(self, pid: int) -> list[Line]:
        """Return the runs that a process has begun and not ended."""
        runs: dict[str, Line] = {}
        for line in self.logs.lines():
            if line.pid == pid:
                if line.event == "begin":
                    runs[line.run_id] = line
                else:
                    runs.pop(line.run_id)
        return list(runs.values())

    def _counts(self) -> tuple[int, int]:
        """Return how many one-offs were begun, and how many there are."""
        one_offs = {job.job_id for job in self.jobs if not job.planned.period_us}
        return len({line.job_id for line in self.begun()} & one_offs), len(one_offs)

    def wait_middle(self, share: float = 0.3) -> None:
        """Wait until about that share of the one-offs was begun."""

        def is_there() -> bool:
            begun, total = self._counts()
            return begun >= share * total

        wait_for("the middle of the burst", is_there, 60)

    def wait_holding(self, child: Child, count: int = 5, *, hold_s: float = 0) -> None:
        """Wait until a worker runs that many handlers, where given of those that take `hold_s`."""
        jobs = {
            job.job_id for job in self.jobs if not hold_s or job.planned.fields["payload"] == hold_s
        }

        def is_holding() -> bool:
            return sum(line.job_id in jobs for line in self.held(child.pid)) >= count

        wait_for(f"{count} runs in {child.title}", is_holding, 30)

    @contextmanager
    def strike(
        self, kind: StrikeKind = "other", pid: int = 0, *, is_midway: bool = True
    ) -> Iterator[None]:
        """Bring a fault about within the block, which ends when the fault is over.

        Asserts that the first one found the burst in its middle: some of it had begun, and some
        had not.
        """
        at_mono_us, at_wall_us = mono_us(), wall_us()
        begun, total = self._counts()
        yield
        self.strikes.append(Strike(kind, pid, at_mono_us, at_wall_us, mono_us()))
        if len(self.strikes) == 1 and is_midway:
            self._shown["begun_at_fault"] = begun
            assert 0 < begun < total * 0.95, f"{begun} of {total} had begun at the fault"

    def kill(self, child: Child) -> None:
        """Kill a process with -9 and wait until it is gone."""
        send([child.pid], signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL

    def stop_for(self, pids: list[int], seconds: float) -> None:
        """Freeze processes for that long; the time is the fault itself."""
        freeze = Freeze(pids)
        try:
            wait_for("the stop", lambda: {state_of(pid) for pid in pids} == {"T"})
            time.sleep(seconds)
        finally:
            freeze.end()

    # The end ---------------------------------------------------------------------------------

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Ask the database, past mainspring."""
        try:
            if self._asking is None:
                self._asking = psycopg.connect(self.dsn, autocommit=True)
            return self._asking.execute(sql, parameters).fetchall()
        except psycopg.Error:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def finish(
        self,
        name: str,
        *,
        late_s: float,
        tend: Callable[[], None] = lambda: None,
        ends_badly: Sequence[Child] = (),
    ) -> tuple[Verdict, Tables]:
        """Wait until everything has ended, end the processes, judge, and note the figures.

        Parameters
        ----------
        late_s
            How late a firing may begin; `SPARE_S` is added, and more if the machine is starved.
        tend
            Called again and again while waiting.
        ends_badly
            Processes that were killed on purpose; all others have to end with code 0.
        """
        assert self._deleter is not None
        deletions = self._deleter.join()
        recurring = [job for job in self.jobs if job.planned.period_us]
        self._wait_one_offs([job.number for job in recurring], tend)
        quiet_us = self._settle(recurring, deletions)
        self._close(ends_badly)
        self._pace.stop()
        facts = Facts(
            expected=expect(self.jobs, self._registered_us, quiet_us, deletions),
            lines=self.logs.lines(),
            effects=self.logs.effects(),
            tables=read_tables(self.dsn),
            deletions=deletions,
            strikes=self.strikes,
            late_s_max=(late_s + SPARE_S) * self._pace.stretch,
            takeover_s_max=TAKEOVER_S_MAX * self._pace.stretch,
            resumed_s_max=RESUMED_S_MAX * self._pace.stretch,
        )
        verdict = check(facts)
        self._shown["slowness"] = round(self._pace.slowness, 2)
        tally.note(name, verdict, facts, self._shown)
        assert not verdict.violations, "\n".join(
            [f"{name}, in {self.folder}:", *verdict.violations]
        )
        return verdict, facts.tables

    def _wait_one_offs(self, recurring: list[int], tend: Callable[[], None]) -> None:
        def is_over() -> bool:
            tend()
            sql = "SELECT count(*) FROM firings WHERE firing_id <> ALL (%s)"
            return self.ask(sql, recurring) == [(0,)]

        wait_for("the end of every one-off", is_over, DRAIN_S)

    def _settle(self, recurring: list[Registered], deletions: dict[str, Deletion]) -> int:
        """End the recurring jobs when they have caught up; returns up to when they had to."""
        quiet_us = self.store.database_us()
        sql = """
            SELECT count(*) FROM firings
            WHERE firing_id = ANY (%s) AND (extract(epoch FROM scheduled_at) * 1000000) <= %s
        """
        numbers = [job.number for job in recurring]
        wait_for(
            "the recurring jobs to catch up",
            lambda: self.ask(sql, numbers, quiet_us) == [(0,)],
            DRAIN_S,
        )
        for job in recurring:
            deletions[job.job_id] = delete(self.store, job)
        wait_for(
            "the last runs", lambda: self.ask("SELECT count(*) FROM firings") == [(0,)], DRAIN_S
        )
        return quiet_us

    def _close(self, ends_badly: Sequence[Child]) -> None:
        """End all processes; each that was not killed ends well, and has nothing to regret."""
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            code = child.wait(STOP_S)
            words = self.words(child.title)
            if child not in ends_badly:
                assert code == 0, f"{child.title} ended with {code}: {words[-2_000:]}"
            assert not regrets(words), f"{child.title}: {regrets(words)[:3]}"

    def stop(self) -> None:
        """End whatever is left."""
        self._pace.stop()
        if self._deleter is not None:
            self._deleter.stop()
        self._hang_up()
        super().stop()
