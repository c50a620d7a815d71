"""The judge of the simulator reports what is planted, one defect at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pytest

from mainspring.model import FiringId, Run, RunStatus
from simulation.checker import check
from simulation.faults import Rates
from simulation.recording import Claimed
from simulation.world import World

SEED = 4  # has recurring jobs, one-offs, failures and a dead letter


@pytest.fixture(scope="module")
def finished() -> World:
    world = World(SEED, Rates())
    world.run_faults()
    world.run_until(36)
    check(world)
    return world


@pytest.fixture
def world(finished: World) -> Iterator[World]:
    """The finished world, put back after the test as it was before it."""
    state, store, history = finished.store._state, finished.store, finished.history
    tables: list[tuple[object, str]] = [(state, "firings"), (state, "letters")]
    tables += [(state, "runs_by_job"), (history, "begun")]
    tables += [(store, name) for name in ("claimed", "started", "ended", "deleted")]
    before = [(owner, name, copy.deepcopy(getattr(owner, name))) for owner, name in tables]
    yield finished
    for owner, name, table in before:
        setattr(owner, name, table)


def find_run(world: World, status: RunStatus, *, is_recurring: bool | None = None) -> Run:
    for job in world.history.jobs.values():
        if is_recurring is None or is_recurring == bool(job.period_us):
            for run in world.store._state.runs_by_job[job.job_id]:
                if run.status is status:
                    return run
    raise AssertionError(f"the seed has no {status} run")


def drop_success(world: World) -> None:
    run = find_run(world, RunStatus.SUCCESS)
    world.store._state.runs_by_job[run.job_id].remove(run)


def lose_occurrence(world: World) -> None:
    """As if a cursor had moved over an occurrence."""
    run = find_run(world, RunStatus.SUCCESS, is_recurring=True)
    world.store._state.runs_by_job[run.job_id].remove(run)
    world.history.begun[:] = [
        one
        for one in world.history.begun
        if (one.job_id, one.scheduled_us) != (run.job_id, run.scheduled_us)
    ]


def double_success(world: World) -> None:
    run = find_run(world, RunStatus.SUCCESS)
    again = msgspec.structs.replace(run, fence=run.fence + 1, attempt=run.attempt + 1)
    world.store._state.runs_by_job[run.job_id].append(again)


def end_twice(world: World) -> None:
    run = find_run(world, RunStatus.SUCCESS)
    again = msgspec.structs.replace(run, status=RunStatus.LOST)
    world.store._state.runs_by_job[run.job_id].append(again)


def invent_occurrence(world: World) -> None:
    run = find_run(world, RunStatus.SUCCESS, is_recurring=True)
    phantom = msgspec.structs.replace(
        run, scheduled_us=run.scheduled_us + 1, fence=run.fence + 10**6, status=RunStatus.LOST
    )
    world.store._state.runs_by_job[run.job_id].append(phantom)


def end_without_begin(world: World) -> None:
    world.history.begun.pop(0)


def begin_twice(world: World) -> None:
    world.history.begun.append(world.history.begun[0])


def begin_unstarted(world: World) -> None:
    world.store.started.pop(0)


def start_early(world: World) -> None:
    first = world.store.started[0]
    world.store.started[0] = replace(first, database_us=first.due_us - 1)


def start_by_a_dead_worker(world: World) -> None:
    world.store.started[0] = replace(world.store.started[0], is_holder_alive=False)


def end_without_raising_the_fence(world: World) -> None:
    first = world.store.ended[0]
    world.store.ended[0] = replace(first, fence_after=first.fence)


def start_lease_twice(world: World) -> None:
    world.store.started.insert(1, world.store.started[0])


def start_with_old_fence(world: World) -> None:
    first = world.store.started[0]
    world.store.started[0] = replace(first, fence=first.fence - 1)


def start_after_deletion(world: World) -> None:
    world.store.deleted[world.store.started[0].job_id] = 0


def lower_fence(world: World) -> None:
    last = world.store.claimed[-1]
    world.store.claimed.append(Claimed(10**9, last.firing_id, last.fence, is_led=True))


def claim_another_lease(world: World) -> None:
    first = world.store.claimed[0]
    world.store.claimed[0] = replace(first, named_fence=first.fence)


def claim_without_a_term(world: World) -> None:
    world.store.claimed[0] = replace(world.store.claimed[0], is_led=False)


def drop_letter(world: World) -> None:
    run = find_run(world, RunStatus.DEAD)
    del world.store._state.letters[run.firing_id, run.fence]


def invent_letter(world: World) -> None:
    run = find_run(world, RunStatus.DEAD)
    letters = world.store._state.letters
    letter = letters[run.firing_id, run.fence]
    shown = msgspec.structs.replace(letter.shown, fence=run.fence + 50)
    letters[run.firing_id, run.fence + 50] = replace(letter, shown=shown)


def stand_behind(world: World) -> None:
    job = next(job for job in world.history.jobs.values() if job.period_us)
    world.store._state.firings[FiringId(job.job_id)].scheduled_us -= 30 * job.period_us


def park(world: World) -> None:
    job = next(job for job in world.history.jobs.values() if job.period_us)
    world.store._state.firings[FiringId(job.job_id)].scheduled_us = 2**63 - 1


DEFECTS: list[tuple[Callable[[World], None], str]] = [
    (drop_success, "no row of it"),
    (lose_occurrence, "expected"),
    (double_success, "succeeded twice"),
    (end_twice, "two ends of one lease"),
    (invent_occurrence, "phantoms"),
    (end_without_begin, "ended and never begun"),
    (begin_twice, "begun twice"),
    (begin_unstarted, "begun and never started"),
    (start_early, "early"),
    (start_by_a_dead_worker, "started by a dead worker"),
    (end_without_raising_the_fence, "did not raise its fence"),
    (start_lease_twice, "one lease started twice"),
    (start_with_old_fence, "started with fence"),
    (start_after_deletion, "started after deletion"),
    (lower_fence, "claimed with fence"),
    (claim_another_lease, "not the lease named"),
    (claim_without_a_term, "claimed without a term"),
    (drop_letter, "dead without a letter"),
    (invent_letter, "letters without a run"),
    (stand_behind, "behind"),
    (park, "parked"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "said"), DEFECTS, ids=[plant.__name__ for plant, _ in DEFECTS])
def test_a_planted_defect_is_reported(
    world: World, plant: Callable[[World], None], said: str
) -> None:
    check(world)
    plant(world)

    with pytest.raises(AssertionError, match=said):
        check(world)
