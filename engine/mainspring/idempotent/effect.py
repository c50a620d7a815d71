"""Ties an effect in Postgres to its key: both in the caller's own transaction, on its connection.

Imported only by handlers that use it, so that psycopg costs nobody else's child process its time.

The statement stands beside this file and not in `store/sql/`: it runs on connections that are not
the store's, in databases that need hold nothing else of ours, and this module lies below the store.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from functools import cache
from importlib.resources import files
from typing import Any, Final, NoReturn

import psycopg
from psycopg import errors as pg_errors
from psycopg.pq import PipelineStatus

from mainspring.errors import EffectRefused, InvalidInput

_OTHER_TABLE: Final = (
    pg_errors.UndefinedColumn,
    pg_errors.InvalidColumnReference,
    pg_errors.DatatypeMismatch,
)
"""Another table of that name, or one without its unique index."""


def tie(
    connection: object, job_id: int, key: str, effect: str
) -> AbstractContextManager[bool] | AbstractAsyncContextManager[bool]:
    """Return `once` or `once_async`, by the kind of connection.

    Raises
    ------
    InvalidInput
        It is of a kind that cannot be helped.
    """
    if isinstance(connection, psycopg.AsyncConnection):
        return once_async(connection, job_id, key, effect)
    if isinstance(connection, psycopg.Connection):
        return once(connection, job_id, key, effect)
    kind = type(connection)
    raise InvalidInput(
        f"an effect cannot be tied to a {kind.__module__}.{kind.__qualname__}",
        detail="It takes a connection of psycopg 3, plain or async.",
        hint="Take one out of its pool or await it first; with another driver run the INSERT of"
        " docs/effects.md in your transaction.",
    )


@contextmanager
def once(
    connection: psycopg.Connection[Any], job_id: int, key: str, effect: str
) -> Generator[bool]:
    """Yield whether the effect is still to be made; commit it together with its key.

    Parameters
    ----------
    connection
        The caller's.  With a transaction open, this is a savepoint in it and stands when
        the caller commits; without, also in autocommit mode, it is a transaction of its own.
    job_id, key
        The internal number of the job, and the idempotency key of the firing.
    effect
        Name of this effect within the run; empty for the only one.

    Yields
    ------
    bool
        True: make the effect, on this connection.  False: it stands already.  An exception takes
        key and effect back.

    Raises
    ------
    EffectRefused
        The table of keys is not there, or may not be written.
    InvalidInput
        The connection is in pipeline mode.
    psycopg.Error
        What else the database says; `SerializationFailure` and `DeadlockDetected` mean that
        the transaction may be repeated.
    """
    _check_connection(connection)
    with connection.transaction():
        # Not connection.cursor(): its factory may be one that reads other parameters than ours.
        with psycopg.Cursor(connection) as cursor:
            try:
                cursor.execute(_insert_key(), _parameters(job_id, key, effect))
            except psycopg.Error as error:
                _refuse(error)
            is_first = cursor.rowcount == 1
        yield is_first


@asynccontextmanager
async def once_async(
    connection: psycopg.AsyncConnection[Any], job_id: int, key: str, effect: str
) -> AsyncGenerator[bool]:
    """Do as `once`, on an async connection."""
    _check_connection(connection)
    async with connection.transaction():
        async with psycopg.AsyncCursor(connection) as cursor:
            try:
                await cursor.execute(_insert_key(), _parameters(job_id, key, effect))
            except psycopg.Error as error:
                _refuse(error)
            is_first = cursor.rowcount == 1
        yield is_first


@cache
def _insert_key() -> bytes:
    """Read the statement, once in the life of a process."""
    return files("mainspring.idempotent").joinpath("insert_key.sql").read_bytes()


def _parameters(job_id: int, key: str, effect: str) -> dict[str, Any]:
    return {"job_id": job_id, "key": key, "effect": effect}


def _check_connection(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Refuse what would answer only after the block."""
    if connection.pgconn.pipeline_status != PipelineStatus.OFF:
        raise InvalidInput(
            "the connection is in pipeline mode, which keeps the answer back",
            hint="Open the pipeline inside the block.",
        )


def _refuse(error: psycopg.Error) -> NoReturn:
    """Raise what the caller can mend as ours, and everything else as it is."""
    said = str(error).strip().split("\n", maxsplit=1)[0]
    if isinstance(error, pg_errors.UndefinedTable):
        raise EffectRefused(
            "this connection finds no table idempotency_keys",
            detail=said,
            hint="Put the schema that has it into the search_path; in a database that is not"
            " mainspring's make it with the CREATE TABLE of docs/effects.md.",
        ) from error
    if isinstance(error, _OTHER_TABLE):
        raise EffectRefused(
            "the table idempotency_keys that this connection finds is not as it should be",
            detail=said,
            hint="Run `mainspring migrate`; if it is another table of that name, put the schema"
            " of ours before it in the search_path.",
        ) from error
    if isinstance(error, pg_errors.InsufficientPrivilege):
        raise EffectRefused(
            "the role of this connection may not write to idempotency_keys",
            detail=said,
            hint="GRANT SELECT, INSERT ON idempotency_keys to it.",
        ) from error
    raise error
