"""Translates psycopg's errors into those of `mainspring.errors`.

Source: PostgreSQL manual, Appendix A, "PostgreSQL Error Codes".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from mainspring.errors import (
    MainspringError,
    MigrationRefused,
    PoolerDetected,
    StatementRetry,
    StoreUnavailable,
)

RETRY_STATES: Final = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock not available: rolled back, may be repeated as it is."""

UNAVAILABLE_CLASSES: Final = frozenset({"08", "53", "57"})
"""Connection lost, out of resources, ended by an operator or a time-out."""

UNAVAILABLE_STATES: Final = frozenset({"25006", "25P03", "25P04"})
"""Read only (a standby was asked), idle in a transaction or transaction too long."""

STATEMENT_STATES: Final = frozenset({"57014"})
"""The server is there and ended one statement: its time was over, or somebody cancelled it."""

REFUSAL: Final = re.compile(r" failed: (?:[^:]{1,40}:  |fe_sendauth: )(.+)")
"""What the server said to a connection: its severity, in its own language, and two blanks."""

REFUSAL_HINTS: Final = (
    ("database .* does not exist", "Create it, as with `createdb`, or name another one."),
    ("role .* does not exist", "Create the role, as with `createuser`, or name another user."),
    ("authentication failed|no password", "Correct user and password in the connection string."),
    ("pg_hba", "Let this user in from here, in the server's pg_hba.conf."),
    ("starting up|shutting down|recovery|not yet accepting", "Try again in a moment."),
    ("too many|slots are reserved", "Raise max_connections of the server, or end other sessions."),
)
REFUSAL_HINT: Final = "The server was reached: look at user, password and database."

SCHEMA_STATES: Final = frozenset({"3F000", "42P01", "42703", "42704", "42883"})
"""Something of the schema is not there."""


def translate(error: psycopg.Error) -> MainspringError | None:
    """Return our error for one of psycopg's; None where only a bug of ours explains it."""
    state = error.sqlstate
    said = str(error).strip().split("\n", maxsplit=1)[0]
    if state is None:
        if "unsupported startup parameter" in said:
            return PoolerDetected(
                "a pooler refuses our session settings",
                detail=said,
                hint="Point the DSN at the server itself.",
            )
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return _unreachable(said)
        return None
    if state in RETRY_STATES:
        return StatementRetry(f"statement rolled back with {state}", detail=said)
    if state in UNAVAILABLE_STATES or state[:2] in UNAVAILABLE_CLASSES:
        return StoreUnavailable(
            f"the database ended the statement with {state}",
            detail=said,
            is_lost=state not in STATEMENT_STATES,
        )
    if state in SCHEMA_STATES:
        return MigrationRefused(
            f"the schema in the database does not fit: {state}",
            detail=said,
            hint="Run `mainspring migrate` with this release.",
        )
    return None


def _unreachable(said: str) -> StoreUnavailable:
    """Tell a server that does not answer from one that does and does not let us in."""
    refusal = REFUSAL.search(said)
    if refusal is None:
        return StoreUnavailable(
            "the database cannot be reached",
            detail=said,
            hint="Does the server run, and are host and port of the connection string right?",
            is_lost=True,
        )
    why = refusal[1]
    hint = next((hint for words, hint in REFUSAL_HINTS if re.search(words, why)), REFUSAL_HINT)
    return StoreUnavailable(
        f"the database server refuses the connection: {why}", detail=said, hint=hint, is_lost=True
    )


@contextmanager
def translated() -> Iterator[None]:
    """Raise our errors instead of psycopg's; what is not translated passes through."""
    try:
        yield
    except psycopg.Error as error:
        ours = translate(error)
        if ours is None:
            raise
        raise ours from error
