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
from mainspring.model import FiringId, Job, JobId
from mainspring.store.protocol import Acceptance, Action, RunEnd, Store

DECISIONS_MAX = 5  # a definition that changes this often during one completion is being stormed


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
    """What became of a `PendingEnd`: the end that was last decided, and the store's answer.

    `end` is None if the run had been ended by another before anything was decided.
    """

    pending: PendingEnd
    end: RunEnd | None
    acceptance: Acceptance
    due_us: int


@dataclass(frozen=True, slots=True)
class Chance:
    """What an end is decided with besides the run: occurrences and the random number."""

    memo: OccurrenceMemo
    jitter01: Callable[[], float]


def complete_runs(store: Store, pending: Sequence[PendingEnd], chance: Chance) -> list[Completed]:
    """Complete runs in one transaction each time round; raises what the store raises.

    Repeatable after `StoreUnavailable`: what had been accepted is answered REPLAYED.
    """
    results: dict[int, Completed] = {}
    open_places = list(range(len(pending)))
    is_first = True
    for _ in range(DECISIONS_MAX):
        ends = _decide(store, pending, open_places, chance, by_frame=is_first)
        is_first = False
        for place in open_places:
            if place not in ends:
                results[place] = Completed(pending[place], None, Acceptance.STALE, INFINITY_US)
        places = sorted(ends, key=lambda place: ends[place].firing_id)
        if not places:
            break
        answer = store.complete([ends[place] for place in places])
        open_places = []
        for place, acceptance, due_us in zip(
            places, answer.acceptances, answer.due_us, strict=True
        ):
            if acceptance is Acceptance.CHANGED:
                open_places.append(place)
            results[place] = Completed(pending[place], ends[place], acceptance, due_us)
        if not open_places:
            break
    return [results[place] for place in range(len(pending))]


def end_lost_runs(
    store: Store, shard: int, term: int, *, extension_us: int, limit: int, chance: Chance
) -> Ended:
    """End the dead runs of a shard: one `lost` row each, and the step a failure would take.

    Raises `TermLost`.
    """
    runs = store.sweep_ended(shard, extension_us=extension_us, limit=limit)
    if not runs:
        return Ended([], [], 0, 0)
    jobs = store.get_jobs(sorted({run.job_id for run in runs}))
    ends = [
        end_run(
            run,
            jobs.get(run.job_id),
            Report("lost", error="the worker died or did not report in time"),
            next_us=_next_us(jobs.get(run.job_id), chance.memo, after_us=run.scheduled_us),
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
    )


def _decide(
    store: Store,
    pending: Sequence[PendingEnd],
    places: Sequence[int],
    chance: Chance,
    *,
    by_frame: bool,
) -> dict[int, RunEnd]:
    """Return the ends by place; a place without one was ended by another."""
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
    now_us = store.database_us()
    for place in to_read:
        wanted = pending[place]
        now = started.get(FiringId(wanted.firing_id))
        if now is None or now.fence != wanted.fence:
            # Not ours any more, or an earlier copy of this end was accepted: let the store say.
            ends[place] = _look_up_only(wanted)
            continue
        job = jobs.get(JobId(now.job_id))
        after_us = now.scheduled_us if now.rev == wanted.rev else max(now_us, now.scheduled_us)
        ends[place] = end_run(
            now,
            job,
            wanted.report,
            next_us=_next_us(job, chance.memo, after_us=after_us),
            jitter01=chance.jitter01(),
        )
    return ends


def _look_up_only(wanted: PendingEnd) -> RunEnd:
    """Return an end that matches no firing, so that the store answers REPLAYED or STALE."""
    end = end_success(
        wanted.firing_id,
        wanted.fence,
        wanted.rev,
        wanted.job_id,
        wanted.scheduled_us,
        wanted.next_us,
        wanted.report,
    )
    return replace(end, action=Action.REMOVE, rev=-1)


def _next_us(job: Job | None, memo: OccurrenceMemo, *, after_us: int) -> int:
    if job is None:
        return INFINITY_US
    definition = job.definition
    try:
        return memo.next_us(definition.schedule, definition.timezone, job.anchor_us, after_us)
    except InvalidSchedule:
        return UNREADABLE_US
