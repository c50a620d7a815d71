"""Fixtures: a field of this test's own, and a database without a schema."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from mainspring.claim import ClaimBatch
from mainspring.devpg import DevPostgres
from postgres.field import Field, new_job
from postgres.proxy import Proxy

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


@pytest.fixture
def claimed(field: Field) -> ClaimBatch:
    """Five claimed firings."""
    field.store.add_jobs([new_job(field.now_us, is_once=place == 4) for place in range(5)])
    return field.store.claim_page(
        0, field.terms[0], field.leader, after=(0, 0), until_us=field.now_us, limit=10
    )


@pytest.fixture
def proxy(postgres_server: DevPostgres) -> Iterator[Proxy]:
    proxy = Proxy("127.0.0.1", postgres_server.port)
    yield proxy
    proxy.close()
