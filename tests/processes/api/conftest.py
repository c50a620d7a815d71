"""One API process and its database for each test module that asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from mainspring.devpg import DevPostgres
from processes.api.stage import ApiProcess, prepare

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def api_dsn(postgres_server: DevPostgres, migrated_template: str) -> Iterator[str]:
    """Database with shards, shared by the tests of a module."""
    name = f"test_api_{next(_numbers)}"
    yield prepare(postgres_server.create_database(name, migrated_template))
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def api(api_dsn: str) -> Iterator[ApiProcess]:
    """The API on that database."""
    with ApiProcess(api_dsn) as process:
        yield process
