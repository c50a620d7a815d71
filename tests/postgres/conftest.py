"""Fixtures: a field of this test's own, and a database without a schema."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from mainspring.devpg import DevPostgres
from postgres.field import Field

_empty_numbers = itertools.count(1)


@pytest.fixture
def make_field(dsn: str) -> Iterator[Callable[[int], Field]]:
    """Make the field with a number of shards."""
    fields: list[Field] = []

    def make(shard_count: int) -> Field:
        fields.append(Field(dsn, shard_count))
        return fields[-1]

    yield make
    for field in fields:
        field.close()


@pytest.fixture
def field(make_field: Callable[[int], Field]) -> Field:
    """The field with one shard."""
    return make_field(1)


@pytest.fixture
def empty_dsn(postgres_server: DevPostgres) -> Iterator[str]:
    """Connection string of a database without a schema."""
    name = f"empty_{next(_empty_numbers)}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)
