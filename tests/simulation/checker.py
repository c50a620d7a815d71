"""Judges one world's history: safety, conservation and convergence.

The expected occurrences come from counting periods, not from the code under test.  What was begun
comes from the handlers, what was claimed, started and deleted from the store's boundary.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mainspring.model import Run, RunStatus
from simulation.recording import Claimed, Started
from simulation.world import Begun, Registered, S, World

SETTLE_US = 8 * S
ENDS = {RunStatus.SUCCESS, RunStatus.DEAD}


@dataclass
class Verdict:
    """What was counted; `duplicates` are occurrences begun again after a loss."""

    begun: int
    successes: int
    dead: int
    lost: int
    missed: int
    duplicates: int
    strikes: int
    faults: int


def check(world: World) -> Verdict:
    """Raise AssertionError at the first promise that was broken."""
    _check_boundary(world)
    runs_of = {job_id: _recorded_runs(world, job_id) for job_id in world.history.jobs}
    letters_of: dict[int, set[tuple[int, int]]] = {job_id: set() for job_id in runs_of}
    for letter in world.letters():
        letters_of[letter.job_id].add((letter.firing_id, letter.fence))
    begun_of: dict[int, list[Begun]] = {job_id: [] for job_id in world.history.jobs}
    for one in world.history.begun:
        begun_of[one.job_id].append(one)
    for job_id, job in world.history.jobs.items():
        runs, letters = runs_of[job_id], letters_of[job_id]
        _check_runs(world, begun_of[job_id], runs)
        _check_letters(world, job_id, runs, letters)
        if job_id in world.store.deleted:
            assert not world.store.get_jobs([job_id]), f"job {job_id} is there after its deletion"
        else:
            _check_conservation(world, job, runs, has_letters=bool(letters))
    statuses = Counter(run.status for runs in runs_of.values() for run in runs)
    again = Counter((one.firing_id, one.scheduled_us) for one in world.history.begun)
    failed = Counter(
        (run.firing_id, run.scheduled_us)
        for runs in runs_of.values()
        for run in runs
        if run.status is RunStatus.FAILED
    )
    return Verdict(
        begun=len(world.history.begun),
        successes=statuses[RunStatus.SUCCESS],
        dead=statuses[RunStatus.DEAD],
        lost=statuses[RunStatus.LOST],
        missed=sum(run.missed_count for runs in runs_of.values() for run in runs),
        duplicates=sum(max(0, count - 1 - failed[key]) for key, count in again.items()),
        strikes=world.history.strikes,
        faults=sum(store.faults for store in world.stores),
    )


def _recorded_runs(world: World, job_id: int) -> list[Run]:
    runs: list[Run] = []
    before = None
    while page := world.store.runs_of_job(job_id, limit=500, before=before):
        runs += page
        last = page[-1]
        before = (last.scheduled_us, last.attempt, last.firing_id, last.fence)
    return [run for run in runs if run.status not in {RunStatus.PENDING, RunStatus.RUNNING}]


def _check_boundary(world: World) -> None:
    """Nothing is started early or after a deletion; fences grow."""
    fences: dict[int, int] = {}
    records: list[Claimed | Started] = [*world.store.claimed, *world.store.started]
    records.sort(key=lambda each: each.place)
    for one in records:
        known = fences.get(one.firing_id, -1)
        if isinstance(one, Claimed):
            assert one.is_led, f"claimed without a term: {one}"
            assert one.fence > known, f"claimed with fence {one.fence} after {known}: {one}"
            named = one.named_fence
            assert named is None or one.fence == named + 1, f"not the lease named: {one}"
        else:
            assert one.fence == known, f"started with fence {one.fence}, leased with {known}"
            assert one.due_us <= one.database_us, f"early: {one}"
            assert one.is_holder_alive, f"started by a dead worker: {one}"
            deleted = world.store.deleted.get(one.job_id)
            assert deleted is None or one.place < deleted, f"started after deletion: {one}"
        fences[one.firing_id] = one.fence
    leases = Counter((one.firing_id, one.fence) for one in world.store.started)
    doubled = [lease for lease, count in leases.items() if count > 1]
    assert not doubled, f"one lease started twice: {doubled[:3]}"
    for end in world.store.ended:
        assert end.fence_after > end.fence, f"the end of a run did not raise its fence: {end}"
    unstarted = {(one.firing_id, one.fence) for one in world.history.begun} - leases.keys()
    assert not unstarted, f"begun and never started: {unstarted}"


def _check_runs(world: World, begun: list[Begun], runs: list[Run]) -> None:
    """Every attempt is begun at most once and has one row, of its fence; one success each."""
    rows = [run for run in runs if run.status is not RunStatus.MISSED]
    leases = Counter((run.firing_id, run.fence) for run in rows)
    assert max(leases.values(), default=0) <= 1, f"two ends of one lease: {runs}"
    by_attempt = {(run.firing_id, run.scheduled_us, run.attempt): run for run in rows}
    assert len(by_attempt) == len(rows), f"two rows of one attempt: {runs}"
    successes = Counter(run.scheduled_us for run in rows if run.status is RunStatus.SUCCESS)
    assert max(successes.values(), default=0) <= 1, f"succeeded twice: {successes.most_common(1)}"
    attempts = Counter((one.firing_id, one.scheduled_us, one.attempt) for one in begun)
    assert max(attempts.values(), default=0) <= 1, f"begun twice: {attempts.most_common(1)}"
    for one in begun:
        row = by_attempt.get((one.firing_id, one.scheduled_us, one.attempt))
        if row is None:
            now = world.store.read_started([one.firing_id]).values()
            assert one.fence in {each.fence for each in now}, f"begun, and no row of it: {one}"
        else:
            assert one.fence == row.fence, f"the row has another fence: {one} {row}"
    known = set(attempts)
    for run in rows:
        is_known = (run.firing_id, run.scheduled_us, run.attempt) in known
        assert is_known or run.status is RunStatus.LOST, f"ended and never begun: {run}"


def _check_letters(
    world: World, job_id: int, runs: list[Run], letters: set[tuple[int, int]]
) -> None:
    """Every dead run of a job that is still there has its letter, and no other run has one."""
    ended = {
        (run.firing_id, run.fence) for run in runs if run.status in {RunStatus.DEAD, RunStatus.LOST}
    }
    assert letters <= ended, f"letters without a run: {letters - ended}"
    if job_id not in world.store.deleted:
        dead = {(run.firing_id, run.fence) for run in runs if run.status is RunStatus.DEAD}
        unsent = dead - letters - world.store.redriven
        assert not unsent, f"dead without a letter: {unsent}"


def _check_conservation(
    world: World, job: Registered, runs: list[Run], *, has_letters: bool
) -> None:
    """Every due occurrence ended or was recorded as missed, soon after the last fault."""
    stored = world.store.get_jobs([job.job_id]).get(job.job_id)
    ended = {run.scheduled_us for run in runs if run.status in ENDS or _is_last_loss(run, runs)}
    if not job.period_us:
        assert ended == {job.first_us}, f"job {job.job_id} has not ended: {job} {runs}"
        assert stored is None or has_letters, f"left over: {job}"
        return
    assert stored is not None, f"job {job.job_id} is gone"
    assert stored.next_us is not None, f"job {job.job_id} is parked"
    behind_us = world.database_us() - stored.next_us
    assert behind_us < SETTLE_US, f"job {job.job_id} stands {behind_us / S} s behind"
    ended.discard(stored.next_us)  # lost, and to be tried again
    expected = set(range(job.first_us, stored.next_us, job.period_us))
    dropped = sum(run.missed_count for run in runs if run.status is RunStatus.MISSED)
    assert ended <= expected, f"phantoms: {ended - expected}"
    assert len(ended) + dropped == len(expected), (
        f"job {job.job_id}: {len(expected)} expected, {len(ended)} ended, {dropped} dropped"
    )


def _is_last_loss(run: Run, runs: list[Run]) -> bool:
    same = [other.attempt for other in runs if other.scheduled_us == run.scheduled_us]
    return run.status is RunStatus.LOST and run.attempt == max(same)
