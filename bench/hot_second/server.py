"""The throw-away Postgres of a measurement: databases, vacuum, settings, WAL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from mainspring.devpg import DevPostgres

PRINTED_SETTINGS = (
    *("fsync", "full_page_writes", "synchronous_commit", "wal_level", "wal_compression"),
    *("shared_buffers", "max_wal_size", "autovacuum", "jit"),
)
DURABLE_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")


class Server:
    """One DevPostgres and what the benchmark asks of it."""

    def __init__(self, postgres: DevPostgres) -> None:
        self.postgres = postgres
        self._admin = psycopg.connect(postgres.dsn, autocommit=True)

    def close(self) -> None:
        """Give the connection up."""
        self._admin.close()

    def settings(self) -> dict[str, str]:
        """Return the settings that decide about durability and speed.

        Raises
        ------
        RuntimeError
            One that makes an acknowledged commit durable is off.
        """
        with self._admin.cursor() as cursor:
            cursor.execute(
                "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)",
                [list(PRINTED_SETTINGS)],
            )
            settings: dict[str, str] = dict(cursor.fetchall())
        for name in DURABLE_SETTINGS:
            if settings[name] != "on":
                raise RuntimeError(f"{name} is {settings[name]}: a benchmark needs it on")
        return {name: settings[name] for name in PRINTED_SETTINGS if name in settings}

    @contextmanager
    def database(self, name: str, *, template: str = "template1") -> Iterator[str]:
        """Yield the DSN of a new database; it is dropped at the end."""
        self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        try:
            yield self.postgres.dsn_of(name)
        finally:
            self._admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def settle(self, dsn: str) -> None:
        """Vacuum, analyze and checkpoint, so that each measurement begins alike."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    def wal_bytes(self) -> int:
        """Return how much WAL was ever written."""
        row = self._admin.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
        assert row is not None
        return int(row[0])
