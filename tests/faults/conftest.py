"""What every scenario gets: a stage of its own, and a line in the table at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults import tally
from faults.stage import Stage
from mainspring.devpg import DevPostgres

MARKER = "faults"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the scenarios out unless somebody asks for them, by path or by marker."""
    paths = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    if config.option.markexpr or any(path.is_relative_to(HERE) for path in paths):
        return
    left_out = [item for item in items if item.get_closest_marker(MARKER)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(MARKER)]


@pytest.fixture
def stage(dsn: str, tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage on a database of the server that all tests of this process share."""
    made = Stage(dsn, tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def own_postgres() -> Iterator[DevPostgres]:
    """Yield a server of this scenario's own, as durable as a served one, to be killed."""
    with DevPostgres(settings={"shared_buffers": "128MB"}) as server:
        yield server


@pytest.fixture
def own_stage(own_postgres: DevPostgres, tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage on a server of its own."""
    made = Stage(own_postgres.create_database("faults"), tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def _figures(record_property: Any) -> Iterator[None]:
    """Send what was noted along with the test's report."""
    tally.take()
    yield
    for result in tally.take():
        record_property(tally.PROPERTY, json.dumps(result))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, and keep it, where all results come together."""
    if hasattr(terminalreporter.config, "workerinput"):
        return
    results = [
        json.loads(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == tally.PROPERTY
    ]
    unique = {json.dumps(result, sort_keys=True): result for result in results}
    if not unique:
        return
    terminalreporter.section("fault scenarios")
    for line in tally.table(unique.values()):
        terminalreporter.write_line(line)
    path = tally.write(unique.values())
    if path is not None:
        terminalreporter.write_line(f"appended to {path}")
