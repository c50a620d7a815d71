"""Effects stand once although workers die around them: real processes, killed and stopped."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from faults.exactly_once.handlers import CREATE_TABLES, KILLS_VARIABLE
from faults.exactly_once.nursery import HANDLERS
from faults.processes import children_of, send, state_of
from mainspring.cli.children import Child
from mainspring.model import JobId, RunStatus
from processes.cluster.stage import Cluster, wait_for

pytestmark = pytest.mark.faults

KILLS_AFTER = 200
KILLS_WITHIN = 20
WORKERS = 8
KILLED = -signal.SIGKILL

QUICK = {
    "MAINSPRING_DEAD_AFTER_SECONDS": "3",
    "MAINSPRING_TRUST_SECONDS": "2.5",
    "MAINSPRING_BEAT_SECONDS": "0.5",
    # One firing in hand for each worker, so that a death takes nothing but what it died of.
    "MAINSPRING_FRAME_FIRINGS_MAX": "1",
    "MAINSPRING_CREDIT_FIRINGS": "1",
    "MAINSPRING_CONCURRENCY": "1",
    "MAINSPRING_START_AHEAD_SECONDS": "0",
    "OPENBLAS_NUM_THREADS": "1",
}


class Till(Cluster):
    """A cluster that charges cards."""

    def __init__(self, dsn: str, folder: Path) -> None:
        super().__init__(dsn, folder, shards=2)
        self.kills_path = folder / "kills"
        self.deaths_path = folder / "deaths"
        for path in (self.kills_path, self.deaths_path):
            path.touch()
        self.session = psycopg.connect(dsn, autocommit=True)
        self.session.execute(CREATE_TABLES)

    def open(self, workers: int = 0) -> None:
        """Start a scheduler, and a nursery with so many workers."""
        environment = {**QUICK, KILLS_VARIABLE: str(self.kills_path)}
        self.start_scheduler(**environment)
        if workers:
            arguments = ["faults.exactly_once.nursery", str(workers), str(self.deaths_path)]
            self.start("nursery", arguments, **environment)

    def hire(self, title: str) -> None:
        """Start one worker."""
        self.start_worker(title, HANDLERS, **QUICK, MAINSPRING_TEST_KILLS=str(self.kills_path))

    def child(self, title: str) -> Child:
        """Return a process by its title."""
        return next(child for child in self.children if child.title == title)

    def sell(self, count: int, kill: str, *tasks: str) -> list[JobId]:
        """Register charges that are due now, each task in turn."""
        return [
            self.add(in_s=0, task=tasks[number % len(tasks)], payload=kill, max_retries=20)
            for number in range(count)
        ]

    def charges(self, table: str = "charges") -> Counter[int]:
        """Return how many rows each job has."""
        rows = self.session.execute(f"SELECT job_id FROM {table}").fetchall()
        return Counter(job_id for (job_id,) in rows)

    def ended(self) -> int:
        """Return how many runs were accepted as a success."""
        row = self.session.execute("SELECT count(*) FROM job_runs WHERE status = 'success'")
        return int(row.fetchall()[0][0])

    def kills(self) -> list[tuple[int, int, str]]:
        """Return (process id, job id, place) of what the handlers said before they killed."""
        lines = [line.split() for line in self.kills_path.read_text().splitlines()]
        return [(int(pid), int(job_id), place) for pid, job_id, _, place in lines]

    def deaths(self) -> list[tuple[int, int]]:
        """Return (process id, exit code) of the workers that died."""
        lines = [line.split() for line in self.deaths_path.read_text().splitlines()]
        return [(int(pid), int(code)) for pid, code in lines]

    def stop(self) -> None:
        super().stop()
        self.session.close()


@pytest.fixture
def till(dsn: str, tmp_path: Path) -> Iterator[Till]:
    made = Till(dsn, tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_hundred_workers_killed_between_effect_and_completion(till: Till) -> None:
    """Each effect stands once; the same effect made without its key stands twice.

    Twenty more die within the effect's transaction, and leave neither effect nor key.
    """
    after = till.sell(KILLS_AFTER, "after", "charge-async", "charge")
    within = till.sell(KILLS_WITHIN, "within", "charge-async", "charge")
    jobs = {*after, *within}
    till.open(WORKERS)
    wait_for("the end of all", lambda: till.ended() == len(jobs), 300)
    killed = [pid for pid, code in till.deaths() if code == KILLED]
    till.child("nursery").stop()

    # The machine did what the test is about: every death is one of ours, at its place.
    assert len(killed) == KILLS_AFTER + KILLS_WITHIN
    assert sorted(pid for pid, _, _ in till.kills()) == sorted(killed)
    assert {job_id for _, job_id, place in till.kills() if place == "after"} == set(after)
    assert {job_id for _, job_id, place in till.kills() if place == "within"} == set(within)
    codes = {code for _, code in till.deaths()}
    assert codes == {KILLED, 0}, till.words("nursery")[-4_000:]
    for job_id in jobs:
        *lost, last = [run.status for run in till.runs(job_id)]
        assert set(lost) == {RunStatus.LOST}
        assert last is RunStatus.SUCCESS

    assert till.charges() == dict.fromkeys(jobs, 1)
    assert set(till.charges("charges_without")) == jobs
    assert min(till.charges("charges_without").values()) >= 2
    made_by = dict(till.session.execute("SELECT job_id, attempt FROM charges").fetchall())
    assert {made_by[job_id] for job_id in after} == {1}
    assert min(made_by[job_id] for job_id in within) == 2


@pytest.mark.parametrize("task", ["charge-async", "charge", "charge-process"])
def test_in_each_isolation_a_killed_attempt_leaves_its_effect(till: Till, task: str) -> None:
    """On the event loop, in a thread, and in a process of its own, which dies instead."""
    till.open()
    till.hire("first")
    [job_id] = till.sell(1, "after", task)
    wait_for("the kill", till.kills)
    if task != "charge-process":
        wait_for("its death", lambda: till.child("first").has_ended)
        till.hire("second")
    runs = till.wait_ended(job_id, 40)

    assert till.charges() == {job_id: 1}
    assert till.charges("charges_without") == {job_id: 2}
    assert [run.output for run in runs][-1] == "false"


@pytest.mark.parametrize("end", [signal.SIGCONT, signal.SIGKILL])
def test_a_worker_stopped_within_its_effect_is_waited_for(till: Till, end: signal.Signals) -> None:
    """Woken beside its successor it makes the effect; killed, the successor makes it.

    The heartbeat is stopped too, so that the worker is declared dead and its run goes on elsewhere.
    """
    till.open()
    till.hire("first")
    first = till.child("first")
    [job_id] = till.sell(1, "stop", "charge")
    wait_for("a stopped worker", lambda: state_of(first.pid) == "T")
    beating = children_of(first.pid)
    send(beating, signal.SIGSTOP)
    till.hire("second")
    try:
        wait_for("its run to be lost", lambda: till.statuses(job_id)[:1] == ["lost"])
        wait_for(
            "a successor that waits for the key",
            lambda: till.session.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall(),
        )
        assert till.charges() == {}
    finally:
        send([first.pid, *beating], end)
    runs = till.wait_ended(job_id)

    assert [run.status for run in runs] == [RunStatus.LOST, RunStatus.SUCCESS]
    assert till.charges() == {job_id: 1}
    assert till.charges("charges_without") == {job_id: 2}
    made_by = till.session.execute("SELECT attempt FROM charges").fetchall()
    woken = end is signal.SIGCONT
    assert made_by == [(1 if woken else 2,)]
    assert runs[-1].output == ("false" if woken else "true")
