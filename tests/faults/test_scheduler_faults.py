"""The scheduler that is killed, stopped, or asked to end, in the middle of a burst.

No worker is touched, so there is no duplicate and nothing is lost.
"""

from __future__ import annotations

import pytest

from faults.facts import Verdict
from faults.stage import Stage

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

STOP_S = 10.0
START_S = 10.0
"""For an interpreter to start and import, on a machine that runs several scenarios at once."""


def assert_clean(verdict: Verdict) -> None:
    assert (0, 0) == (verdict.lost, verdict.duplicates)


def test_kill_of_the_scheduler(stage: Stage) -> None:
    """The test starts another; it takes the shards and what was leased to the dead one."""
    stage.crew()
    stage.begin()
    stage.wait_middle()
    victim = stage.child("scheduler")
    with stage.strike():
        stage.kill(victim)
        stage.await_ready(stage.launch("scheduler", "scheduler-2"))

    verdict, _ = stage.finish("kill -9 of the scheduler", late_s=START_S, ends_badly=(victim,))

    assert_clean(verdict)
    assert verdict.resumed_s is not None


def test_stop_of_the_scheduler(stage: Stage) -> None:
    """Out of its trust window it sends nothing; when it is trusted again it goes on."""
    stage.crew()
    stage.begin()
    stage.wait_middle()
    victim = stage.child("scheduler")
    with stage.strike():
        stage.stop_for([victim.pid], STOP_S)

    verdict, _ = stage.finish("SIGSTOP of the scheduler, 10 s", late_s=STOP_S)

    assert_clean(verdict)


def test_sigterm_of_the_scheduler_beside_a_standby(stage: Stage) -> None:
    """It hands back what it had not sent and resigns; the standby goes on."""
    stage.crew()
    stage.await_ready(stage.launch("scheduler", "standby"))
    stage.begin()
    stage.wait_middle()
    with stage.strike():
        stage.child("scheduler").terminate()

    verdict, _ = stage.finish("SIGTERM of the scheduler, a standby", late_s=2)

    assert_clean(verdict)
    assert verdict.resumed_s is not None


def test_sigterm_of_the_only_scheduler(stage: Stage) -> None:
    """It is started again by the test."""
    stage.crew()
    stage.begin()
    stage.wait_middle()
    with stage.strike():
        assert 0 == stage.child("scheduler").stop()
        stage.await_ready(stage.launch("scheduler", "scheduler-2"))

    verdict, _ = stage.finish("SIGTERM of the scheduler, alone", late_s=START_S)

    assert_clean(verdict)
    assert verdict.resumed_s is not None
