"""Judges one world's history: safety, conservation and convergence.

The expected occurrences come from counting periods, not from the code under test.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mainspring.instants import INFINITY_US
from mainspring.model import Run, RunStatus
from simulation.world import S, World

SETTLE_US = 15 * S
TERMINAL = {RunStatus.SUCCESS, RunStatus.DEAD}


@dataclass
class Verdict:
    """What was counted."""

    begun: int
    successes: int
    dead: int
    lost: int
    missed: int
    duplicates: int
    strikes: int


def check(world: World) -> Verdict:
    """Raise AssertionError at the first promise that was broken."""
    begun = world.history.begun
    # The database's clock only ever says "due" when it is: nothing begins early.
    for one in begun:
        assert one.database_us >= one.scheduled_us or world.rates.clock_step_s, f"early: {one}"
    # One attempt of a firing is begun once: the start is a compare-and-set, and a loss counts up.
    attempts = Counter((b.firing_id, b.scheduled_us, b.attempt) for b in begun)
    doubled = [key for key, count in attempts.items() if count > 1]
    assert not doubled, f"begun twice: {doubled[:3]}"
    successes = dead = lost = missed = 0
    for job in world.history.jobs.values():
        runs = world.store.runs_of_job(job.job_id, limit=500)
        _check_job(world, job.job_id, runs)
        successes += sum(run.status is RunStatus.SUCCESS for run in runs)
        dead += sum(run.status is RunStatus.DEAD for run in runs)
        lost += sum(run.status is RunStatus.LOST for run in runs)
        missed += sum(run.missed_count for run in runs)
    starts = Counter((b.job_id, b.scheduled_us) for b in begun)
    planned = {job_id: job.failures + job.kills for job_id, job in world.history.jobs.items()}
    duplicates = sum(max(0, count - 1 - planned[job_id]) for (job_id, _), count in starts.items())
    return Verdict(len(begun), successes, dead, lost, missed, duplicates, world.history.strikes)


def _check_job(world: World, job_id: int, runs: list[Run]) -> None:
    job = world.history.jobs[job_id]
    now_us = world.database_us()
    per_occurrence = Counter(run.scheduled_us for run in runs if run.status is RunStatus.SUCCESS)
    twice = [at for at, count in per_occurrence.items() if count > 1]
    assert not twice, f"job {job_id} succeeded twice at {twice}"
    fences = [run.fence for run in runs if run.status is not RunStatus.MISSED]
    assert len(
        set(
            zip(
                (r.firing_id for r in runs),
                (r.fence for r in runs),
                (r.status for r in runs),
                strict=True,
            )
        )
    ) == len(runs), runs
    assert all(fence > 0 for fence in fences if fence), fences
    stored = world.store.get_jobs([job.job_id]).get(job.job_id)
    if job.deleted_us is not None:
        assert stored is None, f"job {job_id} is still there after its deletion"
        late = [
            b
            for b in world.history.begun
            if b.job_id == job_id
            and b.database_us > job.deleted_us + 1
            and not world.rates.clock_step_s
        ]
        # A start that was committed before the deletion may be begun within the answer's delay.
        assert all(b.database_us < job.deleted_us + 20 * S for b in late)
        return
    ended = {
        run.scheduled_us
        for run in runs
        if run.status in TERMINAL or (run.status is RunStatus.LOST and _is_last(run, runs))
    }
    if not job.period_us:
        assert ended == {job.first_us}, (job, runs)
        return
    assert stored is not None, f"job {job_id} is gone"
    assert stored.next_us is not None
    assert stored.next_us != INFINITY_US
    is_behind = now_us - stored.next_us
    assert is_behind < SETTLE_US, f"job {job_id} stands {is_behind / S} s behind"
    expected = set(range(job.first_us, stored.next_us, job.period_us))
    dropped = sum(run.missed_count for run in runs if run.status is RunStatus.MISSED)
    assert ended <= expected, f"phantoms: {ended - expected}"
    assert len(ended) + dropped == len(expected), (
        f"job {job_id}: {len(expected)} expected, {len(ended)} ended, {dropped} dropped\n{runs}"
    )


def _is_last(run: Run, runs: list[Run]) -> bool:
    same = [other for other in runs if other.scheduled_us == run.scheduled_us]
    return run.attempt == max(other.attempt for other in same)
