"""The whole cluster in virtual time, with faults at every step, by seed."""

from __future__ import annotations

import contextlib
import os

import pytest

from simulation.checker import Verdict, check
from simulation.faults import Rates
from simulation.world import World

SEEDS = int(os.environ.get("MAINSPRING_SIMULATION_SEEDS", "60"))
FIRST = int(os.environ.get("MAINSPRING_SIMULATION_FIRST", "0"))
CALM = Rates()
ENDS_S = (36, 45, 60)
"""When to look whether all has come to its end; at the last it must have, half a minute after the
faults: dead workers are noticed, leases run out, and what was late is caught up."""


def simulate(seed: int, rates: Rates | None = None) -> tuple[World, Verdict]:
    world = World(seed, rates)
    world.run_faults()
    for end_s in ENDS_S[:-1]:
        world.run_until(end_s)
        with contextlib.suppress(AssertionError):
            return world, check(world)
    world.run_until(ENDS_S[-1])
    return world, check(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_without_faults_nothing_is_lost_doubled_or_missed(seed: int) -> None:
    """A calm cluster begins every attempt once; only jobs that kill their worker lose runs."""
    world, verdict = simulate(seed, CALM)
    planned = {step for job in world.history.jobs.values() for step in job.plan}

    assert planned & {"kill", "hang"} or (verdict.lost, verdict.duplicates) == (0, 0)
    assert verdict.begun > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_no_promise_breaks_under_faults(seed: int) -> None:
    """Whatever fails, nothing is lost, early or counted twice, and all comes to its end."""
    simulate(seed)


@pytest.mark.slow
def test_a_seed_repeats_exactly() -> None:
    """Two runs of one seed do the same things at the same instants."""
    hashes = {simulate(7)[0].work.trace_hash for _ in range(2)}

    assert len(hashes) == 1
