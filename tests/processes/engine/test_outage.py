"""What a host sees of a database that is away for a while."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Context, SyncEngine
from mainspring.devpg import DevPostgres
from processes.cluster.stage import wait_for
from processes.engine.stage import FINAL, PAST


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[DevPostgres]:
    with DevPostgres(tmp_path / "pg", settings={"fsync": "off"}) as server:
        yield server


@pytest.mark.slow
def test_an_outage_is_said_once_and_shown_in_health(
    own_server: DevPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning when the database goes, one line when it is back, with how long; no failure."""
    caplog.set_level(logging.INFO, logger="mainspring")
    engine = SyncEngine(own_server.dsn, shards=8, name="host")
    begun, go_on = threading.Event(), threading.Event()

    @engine.task()
    def holds(ctx: Context, payload: Any) -> str:
        begun.set()
        go_on.wait(30)
        return "went on"

    @engine.task()
    def ticks(ctx: Context, payload: Any) -> None: ...

    def said() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.name.startswith("mainspring")]

    assert engine.health.database == "unknown"
    with engine:
        assert engine.health.database == "reached"
        engine.jobs.add(name="ticks", schedule="@every 1s")
        job = engine.jobs.add(name="holds", schedule=PAST)
        assert begun.wait(20)
        wait_for("all shards", lambda: engine.health.shards_led == 8)
        before = len(said())
        os.kill(own_server.pid, signal.SIGQUIT)
        wait_for("the loss", lambda: engine.health.database == "lost")
        assert (engine.health.state, engine.health.is_well) == ("running", False)
        go_on.set()  # so that a completion is tried meanwhile
        threading.Event().wait(4)  # longer than a term lasts
        assert engine.health.database == "lost"
        own_server.restart()
        wait_for("the return", lambda: engine.health.is_well)
        wait_for("all shards", lambda: engine.health.shards_led == 8)
        wait_for("the end", lambda: engine.jobs.runs(job.job_id)[0].status in FINAL)
        assert engine.jobs.runs(job.job_id)[0].output == '"went on"'
        told = said()[before:]

    lines = [each.getMessage() for each in told if each.levelno >= logging.WARNING]
    assert len(lines) == 1, lines
    assert lines[0].startswith("database lost error=")
    assert "engine=host" in lines[0]
    (back,) = [each.getMessage() for each in told if "database is back" in each.getMessage()]
    assert 4 <= float(back.partition("lost_s=")[2].split()[0]) < 30
