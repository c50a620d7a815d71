"""Sizes of the micro benchmarks, small in the tests and large when measured; and a Postgres."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from bench.rows import Field
from mainspring.devpg import DevPostgres
from mainspring.store.migrate import migrate

IS_SMOKE = os.environ.get("MAINSPRING_BENCH_SMOKE") == "1"
ROWS_VARIABLE = "MAINSPRING_BENCH_ROWS"


@pytest.fixture(scope="session")
def size() -> int:
    """Return how many timers a benchmark handles."""
    return 2_000 if IS_SMOKE else 500_000


@pytest.fixture(scope="session")
def page_rows() -> int:
    """Return the rows of one claim: the page that a scheduler claims at a time."""
    return 200 if IS_SMOKE else 5_000


@pytest.fixture(scope="session")
def store_rows() -> int:
    """Return how many firings go through the statements of the store."""
    return int(os.environ.get(ROWS_VARIABLE) or (600 if IS_SMOKE else 50_000))


@pytest.fixture(scope="session")
def field(store_rows: int) -> Iterator[Field]:
    """Firings that are due on a throw-away server which is as durable as a served one."""
    with DevPostgres() as server:
        dsn = server.create_database("bench")
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as session:
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                assert session.execute(f"SHOW {setting}").fetchone() == ("on",), setting
            field = Field(dsn, session, store_rows)
            try:
                yield field
            finally:
                field.close()
