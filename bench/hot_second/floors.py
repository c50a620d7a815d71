"""What plain SQL does with the same rows: the floors that mainspring is measured against."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import numpy as np
import psycopg
from numpy.typing import NDArray

from mainspring.clock import monotonic_s
from mainspring.store.postgres.arrays import Bigints, Instant, register_arrays
from mainspring.store.statements import parse_statements

CLAIM_ROWS = 5_000
START_ROWS = 500
COMPLETE_ROWS = 5_000
LONG_AGO_US = 0
PLANNER = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"

Int64s = NDArray[np.int64]
_SQL = parse_statements((Path(__file__).parent / "sql" / "floor.sql").read_text())


def update_per_s(dsn: str, count: int) -> float:
    """Lease all rows by one plain UPDATE; returns rows a second."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        begun_s = monotonic_s()
        cursor = connection.execute(_SQL["floor_update"])
        took_s = monotonic_s() - begun_s
    _require(cursor.rowcount, count)
    return count / took_s


def life_per_s(dsn: str, count: int, shards: int) -> float:
    """Claim and start on one connection, complete on another; returns lives a second.

    Pages of 5,000 are claimed, started in 500s and completed in 5,000s, each statement a
    transaction of its own, arrays binary and sorted: what DESIGN section 11 measured.
    """
    started: queue.Queue[tuple[Int64s, Int64s] | None] = queue.Queue(maxsize=8)
    completed: list[int] = []

    def complete() -> None:
        with _connect(dsn) as connection:
            while (page := started.get()) is not None:
                ids, fences = page
                cursor = connection.execute(
                    _SQL["floor_complete"], {"ids": Bigints(ids), "fences": Bigints(fences)}
                )
                completed.append(cursor.rowcount)

    completer = threading.Thread(target=complete)
    with _connect(dsn) as connection:
        begun_s = monotonic_s()
        completer.start()
        for shard in range(shards):
            _claim_and_start(connection, shard, started)
        started.put(None)
        completer.join()
        took_s = monotonic_s() - begun_s
    _require(sum(completed), count)
    return count / took_s


def _claim_and_start(
    connection: psycopg.Connection[tuple[object, ...]],
    shard: int,
    started: queue.Queue[tuple[Int64s, Int64s] | None],
) -> None:
    after_us, after_id = LONG_AGO_US, 0
    while True:
        row = connection.execute(
            _SQL["floor_claim"],
            {
                "shard": shard,
                "after_at": Instant(after_us),
                "after_id": after_id,
                "limit": CLAIM_ROWS,
            },
            binary=True,
        ).fetchone()
        assert row is not None
        ids, fences, last_us = row
        if ids is None:
            return
        assert isinstance(ids, np.ndarray)
        assert isinstance(fences, np.ndarray)
        assert isinstance(last_us, int)
        for first in range(0, len(ids), START_ROWS):
            chosen = slice(first, first + START_ROWS)
            cursor = connection.execute(
                _SQL["floor_start"],
                {"ids": Bigints(ids[chosen]), "fences": Bigints(fences[chosen])},
            )
            _require(cursor.rowcount, len(ids[chosen]))
        started.put((ids, fences))
        after_us, after_id = last_us, int(ids[-1])


def _connect(dsn: str) -> psycopg.Connection[tuple[object, ...]]:
    # The planner settings of mainspring's own sessions: a floor must not fall into a worse plan.
    connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=0, options=PLANNER)
    register_arrays(connection)
    return connection


def _require(done: int, wanted: int) -> None:
    if done != wanted:
        raise RuntimeError(f"a floor touched {done} rows of {wanted}")
