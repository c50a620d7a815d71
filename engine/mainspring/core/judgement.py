"""What becomes of firings that are claimed late: the policy of their job, and their turn.

`judge` is pure; what it says is recorded by one fenced statement of the store, and `settled` drops
from the batch what is not run now.  A crash between the claim and that record runs the occurrence
it found late, as it is; nothing is lost, and the next claim judges the ones after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.core.catch_up import CatchUp, LargeCatchUp
from mainspring.cron import (
    ON_TIME,
    ScheduleKind,
    Verdict,
    is_spread,
    judge_missed,
    parse_schedule,
)
from mainspring.errors import InvalidSchedule
from mainspring.instants import INFINITY_US, US_PER_S
from mainspring.model import DstGap, DstOverlap, FiringId, Job, JobId, JobStatus, Trigger
from mainspring.store.protocol import Missed, MissedStep

Int64s = NDArray[np.int64]


@dataclass(slots=True)
class Judgement:
    """What is to be recorded, and what it adds up to.

    `missed_count` counts an occurrence when its catch-up run goes out or when it is dropped, so
    that over a whole catch-up the counts add up to what was missed.
    """

    rows: list[Missed] = field(default_factory=list)
    missed_count: int = 0
    dropped_count: int = 0
    missed_job_ids: list[int] = field(default_factory=list)
    large: list[LargeCatchUp] = field(default_factory=list)


def late_rows(batch: ClaimBatch) -> Int64s:
    """Return the rows that are to be judged, int64, shape (k,).

    Judged once: attempt 1 of a scheduled firing that was never claimed before.
    """
    late_us = batch.claimed_us - batch.scheduled_us
    is_judged = (
        (batch.first_claim == 1)
        & (batch.trigger == int(Trigger.SCHEDULE))
        & (late_us > batch.grace_s.astype(np.int64) * US_PER_S)
    )
    return np.flatnonzero(is_judged).astype(np.int64)


def judge(
    batch: ClaimBatch, rows: Int64s, jobs: Mapping[JobId, Job], catch_up: CatchUp
) -> Judgement:
    """Judge late firings by the policies of their jobs, in the order of the batch.

    A job that is gone or changed is passed over: the record would be refused by its fence.
    """
    judgement = Judgement()
    verdicts: dict[object, Verdict] = {}
    for i in rows.tolist():
        row = batch.row(i)
        job = jobs.get(JobId(row.job_id))
        if job is None or job.status is not JobStatus.ACTIVE:
            continue
        key = _meaning(row, job)
        if key not in verdicts:
            verdicts[key] = _verdict(row, job)
        if not verdicts[key].is_on_time:
            _take(judgement, row, verdicts[key], catch_up, is_once=job.is_once)
    return judgement


def settled(batch: ClaimBatch, judgement: Judgement, fences: Mapping[FiringId, int]) -> ClaimBatch:
    """Return what of the batch goes into frames now.

    `fences` are the firings that were recorded, with the fence each has since.  What was judged
    and not recorded belongs to somebody else by now.
    """
    scheduled_us, fence = batch.scheduled_us.copy(), batch.fence.copy()
    catch_up, is_kept = batch.catch_up.copy(), np.ones(len(batch), bool)
    places = {int(firing_id): i for i, firing_id in enumerate(batch.firing_id.tolist())}
    for missed in judgement.rows:
        i = places[missed.firing_id]
        is_kept[i] = missed.step is MissedStep.RUN and missed.firing_id in fences
        if is_kept[i]:
            scheduled_us[i] = missed.scheduled_us
            catch_up[i] = missed.is_catch_up
            fence[i] = fences[missed.firing_id]
    batch = batch.replace(scheduled_us=scheduled_us, catch_up=catch_up, fence=fence)
    return batch if is_kept.all() else batch.take(np.flatnonzero(is_kept).astype(np.int64))


def _meaning(row: ClaimRow, job: Job) -> object:
    """Return all that a verdict depends on; most late firings share it with many others."""
    return (
        row.schedule,
        row.zone,
        row.dst_gap,
        row.dst_overlap,
        row.scheduled_us,
        row.claimed_us,
        row.grace_s,
        job.definition.missed_window,
        job.definition.max_missed,
        row.job_id if is_spread(row.schedule) else 0,
        row.anchor_us if row.schedule.startswith("@every") or job.is_once else 0,
    )


def _verdict(row: ClaimRow, job: Job) -> Verdict:
    try:
        schedule = parse_schedule(
            row.schedule,
            row.zone,
            anchor_us=row.anchor_us,
            job_id=row.job_id,
            dst_gap=DstGap(row.dst_gap),
            dst_overlap=DstOverlap(row.dst_overlap),
        )
    except InvalidSchedule:
        return ON_TIME  # run it as it is; what follows is parked
    if schedule.kind is ScheduleKind.ONCE and row.anchor_us >= row.scheduled_us:
        return ON_TIME  # past when it was registered, and meant to run at once
    return judge_missed(
        schedule,
        job.definition.missed_window,
        row.scheduled_us,
        row.claimed_us,
        row.grace_s * US_PER_S,
        job.definition.max_missed,
    )


def _take(
    judgement: Judgement, row: ClaimRow, verdict: Verdict, catch_up: CatchUp, *, is_once: bool
) -> None:
    """Turn a verdict into what is recorded and counted."""
    step, due_us, scheduled_us = MissedStep.RUN, 0, verdict.run_scheduled_us
    if scheduled_us is None:
        # Nothing runs now: the cursor goes on, or a one-off is over.
        step = MissedStep.REMOVE if is_once else MissedStep.WAIT
        due_us = scheduled_us = INFINITY_US if verdict.next_us is None else verdict.next_us
    elif verdict.is_catch_up and not row.catch_up:  # a marked one was put off to this time
        put_off_us = catch_up.take_time(row.claimed_us)
        if put_off_us is not None:
            step, due_us = MissedStep.WAIT, put_off_us
    is_run_now = verdict.is_catch_up and step is MissedStep.RUN
    judgement.missed_count += verdict.dropped_count + is_run_now
    judgement.dropped_count += verdict.dropped_count
    judgement.missed_job_ids.append(row.job_id)
    # A put-off one was announced when it was put off.
    in_all = verdict.dropped_count + verdict.waiting_count + verdict.is_catch_up
    if catch_up.is_news(row.job_id, row.scheduled_us, in_all, row.claimed_us):
        judgement.large.append(LargeCatchUp(row.job_id, in_all, verdict.dropped_count))
    is_as_it_is = is_run_now and row.catch_up and scheduled_us == row.scheduled_us
    if not is_as_it_is:
        judgement.rows.append(
            Missed(
                firing_id=FiringId(row.firing_id),
                fence=row.fence,
                job_id=JobId(row.job_id),
                step=step,
                scheduled_us=scheduled_us,
                due_us=due_us,
                is_catch_up=verdict.is_catch_up,
                dropped_us=verdict.dropped_first_us or 0,
                dropped_count=verdict.dropped_count,
            )
        )
