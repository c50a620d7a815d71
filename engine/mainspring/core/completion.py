"""Ending runs on a store: read what a decision needs, decide, complete, and decide again if the
definition changed meanwhile.

These are the procedures a driver calls; the decisions in them are `ending`'s.  A success needs
nothing but what came in its frame.  A failure reads the firing and the job as they are now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mainspring.core.ending import UNREADABLE_US, Report, end_run, end_success
from mainspring.core.requests import Ended
from mainspring.cron import OccurrenceMemo
from mainspring.errors import InvalidSchedule
from mainspring.instants import INFINITY_US
from mainspring.model import FiringId, Job, JobId, RunStatus
from mainspring.store.protocol import Acceptance, Action, RunEnd, Store

DECISIONS_MAX = 5  # a definition that changes this often during one completion is being stormed
NO_REV = -1  # matches no firing
CLOCK_JUMP_US = 5_000_000
"""A database clock that is further on than its reader thinks has been stepped, and the reader does
not know yet by how much to put leases off."""


@dataclass(frozen=True, slots=True)
class PendingEnd:
    """A run that has ended and is not yet completed."""

    firing_id: int
    fence: int
    rev: int
    job_id: int
    scheduled_us: int
    next_us: int
    report: Report


@dataclass(frozen=True, slots=True)
class Completed:
    """What became of a `PendingEnd`: the end that was last decided, and the store's answer."""

    pending: PendingEnd
    end: RunEnd
    acceptance: Acceptance
    due_us: int


@dataclass(frozen=True, slots=True)
class Chance:
    """What an end is decided with besides the run: occurrences and the random number."""

    memo: OccurrenceMemo
    jitter01: Callable[[], float]


def complete_runs(store: Store, pending: Sequence[PendingEnd], chance: Chance) -> list[Completed]:
    """Complete runs in one transaction each time round; raises what the store raises.

    Repeatable after `StoreUnavailable`: what had been accepted is answered REPLAYED.  A run whose
    definition changes at every one of `DECISIONS_MAX` times is answered CHANGED; its lease runs
    out.
    """
    results: dict[int, Completed] = {}
    open_places = list(range(len(pending)))
    looked_up: set[int] = set()
    for times in range(DECISIONS_MAX):
        if not open_places:
            break
        ends = _decide(store, pending, open_places, chance, looked_up, by_frame=times == 0)
        places = sorted(ends, key=lambda place: ends[place].firing_id)
        answer = store.complete([ends[place] for place in places])
        open_places = []
        for place, acceptance, due_us in zip(
            places, answer.acceptances, answer.due_us, strict=True
        ):
            end = ends[place]
            results[place] = Completed(pending[place], end, acceptance, due_us)
            is_other_status_possible = end.rev == NO_REV and end.status is RunStatus.FAILED
            if acceptance is Acceptance.CHANGED:
                open_places.append(place)
            elif acceptance is Acceptance.STALE and is_other_status_possible:
                open_places.append(place)
                looked_up.add(place)
    return [results[place] for place in range(len(pending))]


def end_lost_runs(
    store: Store,
    shard: int,
    term: int,
    *,
    extension_us: int,
    asked_us: int,
    limit: int,
    chance: Chance,
) -> Ended:
    """End the dead runs of a shard: one `lost` row each, and the step a failure would take.

    Raises `TermLost`.
    """
    runs = store.sweep_ended(shard, extension_us=extension_us, limit=limit)
    if not runs:
        return Ended([], [], 0, 0)
    now_us = store.database_us()
    if now_us > asked_us + CLOCK_JUMP_US:
        return Ended([], [], 0, 0)  # asked again in a second, with the step in the extension
    jobs = store.get_jobs(sorted({run.job_id for run in runs}))
    ends = [
        end_run(
            run,
            jobs.get(run.job_id),
            Report("lost", error="the worker died or did not report in time"),
            next_us=_next_us(jobs.get(run.job_id), chance.memo, run.scheduled_us),
            jitter01=chance.jitter01(),
        )
        for run in runs
    ]
    answer = store.end_lost(shard, term, ends)
    accepted = [
        i for i, acceptance in enumerate(answer.acceptances) if acceptance is Acceptance.ACCEPTED
    ]
    return Ended(
        runs=[runs[i] for i in accepted],
        due_us=[answer.due_us[i] for i in accepted],
        retried_count=sum(ends[i].action is Action.RETRY for i in accepted),
        letter_count=sum(ends[i].is_letter for i in accepted),
        is_full=len(runs) >= limit and bool(accepted),
    )


def _decide(
    store: Store,
    pending: Sequence[PendingEnd],
    places: Sequence[int],
    chance: Chance,
    looked_up: set[int],
    *,
    by_frame: bool,
) -> dict[int, RunEnd]:
    """Return the ends by place, one for each of `places`.

    `looked_up` are those of which it is known that they were not recorded as FAILED.
    """
    ends: dict[int, RunEnd] = {}
    to_read = []
    for place in places:
        run = pending[place]
        if by_frame and run.report.kind == "success":
            ends[place] = end_success(
                run.firing_id,
                run.fence,
                run.rev,
                run.job_id,
                run.scheduled_us,
                run.next_us,
                run.report,
            )
        else:
            to_read.append(place)
    if not to_read:
        return ends
    started = store.read_started([pending[place].firing_id for place in to_read])
    jobs = store.get_jobs(sorted({run.job_id for run in started.values()}))
    for place in to_read:
        wanted = pending[place]
        now = started.get(FiringId(wanted.firing_id))
        if now is None or now.fence != wanted.fence:
            # Not ours any more, or an earlier copy of this end was accepted: let the store say.
            ends[place] = _look_up_only(wanted, is_failure_known=place in looked_up)
            continue
        job = jobs.get(JobId(now.job_id))
        ends[place] = end_run(
            now,
            job,
            wanted.report,
            next_us=_next_us(job, chance.memo, now.scheduled_us),
            jitter01=chance.jitter01(),
        )
    return ends


def _look_up_only(wanted: PendingEnd, *, is_failure_known: bool) -> RunEnd:
    """Return an end that matches no firing, so that the store answers REPLAYED or STALE.

    A failure was recorded as FAILED or as DEAD, which only the definition of then could tell.
    """
    if wanted.report.kind == "success":
        status = RunStatus.SUCCESS
    elif wanted.report.kind == "failed" and not is_failure_known:
        status = RunStatus.FAILED
    else:
        status = RunStatus.DEAD
    end = end_success(
        wanted.firing_id,
        wanted.fence,
        wanted.rev,
        wanted.job_id,
        wanted.scheduled_us,
        wanted.next_us,
        wanted.report,
    )
    return replace(end, action=Action.REMOVE, next_us=0, rev=NO_REV, status=status)


def _next_us(job: Job | None, memo: OccurrenceMemo, scheduled_us: int) -> int:
    """Return the occurrence that follows one, by the definition as it is now.

    Of a schedule that was changed meanwhile it is the first one after the change, and of a job that
    was paused and resumed the first one after that.
    """
    if job is None:
        return INFINITY_US
    definition = job.definition
    after_us = max(scheduled_us, job.timed_us)
    try:
        return memo.next_us(
            definition.schedule,
            definition.timezone,
            job.anchor_us,
            after_us,
            job.job_id,
            definition.dst_gap,
            definition.dst_overlap,
        )
    except InvalidSchedule:
        return UNREADABLE_US
