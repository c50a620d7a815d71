"""A few sessions, lent to threads and opened again after a loss.

Kept small on purpose: no thread of its own, no queue of tasks.  A session that comes back from a
failure, or within a transaction, is closed.  One that lay idle is looked at before it is lent: a
server that restarted has said goodbye on the socket, so a restart costs the next caller a new
connection and not an error.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from psycopg import pq

from mainspring.errors import StoreUnavailable
from mainspring.store.postgres.connection import Session

LEND_S_MAX: Final = 5.0
"""Longest wait for a session while all are in use."""


class SessionPool:
    """Lends up to `sessions_max` sessions at a time.  Thread safe."""

    def __init__(self, open_session: Callable[[], Session], sessions_max: int) -> None:
        if sessions_max < 1:
            raise ValueError(f"a pool of {sessions_max} sessions lends none")
        self._open = open_session
        self._sessions_max = sessions_max
        self._free = threading.BoundedSemaphore(sessions_max)
        self._lock = threading.Lock()
        self._idle: list[Session] = []
        self._is_closed = False

    @contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend a session for the block; it comes back outside any transaction, or not at all.

        Raises
        ------
        StoreUnavailable
            The server cannot be reached, all sessions stayed in use, or the pool is closed.
        """
        if not self._free.acquire(timeout=LEND_S_MAX):
            raise StoreUnavailable(
                f"all {self._sessions_max} database sessions stayed in use for {LEND_S_MAX} s"
            )
        try:
            session = self._take()
            try:
                yield session
            finally:
                self._give_back(session)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close idle sessions now and lent ones when they come back.  May be repeated."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _take(self) -> Session:
        while True:
            with self._lock:
                if self._is_closed:
                    raise StoreUnavailable("the store is closed")
                session = self._idle.pop() if self._idle else None
            if session is None:
                return self._open()
            if _is_quiet(session):
                return session
            session.close()

    def _give_back(self, session: Session) -> None:
        is_usable = (
            not session.closed and session.pgconn.transaction_status == pq.TransactionStatus.IDLE
        )
        with self._lock:
            if is_usable and not self._is_closed:
                self._idle.append(session)
                return
        session.close()


def _is_quiet(session: Session) -> bool:
    """Whether nothing waits on an idle session's socket: whatever does is a farewell."""
    if session.closed:
        return False
    poll = select.poll()
    poll.register(session.fileno(), select.POLLIN)
    return not poll.poll(0)
