"""Brings the schema forward: applies `migrations/NNNN_{pre|post}_verb_object.sql`, each once.

Files are numbered without gaps and never changed or taken back.  *pre* files run before the new
release is deployed and *post* files after it, so that two releases can work side by side.  What
was applied stands in `schema_migrations` with the checksum of its text.  One session at a time
migrates, under an advisory lock; twenty processes that start together wait for the first and then
find nothing to do.

A file is one transaction, unless its first line is `-- no-transaction`: then it holds one statement
and must be safe to repeat, as in CREATE INDEX CONCURRENTLY IF NOT EXISTS.  DDL waits for its
locks only briefly and then tries again, since whoever comes after a waiting ALTER TABLE
waits too, even readers.

There is no way back: a release that finds migrations it does not know refuses to work.

Source: PostgreSQL manual, "Explicit Locking"; the pre/post scheme after procrastinate.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import psycopg
from psycopg import errors as pg_errors

from mainspring.clock import sleep_s
from mainspring.errors import MigrationRefused, StatementRetry
from mainspring.store.postgres.connection import connect
from mainspring.store.postgres.failures import translated
from mainspring.store.statements import statement

LOCK_KEY: Final = 0x6D73_7000_0000_0001
"""Of the advisory lock that one migrating session holds; `msp` and a number."""

LOCK_WAIT: Final = "120s"
"""Longest wait for another process that migrates."""

DDL_LOCK_TIMEOUT: Final = "200ms"
"""How long DDL may queue for a table, and all claims behind it (measured: 0.09 s of delay)."""

DDL_TRIES_MAX: Final = 50
DDL_PAUSE_S_MAX: Final = 0.5

_FILE_NAME: Final = re.compile(r"(\d{4})_((?:pre|post)_[a-z0-9_]+)\.sql")
_NO_TRANSACTION: Final = "-- no-transaction"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number, the rest of its name, and its text."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_pre(self) -> bool:
        """Whether it must be applied before this release runs."""
        return self.name.startswith("pre_")

    @property
    def is_transaction(self) -> bool:
        """Whether it runs within a transaction."""
        return self.text.partition("\n")[0].strip() != _NO_TRANSACTION


def read_migrations(texts: dict[str, str]) -> tuple[Migration, ...]:
    """Order migrations given as {file name: text}.

    Raises
    ------
    ValueError
        A name is not of the form above, or the numbers are not 1, 2, 3 and so on.
    """
    migrations = []
    for file_name in sorted(texts):
        found = _FILE_NAME.fullmatch(file_name)
        if found is None:
            raise ValueError(f"migration {file_name!r} is not named NNNN_pre_verb_object.sql")
        migrations.append(Migration(int(found[1]), found[2], texts[file_name]))
    for expected, migration in enumerate(migrations, start=1):
        if migration.version != expected:
            raise ValueError(f"migration {migration.version} follows {expected - 1}")
    return tuple(migrations)


@cache
def own_migrations() -> tuple[Migration, ...]:
    """Return the migrations of this release."""
    folder = files("mainspring.store").joinpath("migrations")
    return read_migrations(
        {file.name: file.read_text("utf-8") for file in folder.iterdir() if ".sql" in file.name}
    )


def plan(dsn: str, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Return what `migrate` would apply, without changing anything.

    Raises
    ------
    MigrationRefused
        The database is not one this release can bring forward.
    StoreUnavailable
        The database cannot be reached.
    """
    with _session(dsn) as connection:
        return _pending(connection, migrations)


def require_current(dsn: str, migrations: Sequence[Migration] | None = None) -> None:
    """Return if this release can work on the database: no *pre* migration is missing.

    Raises
    ------
    MigrationRefused
        One is missing, or the database is not one this release knows.
    StoreUnavailable
        The database cannot be reached.
    """
    missing = [migration for migration in plan(dsn, migrations) if migration.is_pre]
    if missing:
        raise MigrationRefused(
            f"the database lacks migration {missing[0].version:04d}_{missing[0].name}",
            hint="Run `mainspring migrate` first.",
        )


def migrate(dsn: str, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Apply what is missing, in order, and return it.  Safe to call from many processes at once.

    Raises
    ------
    MigrationRefused
        The database is not one this release can bring forward; nothing was changed.
    StatementRetry
        Another process migrates for too long, or a table stayed locked.  Files that were applied
        before stay applied; call again.
    StoreUnavailable
        The database cannot be reached.
    """
    with _session(dsn) as connection:
        _lock(connection)
        _create_table(connection)
        pending = _pending(connection, migrations)
        for migration in pending:
            _apply(connection, migration)
        return pending


@contextmanager
def _session(dsn: str) -> Iterator[psycopg.Connection]:
    """Open a session that may take its time but does not hang; its end frees the lock."""
    session = connect(dsn, "mainspring migrate", statement_timeout="0", enable_seqscan="on")
    session.silence_s_max = float("inf")
    try:
        with translated():
            yield session
    finally:
        session.close()


def _lock(connection: psycopg.Connection) -> None:
    """Wait for whoever migrates."""
    connection.execute(statement("limit_lock_waits"), {"limit": LOCK_WAIT})
    connection.execute(statement("lock_migrations"), {"key": LOCK_KEY})
    connection.execute(statement("limit_lock_waits"), {"limit": DDL_LOCK_TIMEOUT})


def _create_table(connection: psycopg.Connection) -> None:
    if not _has_table(connection):
        connection.execute(statement("create_migrations"))


def _has_table(connection: psycopg.Connection) -> bool:
    row = connection.execute(statement("has_migrations")).fetchone()
    return bool(row and row[0])


def _pending(
    connection: psycopg.Connection, migrations: Sequence[Migration] | None
) -> list[Migration]:
    """Compare the files with what was applied; what was applied must be their beginning."""
    known = own_migrations() if migrations is None else migrations
    applied = []
    if _has_table(connection):
        applied = connection.execute(statement("read_migrations")).fetchall()
    for expected, (version, name, checksum) in enumerate(applied, start=1):
        if version != expected:
            raise MigrationRefused(
                f"migration {expected} was never applied but {version} was",
                hint="Restore the database from a backup; its schema is not one we made.",
            )
        if version > len(known):
            raise MigrationRefused(
                f"the database is newer than this release: it has migration {version:04d}_{name}",
                detail=f"This release knows {len(known)}.",
                hint="Use the release that migrated the database, or a newer one.",
            )
        if checksum != known[version - 1].checksum:
            raise MigrationRefused(
                f"migration {version:04d}_{name} was changed after it was applied",
                detail=f"Applied {checksum}, this release has {known[version - 1].checksum}.",
                hint="Use an unchanged release; a change of the schema is a new migration.",
            )
    return list(known[len(applied) :])


def _apply(connection: psycopg.Connection, migration: Migration) -> None:
    """Run one file and write it down, again and again while tables stay locked."""
    for number in range(1, DDL_TRIES_MAX + 1):
        try:
            if migration.is_transaction:
                with connection.transaction():
                    connection.execute(migration.text.encode())
                    _write_down(connection, migration)
            else:
                connection.execute(migration.text.encode())
                _write_down(connection, migration)
        except (pg_errors.LockNotAvailable, pg_errors.DeadlockDetected) as error:
            if number == DDL_TRIES_MAX:
                raise StatementRetry(
                    f"migration {migration.version:04d}_{migration.name} found its tables locked",
                    detail=str(error).split("\n", maxsplit=1)[0],
                    hint="Look for long transactions in pg_stat_activity, then migrate again.",
                ) from error
        else:
            return
        sleep_s(DDL_PAUSE_S_MAX * random.random())  # noqa: S311  jitter is no secret


def _write_down(connection: psycopg.Connection, migration: Migration) -> None:
    connection.execute(
        statement("write_migration"),
        {
            "version": migration.version,
            "name": migration.name,
            "checksum": migration.checksum,
        },
    )
