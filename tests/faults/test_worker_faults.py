"""Workers that are killed, frozen, stopped, or asked to end, in the middle of a burst."""

from __future__ import annotations

import pytest

from faults.load import Size
from faults.processes import children_of
from faults.stage import Stage
from processes.cluster.stage import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

FROZEN_S = 15.0
LONG = Size(long=60)
"""Some runs take so long that those begun elsewhere still go on when the worker wakes."""


def test_kill_of_a_worker(stage: Stage) -> None:
    """What it ran goes on elsewhere within ten seconds; nothing else is begun twice."""
    victim, _ = stage.crew()
    stage.begin()
    stage.wait_middle()
    stage.wait_holding(victim)
    with stage.strike("killed", victim.pid):
        stage.kill(victim)

    verdict, _ = stage.finish("kill -9 of a worker", late_s=10, ends_badly=(victim,))

    assert verdict.lost > 0
    assert verdict.takeover_s is not None


def test_freeze_of_a_worker_with_its_heartbeat(stage: Stage) -> None:
    """Declared dead; what it then reports of runs that went on elsewhere is refused.

    When it wakes, some of them are over elsewhere, and the long ones still go on: only their fence
    tells its reports from those that are waited for.
    """
    victim, _ = stage.crew()
    stage.begin(LONG)
    stage.wait_middle()
    stage.wait_holding(victim, 3, hold_s=LONG.long_hold_s)
    with stage.strike("frozen", victim.pid):
        stage.stop_for([victim.pid, *children_of(victim.pid)], FROZEN_S)

    verdict, _ = stage.finish("SIGSTOP of a worker and its heartbeat, 15 s", late_s=FROZEN_S)

    assert verdict.stale_reports > 0
    assert verdict.takeover_s is not None


def test_stop_of_a_worker(stage: Stage) -> None:
    """Its heartbeat goes on, so what it runs stays its own; what it only holds goes elsewhere.

    When it wakes it finds frames that were sent to it, and may start nothing of them.
    """
    victim, _ = stage.crew()
    stage.begin(LONG)
    stage.wait_middle()
    stage.wait_holding(victim)
    with stage.strike("stopped", victim.pid):
        stage.stop_for([victim.pid], FROZEN_S)
    refused = "mainspring_refused_starts_total"
    wait_for("refused starts", lambda: stage.metric(victim.title, refused) > 0)

    verdict, _ = stage.finish("SIGSTOP of a worker, 15 s", late_s=FROZEN_S)

    assert (0, 0) == (verdict.lost, verdict.duplicates)


def test_sigterm_of_a_worker(stage: Stage) -> None:
    """It finishes what runs and gives the rest back; nobody notices."""
    victim, _ = stage.crew()
    stage.begin()
    stage.wait_middle()
    stage.wait_holding(victim)
    with stage.strike():
        assert 0 == victim.stop()

    verdict, _ = stage.finish("SIGTERM of a worker", late_s=2)

    assert (0, 0) == (verdict.lost, verdict.duplicates)
