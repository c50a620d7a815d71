"""A second database for tests of several engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainspring.devpg import DevPostgres


@pytest.fixture
def other_dsn(postgres_server: DevPostgres) -> Iterator[str]:
    """Connection string of an empty database, not even migrated."""
    yield postgres_server.create_database("other_engine")
    postgres_server.drop_database("other_engine")
