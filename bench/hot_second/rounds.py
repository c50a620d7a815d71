"""One round: textbook, floors and burst, each on a database of its own with the same jobs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psycopg

from bench.hot_second import claiming, floors, textbook
from bench.hot_second.burst import BurstInputs, Witnesses, run_burst
from bench.hot_second.load import load_jobs, prepare_schema
from bench.hot_second.pairs import hourly_pairs, pairs_meeting_at
from bench.hot_second.server import Server
from mainspring.clock import monotonic_s
from mainspring.instants import US_PER_S, format_instant

MINUTE_US = 60 * US_PER_S
HOUR_US = 60 * MINUTE_US
PAIRS = 1_200
HOURLY_PAIRS = 300
LEAD_S = 12
"""For vacuum, checkpoint and the start of the processes, before the first claim."""

TEXTBOOK_TEMPLATE = "textbook_loaded"
NARROW_TEMPLATE = "narrow_loaded"
SETTLE_US_PER_JOB = 15


class Teller(Protocol):
    """Shows what goes on; a count with a total is a bar, without one it is a line."""

    def __call__(self, title: str, done: int = 0, total: int | None = None, /) -> None:
        """Tell."""


@dataclass(frozen=True)
class Sizes:
    """What was asked for."""

    jobs: int
    shards: int
    workers: int
    is_armed: bool
    drain_s_max: float
    is_any_second: bool = False
    textbook_connections: int = 1


@dataclass(frozen=True)
class Round:
    """What one round measured."""

    floors: dict[str, float]
    witnesses: Witnesses
    at_us: int


@contextlib.contextmanager
def templates(server: Server, sizes: Sizes, tell: Teller) -> Iterator[float]:
    """Make the loaded databases that floors and textbook copy; yields seconds a job to load."""
    with server.database(NARROW_TEMPLATE) as narrow, server.database(TEXTBOOK_TEMPLATE) as wide:
        begun_s = monotonic_s()
        _load(narrow, sizes, tell, at_us=None)
        per_job_s = (monotonic_s() - begun_s) / sizes.jobs
        tell("loading the textbook's table")
        # The wide table is filled from the same jobs, so it has the same payloads.
        _load(wide, sizes, tell, at_us=None)
        textbook.make_table(wide)
        for dsn in (narrow, wide):
            server.settle(dsn)
        yield per_job_s


def measure_round(server: Server, sizes: Sizes, per_job_s: float, tell: Teller) -> Round:
    """Measure each of the four once."""
    figures: dict[str, float] = {}
    tell("the textbook loop claims")
    with _copy(server, TEXTBOOK_TEMPLATE) as dsn:
        figures["textbook_claim_per_s"] = textbook.claim_per_s(
            dsn, sizes.jobs, connections=sizes.textbook_connections
        )
    tell("floors")
    with _copy(server, NARROW_TEMPLATE) as dsn:
        figures["floor_update_per_s"] = floors.update_per_s(dsn, sizes.jobs)
    with _copy(server, NARROW_TEMPLATE) as dsn:
        figures["floor_life_per_s"] = floors.life_per_s(dsn, sizes.jobs, sizes.shards)
    tell("a scheduler claims, without workers")
    with (
        server.database("measured", template=NARROW_TEMPLATE) as dsn,
        tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder,
    ):
        # Long enough ahead for the move, which takes about as long as to settle.
        ahead_us = round((claiming.AHEAD_S + sizes.jobs * SETTLE_US_PER_JOB * 2e-6) * US_PER_S)
        at_us = (_database_us(dsn) + ahead_us) // US_PER_S * US_PER_S
        claiming.make_due_at(dsn, format_instant(at_us))
        server.settle(dsn)
        figures["claim_per_s"] = claiming.claim_per_s(dsn, sizes.jobs, Path(folder))
    with (
        server.database("burst") as dsn,
        tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder,
    ):
        at_us = _choose_instant(dsn, sizes, per_job_s)
        _load(dsn, sizes, tell, at_us=at_us)
        server.settle(dsn)
        inputs = BurstInputs(
            server=server,
            dsn=dsn,
            folder=Path(folder),
            at_us=at_us,
            jobs=sizes.jobs,
            workers=sizes.workers,
            is_armed=sizes.is_armed,
            drain_s_max=sizes.drain_s_max,
        )
        _require_in_time(dsn, at_us)
        witnesses = run_burst(inputs, lambda title, done: tell(title, done, _total(title, sizes)))
    return Round(figures, witnesses, at_us)


def _total(title: str, sizes: Sizes) -> int | None:
    return sizes.jobs if title == "completed" else None


@contextlib.contextmanager
def _copy(server: Server, template: str) -> Iterator[str]:
    with server.database("measured", template=template) as dsn:
        server.settle(dsn)
        yield dsn


def _load(dsn: str, sizes: Sizes, tell: Teller, *, at_us: int | None) -> None:
    """Make the schema and register the jobs; without an instant they are due already."""
    prepare_schema(dsn, sizes.shards)
    now_us = _database_us(dsn)
    if at_us is None:
        at_us = now_us // MINUTE_US * MINUTE_US
        now_us = at_us - 30 * MINUTE_US
    if sizes.is_any_second:
        now_us = at_us - HOUR_US
        pairs = hourly_pairs(HOURLY_PAIRS)
    else:
        pairs = pairs_meeting_at(at_us, now_us, PAIRS)
    load_jobs(
        dsn, pairs, sizes.jobs, now_us, lambda done: tell("registering jobs", done, sizes.jobs)
    )


def _choose_instant(dsn: str, sizes: Sizes, per_job_s: float) -> int:
    """Return a full minute, or a full second, that leaves time to load."""
    span_s = sizes.jobs * (per_job_s * 1.4 + SETTLE_US_PER_JOB * 1e-6) + LEAD_S
    earliest_us = _database_us(dsn) + round(span_s * US_PER_S)
    unit_us = US_PER_S if sizes.is_any_second else MINUTE_US
    return -(-earliest_us // unit_us) * unit_us


def _require_in_time(dsn: str, at_us: int) -> None:
    if _database_us(dsn) > at_us - 8 * US_PER_S:
        raise RuntimeError("loading took longer than foreseen; the machine is too busy to measure")


def _database_us(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    assert row is not None
    return int(row[0] * US_PER_S)
