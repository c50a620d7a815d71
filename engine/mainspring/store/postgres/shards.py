"""Shards and terms in Postgres."""

from __future__ import annotations

from typing import Final

from mainspring.errors import Conflict, NotFound
from mainspring.store.postgres.arrays import Bigints
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.database import Part
from mainspring.store.protocol import ShardState

LOCK_CLASS_SETUP: Final = 0x6D73_7001
"""First key of the advisory locks of setting up: `msp` and a number.  The second says for what."""

SETUP_SHARDS: Final = 1
SETUP_PARTITIONS: Final = 2


class PostgresShards(Part):
    """The facet `ShardStore`; see `mainspring.store.protocol`."""

    def make_shards(self, count: int) -> None:
        """Make shards 0 to count-1; `Conflict` if there is another number of them."""

        def work(session: Session) -> None:
            execute = self._database.execute
            execute(session, "lock_setup", lock_class=LOCK_CLASS_SETUP, lock_key=SETUP_SHARDS)
            ((there,),) = execute(session, "count_shards")
            if there and there != count:
                raise Conflict(
                    f"the database has {there} shards, not {count}",
                    hint="The number of shards is fixed when the first scheduler starts.",
                )
            if not there:
                execute(session, "make_shards", count=count)
                execute(session, "make_shard_leases", count=count)

        self._database.transact(work)

    def count_shards(self) -> int:
        """Return how many shards this database has; 0 before `make_shards`."""
        ((count,),) = self._database.rows_of("count_shards")
        return int(count)

    def take_term(self, shard: int, holder_id: int) -> int:
        """Begin a new term, one higher than the last, led by `holder_id`.

        Not repeated here: a lock time-out says that a predecessor is frozen within a claim, and
        whoever campaigns ends its session before the next try.

        Raises
        ------
        StatementRetry
            The row stayed locked.
        NotFound
            There is no such shard.
        """

        def work(session: Session) -> int:
            execute = self._database.execute
            rows = execute(session, "take_term", shard=shard, holder=holder_id)
            if not rows:
                raise NotFound(f"there is no shard {shard}")
            ((term,),) = rows
            execute(session, "begin_lease", shard=shard, term=term)
            return int(term)

        return self._database.transact(work, repeats_max=0)

    def renew_terms(self, holder_id: int, terms: dict[int, int]) -> set[int]:
        """Renew {shard: term}; returns the shards whose term still stands."""
        rows = self._database.rows_of(
            "renew_terms",
            holder=holder_id,
            shards=Bigints(list(terms)),
            terms=Bigints(list(terms.values())),
        )
        return {shard for (shard,) in rows}

    def end_term(self, shard: int, term: int, holder_id: int) -> bool:
        """Resign."""
        return bool(self._database.rows_of("end_term", shard=shard, term=term, holder=holder_id))

    def read_shards(self) -> list[ShardState]:
        """Return all shards in order."""
        return [ShardState(*row) for row in self._database.rows_of("read_shards")]
