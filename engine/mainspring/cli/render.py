"""Jobs, runs and letters as the JSON of the API and as cells of a table."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.instants import INFINITY_US, format_instant
from mainspring.model import (
    DeadLetter,
    Job,
    Run,
    RunStatus,
    format_holder_id,
    format_job_id,
    format_run_id,
)


def instant_or_none(instant_us: int | None) -> str | None:
    """Return the ISO form; None for no instant and for infinity."""
    return None if instant_us is None or instant_us == INFINITY_US else format_instant(instant_us)


def job_fields(job: Job) -> dict[str, Any]:
    """Return a job as GET /api/v1/jobs/{id} shows it."""
    definition = msgspec.structs.asdict(job.definition)
    return {
        "job_id": format_job_id(job.job_id),
        "status": job.status,
        "next_run_at": instant_or_none(job.next_us),
        **definition,
        "payload": msgspec.Raw(job.definition.payload.encode()),
        "created_at": format_instant(job.created_us),
        "updated_at": format_instant(job.updated_us),
        "rev": job.rev,
    }


def run_fields(run: Run) -> dict[str, Any]:
    """Return a run as GET /api/v1/jobs/{id}/runs shows it."""
    fields = {
        "run_id": None
        if run.status is RunStatus.PENDING
        else format_run_id(run.firing_id, run.fence),
        "job_id": format_job_id(run.job_id),
        "scheduled_at": instant_or_none(run.scheduled_us),
        "started_at": instant_or_none(run.started_us),
        "finished_at": instant_or_none(run.finished_us),
        "status": run.status,
        "attempt": run.attempt,
        "worker_id": None if run.worker_id is None else format_holder_id(run.worker_id),
        "error": run.error,
        "catch_up": run.catch_up,
        "trigger": run.trigger.name.lower(),
        "output": run.output,
    }
    if run.status is RunStatus.MISSED:
        fields["missed_count"] = run.missed_count
    return fields


def letter_fields(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter; it is named by its last run."""
    return {
        "run_id": format_run_id(letter.firing_id, letter.fence),
        "job_id": format_job_id(letter.job_id),
        "scheduled_at": instant_or_none(letter.scheduled_us),
        "died_at": instant_or_none(letter.died_us),
        "attempts": letter.attempt,
        "error": letter.error,
    }


def cell(value: object) -> str:
    """Return a value as a cell of a table."""
    if value is None:
        return "-"
    return str(value).replace("\n", " ")[:120]
