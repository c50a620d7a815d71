"""Election by session advisory locks of Postgres: held by whoever may ask for a term.

The lock lives as long as the session.  A killed leader's socket is closed by its kernel, the
server notices, and the next campaign succeeds; a frozen leader keeps its lock until its session
is ended.

Source: PostgreSQL manual, "Advisory Locks".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mainspring.clock import US_PER_S, monotonic_us
from mainspring.errors import StoreUnavailable

CHECK_US: Final = US_PER_S // 4
"""One answer of the session vouches this long for all its locks: one question a round, and not one
for each shard.  It is below the margin that a term's trust window keeps."""


class LockSession(Protocol):
    """One database session and the shard locks in it; every call may raise StoreUnavailable."""

    def try_lock(self, shard: int) -> bool:
        """Take the shard's lock if nobody has it."""

    def unlock(self, shard: int) -> None:
        """Free the shard's lock."""

    def check(self) -> None:
        """Ask the server whether the session is still there."""

    def close(self) -> None:
        """End the session, and with it every lock."""


class PostgresElector:
    """Campaigns by taking the shard's lock in a session of its own.  Not thread safe."""

    def __init__(self, open_session: Callable[[], LockSession]) -> None:
        self._open_session = open_session
        self._session: LockSession | None = None
        self._elected: set[int] = set()
        self._checked_us: int | None = None

    def campaign(self, shard: int) -> bool:
        """Return whether the shard's lock is this session's now."""
        if shard in self._elected:
            return True
        try:
            if self._session is None:
                self._session = self._open_session()
            if self._session.try_lock(shard):
                self._elected.add(shard)
        except StoreUnavailable:
            self._break()
            raise
        return shard in self._elected

    def is_elected(self, shard: int) -> bool:
        """Return whether the session still answers and holds the lock."""
        if self._session is None or shard not in self._elected:
            return False
        asked_us = monotonic_us()
        if self._checked_us is not None and asked_us - self._checked_us < CHECK_US:
            return True
        try:
            self._session.check()
            self._checked_us = asked_us
        except StoreUnavailable:
            self._break()
            return False
        return True

    def resign(self, shard: int) -> None:
        """Free the shard's lock; a session that is gone has freed it."""
        self._elected.discard(shard)
        if self._session is None:
            return
        try:
            self._session.unlock(shard)
        except StoreUnavailable:
            self._break()

    def close(self) -> None:
        """End the session."""
        self._break()

    def _break(self) -> None:
        session, self._session = self._session, None
        self._checked_us = None
        self._elected.clear()
        if session is not None:
            session.close()
