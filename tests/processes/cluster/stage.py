"""A whole cluster of real processes on one database, and what its tests ask of it."""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psycopg

from mainspring.cli.children import Child
from mainspring.clock import monotonic_s, sleep_s
from mainspring.instants import US_PER_S, format_instant
from mainspring.jobs import Jobs
from mainspring.model import Job, JobId, Run, RunStatus, format_job_id
from mainspring.registration import job_from, job_in
from mainspring.store.postgres import PostgresStore
from mainspring.store.prepare import prepare_database

T = TypeVar("T")
HERE = Path(__file__).parent
HANDLERS = "processes.cluster.handlers:tasks"
OTHER_HANDLERS = "processes.cluster.handlers:other_tasks"
FINAL = {RunStatus.SUCCESS, RunStatus.DEAD}


def wait_for(what: str, probe: Callable[[], T], timeout_s: float = 20.0) -> T:
    """Return the first true answer of `probe`; fail after the time for it."""
    deadline_s = monotonic_s() + timeout_s
    while True:
        answer = probe()
        if answer:
            return answer
        assert monotonic_s() < deadline_s, f"not within {timeout_s} s: {what}"
        sleep_s(0.05)


@dataclass(frozen=True)
class Line:
    """One line of a handler's log."""

    event: str
    job_id: str
    scheduled_us: int
    attempt: int
    run_id: str
    key: str


class Cluster:
    """Processes on one database; stop it, and nothing of it is left."""

    def __init__(self, dsn: str, folder: Path, *, shards: int = 4) -> None:
        self.dsn = dsn
        self.folder = folder
        (folder / "log").mkdir()
        prepare_database(dsn, shards=shards)
        self.store = PostgresStore(dsn, application_name="mainspring test", pool_max=2)
        self.children: list[Child] = []
        self.said: dict[str, dict[str, Any]] = {}

    def start(self, title: str, arguments: list[str], **environment: str) -> Child:
        """Start one process and wait until it is ready."""
        child = Child(
            title,
            arguments,
            environment={
                "MAINSPRING_DSN": self.dsn,
                "MAINSPRING_TEST_LOG_DIR": str(self.folder / "log"),
                "PYTHONPATH": str(HERE.parent.parent),
                **environment,
            },
            log_path=self.folder / f"{title}.stderr",
        )
        self.children.append(child)
        self.said[title] = child.wait_ready()
        return child

    def start_scheduler(self, title: str = "scheduler", **environment: str) -> Child:
        """Start a scheduler."""
        return self.start(title, ["mainspring.cli", "scheduler", "--json"], **environment)

    def start_worker(
        self, title: str = "worker", target: str = HANDLERS, **environment: str
    ) -> Child:
        """Start a worker."""
        return self.start(title, ["mainspring.cli", "worker", target, "--json"], **environment)

    def add(self, *, in_s: float | None = None, **fields: Any) -> JobId:
        """Register a job; `in_s` makes it a one-off so many seconds from now."""
        now_us = self.store.database_us()
        if in_s is not None:
            fields["schedule"] = format_instant(now_us + round(in_s * US_PER_S))
        fields.setdefault("name", "test")
        fields.setdefault("retry_backoff", "fixed")
        fields.setdefault("retry_base_seconds", 0)
        return self.store.add_jobs([job_from(job_in(fields), now_us)])[0]

    @property
    def calls(self) -> Jobs:
        """The calls of the command and of a host."""
        return Jobs(self.store)

    @staticmethod
    def name_of(job_id: int) -> str:
        """Return the external id."""
        return format_job_id(job_id)

    def session(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a session past the store, to be closed."""
        return psycopg.connect(self.dsn, autocommit=True)

    def runs(self, job_id: int) -> list[Run]:
        """Return the runs of a job, oldest attempt first."""
        return list(reversed(self.store.runs_of_job(job_id, limit=500)))

    def job(self, job_id: int) -> Job | None:
        """Return a job's definition, if it still stands."""
        return self.store.get_jobs([job_id]).get(JobId(job_id))

    def statuses(self, job_id: int) -> list[str]:
        """Return the statuses of a job's runs, oldest attempt first."""
        return [run.status.value for run in self.runs(job_id)]

    def wait_ended(self, job_id: int, timeout_s: float = 20.0) -> list[Run]:
        """Wait for a run that ends its occurrence; returns all runs of the job."""
        wait_for(
            f"the end of job {job_id}",
            lambda: any(run.status in FINAL for run in self.runs(job_id)),
            timeout_s,
        )
        return self.runs(job_id)

    def log(self) -> list[Line]:
        """Return what the handlers wrote down."""
        lines = []
        for path in sorted((self.folder / "log").glob("*.log")):
            for text in path.read_text().splitlines():
                event, job_id, scheduled, attempt, run_id, key = text.split(" ", 5)
                lines.append(Line(event, job_id, int(scheduled), int(attempt), run_id, key))
        return lines

    def metric(self, title: str, name: str) -> float:
        """Return the sum of a metric over its labels, as the process shows it."""
        port = self.said[title]["metrics_port"]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        total = 0.0
        for line in text.splitlines():
            if line.startswith((f"{name} ", f"{name}{{")):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def stop(self) -> None:
        """End every process that still runs, then the store."""
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            child.wait(15)
        self.store.close()

    def words(self, title: str) -> str:
        """Return what a process wrote on stderr, for a failure's text."""
        return (self.folder / f"{title}.stderr").read_text(errors="replace")


def decode_line(text: str) -> Any:
    """Read the one JSON value of a command."""
    return msgspec.json.decode(text)


def environment(cluster: Cluster) -> dict[str, str]:
    """Return the environment of a command on this cluster's database."""
    return {**os.environ, "MAINSPRING_DSN": cluster.dsn}
