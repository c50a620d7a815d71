"""Runs `COPY ... TO STDOUT (FORMAT binary)` and returns its bytes.

COPY takes no parameters from the wire, so they are written into its text by psycopg's dumpers.
psycopg's own copy object hands rows out one by one, each through its waiting loop, which costs more
than decoding them; here everything that has arrived is taken in one go.

Source: libpq manual, "Retrieving Data for COPY" and "Asynchronous Command Processing".
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from mainspring.store.postgres.connection import Session

READ: Final = 1
WRITE: Final = 2
"""What a generator under `Session.wait` waits for, as in `selectors`."""


def copy_out(session: Session, query: bytes, parameters: Mapping[str, Any]) -> bytes:
    """Execute a COPY and return what it sent, header and trailer included.

    Raises
    ------
    psycopg.Error
        What the server said, or that it said nothing for too long.
    """
    text = psycopg.ClientCursor(session).mogrify(query, parameters)
    answer: bytes = session.wait(_copy(session.pgconn, text.encode()))
    return answer


def _copy(pgconn: pq.abc.PGconn, text: bytes) -> Generator[int, int, bytes]:
    """Send the statement, take the rows, and see the end of it."""
    pgconn.send_query(text)
    while pgconn.flush():
        ready = yield READ | WRITE
        if ready & READ:
            pgconn.consume_input()
    result = yield from _next_result(pgconn)
    if result is None or result.status != pq.ExecStatus.COPY_OUT:
        yield from _read_to_end(pgconn)
        if result is not None and result.error_message:
            raise error_from_result(result)
        raise psycopg.ProgrammingError("the statement is not a COPY to the client")
    parts = []
    while True:
        length, data = pgconn.get_copy_data(1)
        if length > 0:
            parts.append(bytes(data))
        elif length == 0:
            yield from _readable(pgconn)
        else:
            break
    failure = yield from _read_to_end(pgconn)
    if failure is not None:
        raise error_from_result(failure)
    return b"".join(parts)


def _readable(pgconn: pq.abc.PGconn) -> Generator[int, int, None]:
    while not (yield READ):
        pass
    pgconn.consume_input()


def _next_result(pgconn: pq.abc.PGconn) -> Generator[int, int, pq.abc.PGresult | None]:
    while pgconn.is_busy():
        yield from _readable(pgconn)
    return pgconn.get_result()


def _read_to_end(pgconn: pq.abc.PGconn) -> Generator[int, int, pq.abc.PGresult | None]:
    """Leave the session ready for the next statement; returns the first failure, if any."""
    failure = None
    while (result := (yield from _next_result(pgconn))) is not None:
        if failure is None and result.status == pq.ExecStatus.FATAL_ERROR:
            failure = result
    return failure
