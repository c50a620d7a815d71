"""What a scheduler did and when, recorded from within its own process.

The recording goes in through the doors that a scheduler has anyway: a store that notes when a claim
begins, and counts that note when they grow.  Its loop and its claims are the ones that ship.
Instants are microseconds of the wall clock, which is the database's on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mainspring.claim import ClaimBatch
from mainspring.metrics import SchedulerMetrics, ShardCounts
from mainspring.store.postgres import PostgresStore

Rows = list[tuple[int, int]]
Note = Callable[[int], None]


def now_us() -> int:
    """Return the wall clock."""
    return time.time_ns() // 1_000


class RecordedCounts(ShardCounts):
    """Counts of a shard that note when firings were prepared and when they were released."""

    __slots__ = ("note_prepared", "note_released")

    def __init__(self, note_prepared: Note, note_released: Note) -> None:
        self.note_prepared = note_prepared
        self.note_released = note_released
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in {"claimed", "released"} and hasattr(self, name):
            grown = value - getattr(self, name)
            if grown:
                (self.note_prepared if name == "claimed" else self.note_released)(grown)
        super().__setattr__(name, value)


class RecordedMetrics(SchedulerMetrics):
    """Metrics whose shards note what they count.

    `on_prepared` is called once, when `prepared_wanted` firings have been prepared; 0 means never.
    """

    def __init__(self, prepared_wanted: int, on_prepared: Callable[[], None]) -> None:
        self.prepared: Rows = []
        self.released: Rows = []
        self._prepared_left = prepared_wanted
        self._on_prepared = on_prepared
        super().__init__()

    def shard(self, shard: int) -> ShardCounts:
        """Return the counts of one shard; the same object each time."""
        if shard not in self._shards:
            self._shards[shard] = RecordedCounts(
                self._note_prepared,
                lambda count: self.released.append((now_us(), count)),
            )
        return self._shards[shard]

    def _note_prepared(self, count: int) -> None:
        self.prepared.append((now_us(), count))
        is_open = self._prepared_left > 0
        self._prepared_left -= count
        if is_open and self._prepared_left <= 0:
            self._on_prepared()


class RecordedStore(PostgresStore):
    """A store that notes when each claim was asked for and how many firings it leased."""

    def __init__(self, dsn: str, **options: Any) -> None:
        super().__init__(dsn, **options)
        self.claims: Rows = []

    def claim_page(self, *arguments: Any, **keywords: Any) -> ClaimBatch:
        """Lease the next page, as `PostgresStore` does."""
        return self._noted(super().claim_page, arguments, keywords)

    def claim_ids(self, *arguments: Any, **keywords: Any) -> ClaimBatch:
        """Lease named firings, as `PostgresStore` does."""
        return self._noted(super().claim_ids, arguments, keywords)

    def _noted(
        self, claim: Callable[..., ClaimBatch], arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> ClaimBatch:
        begun_us = now_us()
        batch = claim(*arguments, **keywords)
        self.claims.append((begun_us, len(batch)))
        return batch


def save(path: Path, metrics: RecordedMetrics, store: RecordedStore) -> None:
    """Write everything noted to one .npz file, which is whole as soon as it is there."""
    part = path.with_suffix(".part.npz")
    np.savez(
        part,
        claims=_rows(store.claims),
        prepared=_rows(metrics.prepared),
        released=_rows(metrics.released),
    )
    part.replace(path)


def _rows(pairs: Rows) -> NDArray[np.int64]:
    return np.array(pairs, np.int64).reshape(-1, 2)
