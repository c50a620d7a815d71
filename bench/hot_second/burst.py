"""Mainspring's own hot second: real scheduler, real workers, one due instant, three witnesses."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.hot_second.machine import ROOT
from bench.hot_second.processes import tree_cpu_s
from bench.hot_second.scheduler_process import RECORD_VARIABLE
from bench.hot_second.server import Server
from bench.hot_second.worker_tasks import LOG_VARIABLE, read_logs
from mainspring.cli.children import Child
from mainspring.clock import monotonic_s, sleep_s
from mainspring.instants import US_PER_S
from mainspring.store.postgres import PostgresStore
from mainspring.store.postgres.audit import Audit, RecordedRuns

READY_BEFORE_S = 5.0
POLL_S = 0.1
WORKER = "bench.hot_second.worker_tasks:worker"

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class BurstInputs:
    """One burst: where, when, how many."""

    server: Server
    dsn: str
    folder: Path
    at_us: int
    jobs: int
    workers: int
    is_armed: bool
    drain_s_max: float


@dataclass(frozen=True)
class Witnesses:
    """What the three witnesses say; `record` has the arrays of `record.save`."""

    record: dict[str, Int64s]
    logs: Int64s
    runs: RecordedRuns
    rescheduled: int
    drained_us: int
    cpu_s: dict[str, float]
    wal_bytes: int


class _Meter:
    """Processor time and WAL since it was made."""

    def __init__(self, server: Server, pids: dict[str, list[int]]) -> None:
        self._server = server
        self._pids = pids | {"postgres": [server.postgres.pid]}
        self._wal_bytes = server.wal_bytes()
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        return {kind: sum(map(tree_cpu_s, pids)) for kind, pids in self._pids.items()}

    def used(self) -> tuple[dict[str, float], int]:
        """Return seconds of processor time by kind of process, and bytes of WAL."""
        now = self._read()
        cpu_s = {kind: now[kind] - before for kind, before in self._before.items()}
        return cpu_s, self._server.wal_bytes() - self._wal_bytes


def run_burst(inputs: BurstInputs, told: Callable[[str, int], None]) -> Witnesses:
    """Start everything, let the second come, wait until all is committed, and ask the witnesses.

    The meter runs from before the first claim to the last commit, so what is done ahead of the
    second counts.  Whatever is not done within `drain_s_max` stays undone and will be counted
    as missed.
    """
    store = PostgresStore(inputs.dsn, application_name="bench", pool_max=1)
    with contextlib.ExitStack() as stack:
        stack.callback(store.close)
        scheduler, workers, ports = _start(inputs, stack)
        children = {"scheduler": [scheduler.pid], "worker": [child.pid for child in workers]}
        _wait_until(store, inputs.at_us - round(READY_BEFORE_S * US_PER_S), told)
        meter = _Meter(inputs.server, children)
        _wait_until(store, inputs.at_us, told)
        deadline_s = monotonic_s() + inputs.drain_s_max
        done = 0
        while done < inputs.jobs and monotonic_s() < deadline_s:
            sleep_s(POLL_S)
            done = sum(_completed(port) for port in ports)
            told("completed", done)
        drained_us = store.database_us()
        cpu_s, wal_bytes = meter.used()
        sleep_s(1.0)  # a run that came twice would end about now
        for child in [*workers, scheduler]:
            child.stop()
    audit = Audit(inputs.dsn)
    try:
        runs = audit.runs()
        open_count = len(audit.open_firings().firing_id)
    finally:
        audit.close()
    with np.load(inputs.folder / "record.npz") as saved:
        record = {name: saved[name] for name in saved.files}
    return Witnesses(
        record=record,
        logs=read_logs(inputs.folder),
        runs=runs,
        rescheduled=inputs.jobs - open_count,
        drained_us=drained_us,
        cpu_s=cpu_s,
        wal_bytes=wal_bytes,
    )


def _start(
    inputs: BurstInputs, stack: contextlib.ExitStack
) -> tuple[Child, list[Child], list[int]]:
    environment = {
        "MAINSPRING_DSN": inputs.dsn,
        "PYTHONPATH": str(ROOT),
        LOG_VARIABLE: str(inputs.folder),
        RECORD_VARIABLE: str(inputs.folder / "record.npz"),
    }
    if not inputs.is_armed:
        environment["MAINSPRING_ARM_AHEAD_SECONDS"] = "0"
    commands: dict[str, list[str]] = {"scheduler": ["bench.hot_second.scheduler_process"]}
    for number in range(1, inputs.workers + 1):
        commands[f"worker-{number}"] = ["mainspring.cli", "worker", WORKER, "--json"]
    children = []
    for title, arguments in commands.items():
        child = Child(
            title,
            arguments,
            environment=environment,
            log_path=inputs.folder / f"{title}.stderr",
        )
        stack.callback(child.stop)
        children.append(child)
    answers: list[dict[str, Any]] = [child.wait_ready() for child in children]
    return children[0], children[1:], [answer["metrics_port"] for answer in answers[1:]]


def _wait_until(store: PostgresStore, until_us: int, told: Callable[[str, int], None]) -> None:
    while (left_us := until_us - store.database_us()) > 0:
        told("seconds to go", -(-left_us // US_PER_S))
        sleep_s(min(0.2, left_us / US_PER_S))


def _completed(port: int) -> int:
    """Return how many completions a worker knows to be committed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    for line in text.splitlines():
        if line.startswith("mainspring_completed_total "):
            return int(float(line.rpartition(" ")[2]))
    return 0
