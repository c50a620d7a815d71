"""Shared fixtures: one Postgres for the session, one fresh database for each test that asks."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections.abc import Iterator

import pytest
import structlog

from mainspring.devpg import DevPostgres, find_binaries
from mainspring.errors import DevPostgresError
from mainspring.logs import Log
from mainspring.store.migrate import migrate

# A crash of the machine loses this server's data, and nobody minds.  Everything else is as in a
# served one, so that plans and locks are those of production.
FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "128MB"}

SEED = int(os.environ.get("MAINSPRING_SEED") or random.SystemRandom().getrandbits(32))

_database_numbers = itertools.count(1)


def pytest_configure() -> None:
    """Undo what a shell did that put us into the background: our children are to hear Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


LONG_FILES = ("test_packaging.py", "test_hot_second.py", "test_machine.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker is left with one at the end."""
    items.sort(key=lambda item: item.path.name not in LONG_FILES)


@pytest.fixture(autouse=True)
def _logging_is_the_hosts() -> Iterator[None]:
    """Take back what a test configured as a process of ours does, for whatever runs after it."""
    yield
    if Log.is_process_ours:
        Log.is_process_ours = False
        structlog.reset_defaults()


def pytest_report_header() -> list[str]:
    try:
        from mainspring.wheel import IMPLEMENTATION  # noqa: PLC0415  may not be built yet
    except ImportError as problem:
        kind = str(problem)
    else:
        kind = IMPLEMENTATION
    try:
        binaries = find_binaries()
        postgres = "{}.{}".format(*binaries.version) + f" in {binaries.bin_dir}"
    except DevPostgresError as problem:
        postgres = problem.message
    return [
        f"mainspring extensions: {kind}",
        f"mainspring postgres: {postgres}",
        f"mainspring seed: {SEED} (repeat with MAINSPRING_SEED={SEED})",
    ]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Randomness of one test: its own stream of the session's seed, whatever ran before it."""
    return random.Random(f"{SEED} {request.node.nodeid}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[DevPostgres]:
    """A throw-away server for the whole session."""
    with DevPostgres(settings=FAST_SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgres_server: DevPostgres) -> str:
    """Name of the database that every test's database is a copy of."""
    name = "template_mainspring"
    migrate(postgres_server.create_database(name))
    return name


@pytest.fixture
def dsn(postgres_server: DevPostgres, migrated_template: str) -> Iterator[str]:
    """Connection string of a database of this test's own, dropped afterwards."""
    name = f"test_{next(_database_numbers)}"
    yield postgres_server.create_database(name, migrated_template)
    postgres_server.drop_database(name)
