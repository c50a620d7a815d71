"""What becomes of a firing when its run ends: one decision for workers and for leaders.

The attempt rule: a failed attempt n is retried while n < max_retries, counted from the last
redrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mainspring.instants import INFINITY_US
from mainspring.model import FiringId, Job, JobId, JobStatus, RunStatus, Trigger
from mainspring.retry import backoff_us, decide_after_failure
from mainspring.store.protocol import Action, RunEnd, StartedRun

UNREADABLE_US = -1
"""Stands for the next occurrence of a schedule that can no longer be read (a zone that a newer
tzdata dropped): the cursor is parked, where a person finds it, and never removed."""

EndKind = Literal["success", "failed", "dead", "lost"]


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended, as the worker, or the leader for a dead one, saw it.

    `retry_after_us` is the handler's own delay; None means the job's backoff.
    """

    kind: EndKind
    error: str | None = None
    output: str | None = None
    retry_after_us: int | None = None


def end_success(
    firing_id: int,
    fence: int,
    rev: int,
    job_id: int,
    scheduled_us: int,
    next_us: int,
    report: Report,
) -> RunEnd:
    """Say how a successful run ends while its definition is the one it was claimed with.

    Needs nothing but the frame: `next_us` came with it, and the rev guards both.
    """
    return RunEnd(
        firing_id=FiringId(firing_id),
        fence=fence,
        rev=rev,
        job_id=JobId(job_id),
        scheduled_us=scheduled_us,
        status=RunStatus.SUCCESS,
        action=_after_schedule(next_us),
        next_us=next_us if next_us not in {INFINITY_US, UNREADABLE_US} else 0,
        error=report.error,
        output=report.output,
    )


def end_run(
    run: StartedRun, job: Job | None, report: Report, *, next_us: int, jitter01: float
) -> RunEnd:
    """Say how any run ends, by the definition as it is now.

    Parameters
    ----------
    job
        None if the definition is gone: the run row is written and the firing removed.
    next_us
        The occurrence after this one by that definition, INFINITY_US or UNREADABLE_US.
    jitter01
        In [0, 1).
    """
    is_live = job is not None and job.status is not JobStatus.DELETED
    attempt = run.attempt - run.attempts_spent
    has_attempts = (
        report.kind in {"failed", "lost"}
        and job is not None
        and is_live
        and decide_after_failure(attempt, job.definition.max_retries, "failed") == "retry"
    )
    status = _status(report.kind, is_retried=has_attempts)
    is_paused = (
        job is not None and job.status is JobStatus.PAUSED and run.trigger == Trigger.SCHEDULE
    )
    if has_attempts and not is_paused:
        action = Action.RETRY
    elif run.trigger != Trigger.SCHEDULE or not is_live:
        action = Action.REMOVE
    elif job is not None and is_paused:
        action = _while_paused(job, has_attempts=has_attempts)
    else:
        action = _after_schedule(next_us)
    delay_us = 0
    if action is Action.RETRY and job is not None:
        delay_us = (
            report.retry_after_us
            if report.retry_after_us is not None
            else backoff_us(
                job.definition.retry_backoff,
                attempt,
                job.definition.retry_base_seconds,
                job.definition.retry_cap_seconds,
                jitter01,
            )
        )
    return RunEnd(
        firing_id=run.firing_id,
        fence=run.fence,
        rev=run.rev,
        job_id=run.job_id,
        scheduled_us=run.scheduled_us,
        status=status,
        action=action,
        next_us=next_us if action is Action.MOVE else 0,
        delay_us=delay_us,
        is_letter=report.kind != "success" and not has_attempts and is_live,
        error=report.error,
        output=report.output,
    )


def _while_paused(job: Job, *, has_attempts: bool) -> Action:
    """Return the step of a cursor whose job was paused while it ran.

    Attempts that a failure has left are no dead letter.  A recurring job goes on with a later
    occurrence when it is resumed; a one-off has no other, and keeps it with its attempts.
    """
    if not job.is_once:
        return Action.PARK
    return Action.HOLD if has_attempts else Action.REMOVE


def _after_schedule(next_us: int) -> Action:
    if next_us == UNREADABLE_US:
        return Action.PARK
    return Action.REMOVE if next_us == INFINITY_US else Action.MOVE


def _status(kind: EndKind, *, is_retried: bool) -> RunStatus:
    match kind:
        case "success":
            return RunStatus.SUCCESS
        case "lost":
            return RunStatus.LOST  # the row tells what happened; the letter tells what follows
        case "failed" | "dead":
            return RunStatus.FAILED if is_retried else RunStatus.DEAD
