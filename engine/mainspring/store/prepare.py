"""Makes a database ready for schedulers: schema, shards, and the coming days' partitions."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from mainspring.errors import Conflict
from mainspring.store.migrate import migrate
from mainspring.store.postgres import PostgresStore

DAYS_AHEAD: Final = 7


def prepare_database(dsn: str, *, shards: int) -> list[str]:
    """Migrate, make shards and partitions; returns the names of the migrations applied.

    Safe to call from many processes at once, and to repeat.  A database that has shards keeps
    them, whatever `shards` is.
    """
    applied = migrate(dsn)
    store = PostgresStore(dsn, application_name="mainspring migrate", pool_max=1)
    try:
        if store.count_shards() == 0:
            with suppress(Conflict):  # another process has just made its own number of them
                store.make_shards(shards)
        store.make_partitions(days_ahead=DAYS_AHEAD)
    finally:
        store.close()
    return [f"{migration.version:04d}_{migration.name}" for migration in applied]
