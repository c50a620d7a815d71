"""Jobs, runs and dead letters as others see them: the JSON of the API and of the command."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mainspring.instants import INFINITY_US, format_instant
from mainspring.model import (
    DeadLetter,
    Job,
    Run,
    RunStatus,
    Trigger,
    format_holder_id,
    format_job_id,
    format_run_id,
)


class JobRegistered(msgspec.Struct, frozen=True):
    """The answer to a registration.  `next_run_at` is the first occurrence, ISO 8601 in UTC."""

    job_id: str
    next_run_at: str | None


class JobOut(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is read: its definition, and what the store added.

    `payload` is the value, of dicts, lists, str, int, float, bool and None; in what is written as
    JSON it is a `msgspec.Raw`, the text as it was registered.
    """

    job_id: str
    name: str
    task: str
    queue: str
    schedule: str
    timezone: str
    payload: Any
    idempotency_key_template: str | None
    max_retries: int
    retry_backoff: str
    retry_base_seconds: int
    retry_cap_seconds: int
    timeout_seconds: int
    missed_window: str
    max_missed: int
    misfire_grace_seconds: int
    dst_gap: str
    dst_overlap: str
    status: str
    next_run_at: str | None
    created_at: str
    updated_at: str
    rev: int


class RunOut(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is read.  `run_id` is null while it waits, `missed_count` is there if missed."""

    run_id: str | None
    job_id: str
    scheduled_at: str | None
    started_at: str | None
    finished_at: str | None
    status: str
    attempt: int
    worker_id: str | None
    error: str | None
    output: str | None
    catch_up: bool
    trigger: str
    missed_count: int | UnsetType = UNSET


class LetterOut(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter as it is read; it is named by its last run."""

    run_id: str
    job_id: str
    scheduled_at: str | None
    died_at: str | None
    attempts: int
    error: str | None


def instant_or_null(instant_us: int | None) -> str | None:
    """Write an instant; never and not yet are null."""
    if instant_us is None or instant_us == INFINITY_US:
        return None
    return format_instant(instant_us)


def shown_job(job: Job, *, is_payload_text: bool) -> JobOut:
    """Give a job the form in which it is shown.

    Parameters
    ----------
    is_payload_text
        The payload as the text that was registered, for what becomes JSON, instead of its value.
    """
    fields = msgspec.structs.asdict(job.definition)
    text = job.definition.payload.encode("utf-8")
    fields["payload"] = msgspec.Raw(text) if is_payload_text else msgspec.json.decode(text)
    return JobOut(
        **fields,
        job_id=format_job_id(job.job_id),
        status=job.status.value,
        next_run_at=instant_or_null(job.next_us),
        created_at=format_instant(job.created_us),
        updated_at=format_instant(job.updated_us),
        rev=job.rev,
    )


def shown_run(run: Run) -> RunOut:
    """Give a run the form in which the API shows it."""
    is_named = run.status is not RunStatus.PENDING and run.fence > 0
    return RunOut(
        run_id=format_run_id(run.firing_id, run.fence) if is_named else None,
        job_id=format_job_id(run.job_id),
        scheduled_at=instant_or_null(run.scheduled_us),
        started_at=instant_or_null(run.started_us),
        finished_at=instant_or_null(run.finished_us),
        status=run.status.value,
        attempt=run.attempt,
        worker_id=None if run.worker_id is None else format_holder_id(run.worker_id),
        error=run.error,
        output=run.output,
        catch_up=run.catch_up,
        trigger=Trigger(run.trigger).name.lower(),
        missed_count=run.missed_count if run.status is RunStatus.MISSED else UNSET,
    )


def shown_letter(letter: DeadLetter) -> LetterOut:
    """Give a dead letter the form in which it is shown."""
    return LetterOut(
        run_id=format_run_id(letter.firing_id, letter.fence),
        job_id=format_job_id(letter.job_id),
        scheduled_at=instant_or_null(letter.scheduled_us),
        died_at=instant_or_null(letter.died_us),
        attempts=letter.attempt,
        error=letter.error,
    )
