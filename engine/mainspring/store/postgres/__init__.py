"""The store in Postgres: `PostgresStore`, which keeps the protocol of `mainspring.store`.

Its parts are the facets of the protocol, one module each, over one `Database` that lends sessions,
injects `now`, translates errors and repeats what was rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mainspring.store.outage import Outage
from mainspring.store.postgres.database import Database
from mainspring.store.postgres.ends import PostgresEnds
from mainspring.store.postgres.hints import Hint, HintListener
from mainspring.store.postgres.history import PostgresHistory
from mainspring.store.postgres.holders import PostgresHolders
from mainspring.store.postgres.jobs import PostgresJobs
from mainspring.store.postgres.shards import PostgresShards
from mainspring.store.postgres.zones import PostgresZones

__all__ = ["Hint", "PostgresStore"]


class PostgresStore(
    PostgresJobs, PostgresEnds, PostgresHolders, PostgresShards, PostgresHistory, PostgresZones
):
    """`mainspring.store.protocol.Store` in Postgres.  Thread safe, and connects when first used.

    Parameters
    ----------
    dsn
        Connection string or URI of a database whose schema is current; see `store.migrate`.
    application_name
        Kind and holder of this process, as in `mainspring scheduler h_7`.
    pool_max
        Sessions in use at a time; claims, starts and completions each keep one busy.
    database_now
        For tests: the instant that statements take for now.  None means the database clock.
    outage
        Is told which requests did not reach the database; None, the default, tells nobody.
    """

    def __init__(
        self,
        dsn: str,
        *,
        application_name: str,
        pool_max: int = 4,
        database_now: Callable[[], int] | None = None,
        outage: Outage | None = None,
    ) -> None:
        super().__init__(Database(dsn, application_name, pool_max, database_now, outage))
        self._listener = HintListener(self._database.open_session)

    def hints(self, timeout_s: float) -> Iterator[Hint]:
        """Yield hints for `timeout_s`; raises `StoreUnavailable` when some may have been lost."""
        return self._listener.hints(timeout_s)

    def close(self) -> None:
        """Give up connections; the store is unusable afterwards."""
        self._listener.close()
        self._database.close()
