"""A session with advisory locks of shards in it, for the elector."""

from __future__ import annotations

from typing import Final

from mainspring.store.outage import Outage, told
from mainspring.store.postgres.connection import Session, connect
from mainspring.store.postgres.failures import translated
from mainspring.store.statements import statement

LOCK_CLASS_SHARD: Final = 0x6D73_7002
"""First key of the advisory locks of shards; the second is the shard."""


class PostgresLockSession:
    """Locks live as long as the session; every call may raise `StoreUnavailable`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def try_lock(self, shard: int) -> bool:
        """Take the shard's lock if no session has it."""
        return bool(self._ask("try_shard_lock", shard=shard))

    def unlock(self, shard: int) -> None:
        """Free the shard's lock."""
        self._ask("free_shard_lock", shard=shard)

    def check(self) -> None:
        """Ask the server whether the session is still there."""
        self._ask("database_clock")

    def close(self) -> None:
        """End the session, and with it every lock."""
        self._session.close()

    def _ask(self, name: str, **parameters: int) -> object:
        values = {"now": None, "lock_class": LOCK_CLASS_SHARD, **parameters}
        with translated():
            row = self._session.execute(statement(name), values).fetchone()
        assert row is not None
        return row[0]


def open_lock_session(
    dsn: str, application_name: str, outage: Outage | None = None
) -> PostgresLockSession:
    """Open a session for locks; raises `StoreUnavailable`, and tells `outage` of it."""
    # Idle between campaigns, and never in a transaction: the usual settings fit.
    return PostgresLockSession(told(outage, lambda: connect(dsn, application_name)))
