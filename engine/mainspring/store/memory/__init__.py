"""A store in this process' memory, with the answers of the Postgres store and none of its tables.

It is a real store for tests, for the simulator and for a first try: it keeps the whole protocol,
raises the same errors and gives the same order, limits and clamps, which one conformance suite
holds it to.  Every method is one atomic step under one lock, and no method waits for another
thread, so nothing is ever skipped as locked, and `StoreUnavailable` is never raised.

What it does not offer: durability, or a second process.  All of it is gone with the process.

Ties that SQL leaves open are settled here by id, so that a run of the simulator can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable

from mainspring.store.memory.claims import MemoryClaims
from mainspring.store.memory.ends import MemoryEnds
from mainspring.store.memory.firings import MemoryFirings
from mainspring.store.memory.history import MemoryHistory
from mainspring.store.memory.holders import MemoryHolders
from mainspring.store.memory.jobs import MemoryJobs
from mainspring.store.memory.shards import MemoryShards
from mainspring.store.memory.state import State
from mainspring.store.memory.zones import MemoryZones

__all__ = ["MemoryStore"]


class MemoryStore(
    MemoryJobs,
    MemoryClaims,
    MemoryFirings,
    MemoryEnds,
    MemoryHolders,
    MemoryShards,
    MemoryHistory,
    MemoryZones,
):
    """`mainspring.store.protocol.Store` in memory.

    Parameters
    ----------
    database_now
        The database clock, microseconds since the Unix epoch; read once a method, under the lock.
    hints
        Called as `hints(shard, due_us, firing_id)` after a method that made something due sooner,
        in the caller's thread and outside the lock; `firing_id` is 0 where there are several.
    """

    def __init__(
        self,
        database_now: Callable[[], int],
        *,
        hints: Callable[[int, int, int], None] | None = None,
    ) -> None:
        super().__init__(State(database_now, hints))

    def close(self) -> None:
        """Do nothing: there are no connections to give up."""
