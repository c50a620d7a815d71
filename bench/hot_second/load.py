"""Loads a database with the jobs of one round, by mainspring's own registration."""

from __future__ import annotations

import json
from collections.abc import Callable

from bench.hot_second.pairs import Pair
from mainspring.model import NewJob
from mainspring.registration import job_from, job_in
from mainspring.store import migrate
from mainspring.store.postgres import PostgresStore

TASK = "bench.noop"
CHUNK_JOBS = 5_000
PAYLOAD_BYTES = 300


def prepare_schema(dsn: str, shards: int) -> None:
    """Make the schema, the shards and the partitions of a new database."""
    migrate.migrate(dsn)
    store = PostgresStore(dsn, application_name="bench", pool_max=1)
    try:
        store.make_shards(shards)
        store.make_partitions(days_ahead=7)
    finally:
        store.close()


def load_jobs(
    dsn: str, pairs: list[Pair], count: int, now_us: int, told: Callable[[int], None]
) -> None:
    """Register `count` jobs that go through the pairs in turn, each with a payload of its own."""
    templates = [
        job_from(
            job_in(
                {
                    "name": "hot-second",
                    "task": TASK,
                    "schedule": expression,
                    "timezone": zone,
                    "payload": {},
                }
            ),
            now_us,
        )
        for expression, zone in pairs
    ]
    store = PostgresStore(dsn, application_name="bench", pool_max=1)
    try:
        for first in range(0, count, CHUNK_JOBS):
            numbers = range(first, min(first + CHUNK_JOBS, count))
            store.add_jobs([_numbered(templates[n % len(templates)], n) for n in numbers])
            told(numbers.stop)
    finally:
        store.close()


def payload_of(number: int) -> str:
    """Return JSON of exactly PAYLOAD_BYTES characters, another for each number."""
    bare = json.dumps({"number": number, "text": ""}, separators=(",", ":"))
    text = (f"{number:08d} of a hot second; " * 16)[: PAYLOAD_BYTES - len(bare)]
    return json.dumps({"number": number, "text": text}, separators=(",", ":"))


def _numbered(template: NewJob, number: int) -> NewJob:
    old = template.definition
    definition = type(old)(
        **{name: getattr(old, name) for name in old.__struct_fields__}
        | {"name": f"hot-second-{number}", "payload": payload_of(number)}
    )
    return NewJob(
        definition=definition,
        first_us=template.first_us,
        anchor_us=template.anchor_us,
        is_once=template.is_once,
    )
