"""Postgres that is killed, restarted, or away, in the middle of a burst.

No process of ours is touched and none has to be restarted, so there is no duplicate and nothing
is lost.
"""

from __future__ import annotations

import os
import signal
import time

import pytest

from faults.facts import Verdict
from faults.processes import children_of, send
from faults.stage import Stage
from mainspring.devpg import DevPostgres
from processes.cluster.stage import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

OUTAGE_S = 8.0
RESTART_S = 15.0
"""For recovery, on a machine that runs several scenarios at once."""


def begin(stage: Stage) -> None:
    stage.crew()
    stage.begin()
    stage.wait_middle()


def assert_clean(verdict: Verdict) -> None:
    assert (0, 0) == (verdict.lost, verdict.duplicates)
    assert verdict.resumed_s is not None


def answers(stage: Stage) -> bool:
    try:
        return stage.ask("SELECT 1") == [(1,)]
    except Exception:  # noqa: BLE001  any refusal means: not yet
        return False


def test_kill_of_a_backend(own_stage: Stage) -> None:
    """The server resets every session and recovers; acknowledged is durable."""
    begin(own_stage)
    backends = own_stage.ask(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'mainspring worker%%'"
    )
    with own_stage.strike():
        os.kill(backends[0][0], signal.SIGKILL)
        wait_for("the reset", lambda: not answers(own_stage), 10)
        wait_for("recovery", lambda: answers(own_stage), RESTART_S)

    verdict, _ = own_stage.finish("kill -9 of a Postgres backend", late_s=RESTART_S)

    assert_clean(verdict)


def test_kill_of_postgres(own_stage: Stage, own_postgres: DevPostgres) -> None:
    """Postmaster and children at once; started again by the test."""
    begin(own_stage)
    family = [own_postgres.pid, *children_of(own_postgres.pid)]
    assert len(family) > 5
    with own_stage.strike():
        send(family, signal.SIGKILL)
        wait_for("the end of Postgres", lambda: not own_postgres.is_running)
        own_postgres.restart()

    verdict, _ = own_stage.finish("kill -9 of Postgres", late_s=RESTART_S)

    assert_clean(verdict)


def test_restart_of_postgres(own_stage: Stage, own_postgres: DevPostgres) -> None:
    """A fast restart costs the clients a connection."""
    begin(own_stage)
    with own_stage.strike():
        own_postgres.restart()

    verdict, _ = own_stage.finish("restart of Postgres", late_s=RESTART_S)

    assert_clean(verdict)


def test_outage_of_postgres(own_stage: Stage, own_postgres: DevPostgres) -> None:
    """Eight seconds without a server are longer than every trust window, and kill no run."""
    begin(own_stage)
    with own_stage.strike():
        os.kill(own_postgres.pid, signal.SIGINT)
        wait_for("the end of Postgres", lambda: not own_postgres.is_running, 30)
        time.sleep(OUTAGE_S)
        own_postgres.restart()

    verdict, _ = own_stage.finish("outage of Postgres, 8 s", late_s=OUTAGE_S + RESTART_S)

    assert_clean(verdict)
