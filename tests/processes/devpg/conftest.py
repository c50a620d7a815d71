"""Fixtures of the embedded Postgres' tests: a kept folder, and a machine without Postgres."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mainspring.devpg import DevPostgres, binaries
from processes.devpg.stage import (
    FAST,
    execute,
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kept data folder that the tests share, each leaving it whole; `kept` has one row, 42."""
    path = tmp_path_factory.mktemp("made") / "data"
    with DevPostgres(path, settings=FAST) as pg:
        execute(pg.dsn, "CREATE TABLE kept AS SELECT 42 AS n")
    return path


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    """A copy of `folder` for one test that leaves its marks in it."""
    return Path(shutil.copytree(folder, tmp_path / "data"))


@pytest.fixture
def no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nobody installed Postgres."""
    monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", ())
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(binaries.PG_BIN_VARIABLE, raising=False)
