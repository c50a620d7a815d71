"""Reads what happened: the workers' logs, the effect sink, and the tables as they ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from faults.handlers import SINK_NAME
from mainspring.model import format_job_id, format_run_id


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a worker's log; `event` is begin, end or fail.

    `wall_us` is comparable with due times, `mono_us` with other processes of this machine.
    """

    event: str
    run_id: str
    job_id: str
    scheduled_us: int
    attempt: int
    fence: int
    pid: int
    wall_us: int
    mono_us: int
    key: str
    output: str

    @property
    def occurrence(self) -> tuple[str, int]:
        """What it belongs to."""
        return self.job_id, self.scheduled_us


@dataclass(frozen=True, slots=True)
class Effect:
    """What the sink was asked for."""

    key: str
    run_id: str
    pid: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the history; `pid` is that of the worker that had started it."""

    run_id: str
    job_id: str
    scheduled_us: int
    attempt: int
    status: str
    started_us: int
    pid: int
    output: str | None

    @property
    def occurrence(self) -> tuple[str, int]:
        """What it belongs to."""
        return self.job_id, self.scheduled_us


@dataclass(frozen=True, slots=True)
class Tables:
    """What is in the database at the end.  `letters` are run ids, `jobs_left` job ids."""

    rows: list[Row]
    letters: set[str]
    firings_left: list[str]
    jobs_left: set[str]


class LogFolder:
    """The workers' logs, read as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._lines: list[Line] = []

    def lines(self) -> list[Line]:
        """Return every line written so far."""
        for path in sorted(self._folder.glob("worker-*.log")):
            offset = self._offsets.get(path, 0)
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
            data = data[: data.rfind(b"\n") + 1]
            self._offsets[path] = offset + len(data)
            self._lines += map(parse_line, data.decode().splitlines())
        return self._lines

    def effects(self) -> list[Effect]:
        """Return everything the sink was asked for."""
        path = self._folder / f"{SINK_NAME}.log"
        if not path.exists():
            return []
        found = []
        for text in path.read_text().splitlines():
            key, run_id, pid = text.split(" ")
            found.append(Effect(key, run_id, int(pid)))
        return found


def parse_line(text: str) -> Line:
    """Read one line of a log; raises on anything that is not a whole one."""
    event, run_id, job_id, scheduled, attempt, fence, pid, wall, mono, key, output = text.split(" ")
    assert event in {"begin", "end", "fail"}, text
    return Line(
        event,
        run_id,
        job_id,
        int(scheduled),
        int(attempt),
        int(fence),
        int(pid),
        int(wall),
        int(mono),
        key,
        output,
    )


RUNS = """
    SELECT
        r.firing_id, r.fence, r.job_id, (extract(epoch FROM r.scheduled_at) * 1000000)::bigint,
        r.attempt, r.status::text,
        coalesce((extract(epoch FROM r.started_at) * 1000000)::bigint, 0),
        coalesce(split_part(h.name, ':', 2)::bigint, 0), r.output
    FROM job_runs AS r LEFT JOIN holders AS h ON h.holder_id = r.worker_id
"""
FIRINGS = """
    SELECT firing_id, due_at, scheduled_at, fence, attempt, locked_by, started_at, locked_until
    FROM firings ORDER BY firing_id
"""


def read_tables(dsn: str) -> Tables:
    """Read the end state."""
    with psycopg.connect(dsn) as connection:
        rows = [_row(*each) for each in connection.execute(RUNS)]
        letters = connection.execute("SELECT firing_id, fence FROM dead_letters").fetchall()
        firings = connection.execute(FIRINGS).fetchall()
        jobs = connection.execute("SELECT job_id FROM jobs").fetchall()
    return Tables(
        rows=rows,
        letters={format_run_id(*each) for each in letters},
        firings_left=[str(each) for each in firings],
        jobs_left={format_job_id(job_id) for (job_id,) in jobs},
    )


def _row(firing_id: int, fence: int, job_id: int, *rest: Any) -> Row:
    scheduled_us, attempt, status, started_us, pid, output = rest
    return Row(
        run_id=format_run_id(firing_id, fence),
        job_id=format_job_id(job_id),
        scheduled_us=scheduled_us,
        attempt=attempt,
        status=status,
        started_us=started_us,
        pid=pid,
        output=None if output is None else msgspec.json.decode(output),
    )
