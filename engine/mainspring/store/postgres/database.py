"""Runs named statements on pooled sessions, with repeats where nothing was applied.

Every part of the store goes through here, so that errors are translated, `now` is injected and
deadlocks are repeated in one place.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

from mainspring.clock import sleep_s
from mainspring.errors import StatementRetry, StoreUnavailable, TermLost
from mainspring.store.outage import Outage, told
from mainspring.store.postgres.arrays import Instant
from mainspring.store.postgres.connection import Session, connect
from mainspring.store.postgres.copy import copy_out
from mainspring.store.postgres.failures import translated
from mainspring.store.postgres.pool import SessionPool
from mainspring.store.statements import statement

Answer = TypeVar("Answer")
Row = tuple[Any, ...]

REPEATS_MAX: Final = 3
"""Repeats after deadlocks and lock time-outs; with jitter, two callers hardly meet thrice."""

PAUSE_S: Final = 0.02
"""Longest pause before the first repeat; doubled for each further one."""

PAUSE_S_MAX: Final = 1.0


class Database:
    """One Postgres database as the parts of the store see it.  Thread safe."""

    def __init__(
        self,
        dsn: str,
        application_name: str,
        pool_max: int,
        database_now: Callable[[], int] | None,
        outage: Outage | None = None,
    ) -> None:
        self._dsn = dsn
        self._application_name = application_name
        self._database_now = database_now
        self._outage = outage
        self._pool = SessionPool(self.open_session, pool_max)

    def open_session(self) -> Session:
        """Open a session outside the pool; the caller closes it."""
        return told(self._outage, lambda: connect(self._dsn, self._application_name))

    def close(self) -> None:
        """Give the pool's sessions up."""
        self._pool.close()

    def now(self) -> Instant | None:
        """Return the injected instant, or None for the database clock."""
        return None if self._database_now is None else Instant(self._database_now())

    def repeat(self, work: Callable[[Session], Answer], repeats_max: int = REPEATS_MAX) -> Answer:
        """Do `work`, which is one statement or one transaction, until it was not rolled back.

        Raises
        ------
        StatementRetry
            It was rolled back `repeats_max + 1` times.
        StoreUnavailable
            It may or may not have been applied.
        """
        for repeat in range(repeats_max + 1):
            try:
                return self._do(work)
            except StatementRetry:
                if repeat == repeats_max:
                    raise
            sleep_s(min(PAUSE_S * 2**repeat, PAUSE_S_MAX) * random.random())  # noqa: S311  jitter is no secret
        raise AssertionError("the last repeat returns or raises")

    def _do(self, work: Callable[[Session], Answer]) -> Answer:
        outage = self._outage
        began_us = 0 if outage is None else outage.begin()
        try:
            with self._pool.lend() as session, translated():
                answer = work(session)
        except StoreUnavailable as error:
            if outage is not None and error.is_lost:
                outage.failed(began_us, error.detail or error.message)
            raise
        if outage is not None:
            outage.answered(began_us)
        return answer

    def transact(self, work: Callable[[Session], Answer], repeats_max: int = REPEATS_MAX) -> Answer:
        """Do `work` in one transaction; otherwise as `repeat`."""

        def whole(session: Session) -> Answer:
            with session.transaction():
                return work(session)

        return self.repeat(whole, repeats_max)

    def rows_of(self, name: str, /, **parameters: Any) -> list[Row]:
        """Execute a statement as a transaction of its own and return its rows."""
        return self.repeat(lambda session: self.execute(session, name, **parameters))

    def copy_of(self, name: str, /, **parameters: Any) -> bytes:
        """Execute a COPY as a transaction of its own and return its bytes."""
        values = {"now": self.now(), **parameters}
        return self.repeat(lambda session: copy_out(session, statement(name), values))

    def execute(self, session: Session, name: str, /, **parameters: Any) -> list[Row]:
        """Execute a statement within the caller's transaction and return its rows.

        Instants come as int64 microseconds, arrays of ids and instants as NumPy arrays.
        """
        with session.cursor(binary=True) as cursor:
            cursor.execute(statement(name), {"now": self.now(), **parameters})
            return cursor.fetchall() if cursor.description is not None else []


class Part:
    """A part of the store: the methods of one facet over the shared database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _hold(self, session: Session, shard: int, term: int, holder_id: int | None) -> None:
        """Lock the term until the transaction ends; raises `TermLost`."""
        held = self._database.execute(
            session, "hold_term", shard=shard, term=term, holder=holder_id
        )
        if not held:
            raise TermLost(
                f"term {term} of shard {shard} was lost",
                hint="Another process leads the shard; drop its firings and campaign again.",
            )
