"""Shards and terms; the rules of sql/shard.sql."""

from __future__ import annotations

from mainspring.errors import Conflict, NotFound
from mainspring.model import HolderId
from mainspring.store.memory.state import Facet, Shard
from mainspring.store.protocol import ShardState


class MemoryShards(Facet):
    """The facet `ShardStore`."""

    def make_shards(self, count: int) -> None:
        """Make shards 0 to count-1; `Conflict` if there is another number of them."""
        state = self._state
        with state.lock:
            if state.shards and len(state.shards) != count:
                raise Conflict(
                    f"the database has {len(state.shards)} shards, not {count}",
                    hint="The number of shards is fixed when the first scheduler starts.",
                )
            for shard in range(count):
                state.shards.setdefault(shard, Shard())

    def count_shards(self) -> int:
        """Return how many shards this database has; 0 before `make_shards`."""
        with self._state.lock:
            return len(self._state.shards)

    def take_term(self, shard: int, holder_id: int) -> int:
        """Begin a new term, one higher than the last, led by `holder_id`."""
        state = self._state
        with state.lock:
            row = state.shards.get(shard)
            if row is None:
                raise NotFound(f"there is no shard {shard}")
            row.term += 1
            row.leader = HolderId(holder_id)
            row.lease_term = row.term
            row.renewed_us = state.database_now()
            return row.term

    def renew_terms(self, holder_id: int, terms: dict[int, int]) -> set[int]:
        """Renew {shard: term}; returns the shards whose term still stands."""
        state = self._state
        standing: set[int] = set()
        with state.lock:
            now_us = state.database_now()
            for shard, term in terms.items():
                row = state.shards.get(shard)
                if row is not None and row.leader == holder_id and row.term == term:
                    row.renewed_us = now_us
                    standing.add(shard)
        return standing

    def end_term(self, shard: int, term: int, holder_id: int) -> bool:
        """Resign: the term stays as it is, nobody leads until the next one."""
        with self._state.lock:
            row = self._state.shards.get(shard)
            if row is None or row.term != term or row.leader != holder_id:
                return False
            row.leader = None
            return True

    def read_shards(self) -> list[ShardState]:
        """Return all shards in order."""
        with self._state.lock:
            return [
                ShardState(shard, row.term, row.leader, row.renewed_us)
                for shard, row in sorted(self._state.shards.items())
            ]
