"""The claim path by itself: a real scheduler arms everything that is due, and nobody takes it.

The same scheduler, settings and rows as in the burst, with the due second a little ahead and no
worker, so that it competes with nothing, as the textbook loop and the floors do not either.  What
is measured ends with the last encoded frame.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psycopg

from bench.hot_second.machine import ROOT
from bench.hot_second.scheduler_process import CLAIMS_VARIABLE, RECORD_VARIABLE
from mainspring.cli.children import Child
from mainspring.clock import monotonic_s, sleep_s
from mainspring.instants import US_PER_S

AHEAD_S = 8
CLAIM_S_MAX = 300.0

# Written anew in the order of their ids, as a registration leaves them: an UPDATE would not.
MOVE = (
    "CREATE TABLE kept AS SELECT * FROM firings",
    "TRUNCATE firings",
    """
    INSERT INTO firings (firing_id, job_id, shard, due_at, scheduled_at)
    SELECT firing_id, job_id, shard, %(at)s::timestamptz, %(at)s::timestamptz
    FROM kept ORDER BY firing_id
    """,
    "DROP TABLE kept",
)


def make_due_at(dsn: str, instant_text: str) -> None:
    """Make all firings due at one instant."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in MOVE:
            parameters = {"at": instant_text} if "%(at)s" in statement else None
            connection.execute(statement, parameters)


def claim_per_s(dsn: str, count: int, folder: Path) -> float:
    """Let a scheduler claim and encode all; returns firings a second.

    Raises
    ------
    RuntimeError
        It did not within five minutes.
    """
    record = folder / "claims.npz"
    child = Child(
        "scheduler",
        ["bench.hot_second.scheduler_process"],
        environment={
            "MAINSPRING_DSN": dsn,
            "PYTHONPATH": str(ROOT),
            RECORD_VARIABLE: str(record),
            CLAIMS_VARIABLE: str(count),
        },
        log_path=folder / "scheduler-alone.stderr",
    )
    try:
        child.wait_ready()
        deadline_s = monotonic_s() + CLAIM_S_MAX
        while not record.exists():
            if monotonic_s() > deadline_s or child.has_ended:
                raise RuntimeError("the scheduler did not claim everything; see its log")
            sleep_s(0.05)
    finally:
        child.process.kill()  # handing half a million leases back would measure nothing
        child.wait()
    with np.load(record) as saved:
        claims, prepared = saved["claims"], saved["prepared"]
    begun_us = claims[claims[:, 1] > 0][:, 0].min()
    return count / float((prepared[:, 0].max() - begun_us) / US_PER_S)
