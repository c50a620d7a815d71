"""Workers that are there and silent, that are not there at all, or that their job kills."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.load import one_off, spread
from faults.silent_peer import SilentPeer
from faults.stage import Stage
from mainspring.cli.children import Child
from mainspring.instants import US_PER_S
from processes.cluster.stage import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

UNANSWERED_S = 5.0
POISON_ATTEMPTS = 3
GOOD = 500
DEAD_AFTER_S = 5.0


@pytest.fixture(params=[False, True], ids=["takes", "holds"])
def peer(request: pytest.FixtureRequest, stage: Stage) -> Iterator[SilentPeer]:
    made = SilentPeer(stage.store, ("work", "work-thread", "flaky"), says_held=request.param)
    yield made
    made.stop()


def test_a_peer_that_takes_frames_and_falls_silent(
    request: pytest.FixtureRequest, stage: Stage, peer: SilentPeer
) -> None:
    """Its frames are claimed anew after five seconds and go to workers that answer."""
    stage.crew()
    assert peer.is_offering.wait(10)
    stage.begin()
    wait_for("frames in its hands", lambda: peer.frames_taken, 30)
    stage.wait_middle(0.05)
    with stage.strike():
        pass

    way = request.node.callspec.id
    verdict, _ = stage.finish(f"a peer that {way} and never answers", late_s=UNANSWERED_S + 2)

    assert (0, 0) == (verdict.lost, verdict.duplicates)
    assert verdict.late_s > UNANSWERED_S - 1


def test_no_worker_and_then_many(stage: Stage) -> None:
    """Firings wait without burning an attempt, and all go once there is somebody to take them."""
    stage.crew(workers=0)
    stage.begin()
    last_us = max(job.planned.first_us for job in stage.jobs)
    wait_for("everything to be due", lambda: stage.store.database_us() > last_us, 30)
    wait_for("a queue", lambda: stage.metric("scheduler", "mainspring_waiting") > GOOD)
    assert stage.begun() == []
    with stage.strike(is_midway=False):
        many = [stage.launch("worker", f"worker-{number}") for number in range(5)]
        stage.await_ready(*many)

    verdict, _ = stage.finish("no worker, then five at once", late_s=20)

    assert (0, 0) == (verdict.lost, verdict.duplicates)


def test_poison_among_good_ones(stage: Stage) -> None:
    """The job that kills its process ends as a dead letter; the others all succeed.

    Workers are restarted as a supervisor would.  A good run may go along with the poison each time,
    so it has more attempts than the poison has.
    """
    living = stage.crew()
    dead: list[Child] = []
    first_us = stage.store.database_us() + US_PER_S
    plan = [
        one_off(at_us, "work", 0.05, max_retries=POISON_ATTEMPTS + 2)
        for at_us in spread(GOOD, first_us, 3 * US_PER_S)
    ]
    plan.append(one_off(first_us + US_PER_S, "poison", None, "dead", max_retries=POISON_ATTEMPTS))
    stage.begin(plan=plan)

    def supervise() -> None:
        for place, child in enumerate(living):
            if child.has_ended:
                with stage.strike("killed", child.pid):
                    pass
                dead.append(child)
                title = f"worker-{len(stage.children)}"
                living[place] = stage.launch("worker", title)
                stage.await_ready(living[place])

    verdict, tables = stage.finish(
        "a poison job among 500 good ones",
        late_s=POISON_ATTEMPTS * (DEAD_AFTER_S + 5),
        tend=supervise,
        ends_badly=dead,
    )

    assert POISON_ATTEMPTS == len(dead)
    assert 1 == len(tables.letters)
    assert verdict.takeover_s is not None
