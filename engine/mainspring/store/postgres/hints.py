"""Hints of firings that fall due sooner than their leader may know, over LISTEN.

A hint is never more than that: a lost one costs the leader's next range claim, a second.  So there
is no replay and no acknowledgement.  A payload that is none of ours is passed over.

Source: PostgreSQL manual, LISTEN and NOTIFY.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mainspring.clock import monotonic_s
from mainspring.errors import StoreUnavailable
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.failures import translated

LISTEN: Final = b"LISTEN mainspring_due"

SLICE_S: Final = 0.25


class Hint(NamedTuple):
    """A shard has firings due at `due_us`; `firing_id` is 0 where there are several."""

    shard: int
    due_us: int
    firing_id: int


class HintListener:
    """One listening session, opened at the first call and again after a loss.

    One thread listens at a time; `close` may come from another.
    """

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open = open_session
        self._session: Session | None = None
        self._listening = threading.Lock()
        self._is_closed = False

    def hints(self, timeout_s: float) -> Iterator[Hint]:
        """Yield hints as they come, until `timeout_s` has passed.

        Raises
        ------
        StoreUnavailable
            The session was lost or cannot be opened.  Hints may have been lost with it: sweep.
        """
        with self._listening, translated():
            deadline_s = monotonic_s() + timeout_s
            session = self._connected()
            left_s = timeout_s
            while True:
                # In slices, so that `close` need not pull the socket from under a waiting thread.
                for notice in session.notifies(timeout=max(0.0, min(left_s, SLICE_S))):
                    hint = parse_hint(notice.payload)
                    if hint is not None:
                        yield hint
                left_s = deadline_s - monotonic_s()
                if self._is_closed or left_s <= 0:
                    return

    def _connected(self) -> Session:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        session = self._session
        if session is None or session.closed:
            session = self._open()
            session.silence_s_max = math.inf  # silence is what it waits in
            self._session = session
            session.execute(LISTEN)
        return session

    def close(self) -> None:
        """Close the session once no thread waits on it; `hints` ends within a slice."""
        self._is_closed = True
        if self._listening.acquire(timeout=4 * SLICE_S):
            try:
                if self._session is not None:
                    self._session.close()
            finally:
                self._listening.release()


def parse_hint(payload: str) -> Hint | None:
    """Read `shard due_us firing_id`; None for anything else."""
    words = payload.split(" ")
    try:
        shard, due_us, firing_id = (int(word) for word in words)
    except ValueError:
        return None
    return Hint(shard, due_us, firing_id)
