"""What a change of a job makes of it: other fields, a pause, a resumption.  Pure.

A change is decided from the job as it was read and carries the rev it was read at; the store
refuses it if the job has changed meanwhile, and then it is decided again.

What the times become:

- A change that leaves schedule, zone and DST options as they are leaves the times as they are.
- A changed schedule starts from now: its first occurrence is the first after the change, and
  nothing of it was due before.  A one-off's instant must be to come.
- A paused cursor waits at infinity; what passes meanwhile is not missed.  Resumed, it goes on with
  the first occurrence after now.
- A paused one-off keeps its instant.  If that passed meanwhile it runs at once when it is resumed;
  under SKIP the resumption is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mainspring.cron import Schedule, ScheduleKind, next_occurrence_us, parse_schedule
from mainspring.errors import Conflict, InvalidInput, InvalidSchedule, MalformedBody
from mainspring.instants import INFINITY_US, format_instant
from mainspring.model import Definition, Job, JobChange, JobStatus, MissedWindow, format_job_id
from mainspring.payload import check_json
from mainspring.registration import DEFAULT_LIMITS, FIELDS, Limits, raw_fields, read_job

Fields = Mapping[str, msgspec.Raw]
"""The fields of a job that change, each as JSON."""

_DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_change(body: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Fields:
    """Read a change from the body of a request; whether its fields fit is seen by `changed`.

    Raises
    ------
    MalformedBody
        Not JSON.
    InvalidInput
        JSON, but not an object, or an empty one.
    """
    check_json(body, depth_max=limits.depth_max)
    try:
        return _some(_DECODER.decode(body))
    except msgspec.ValidationError:
        raise InvalidInput(
            "a change is a JSON object of the fields that change", hint=_FIELDS_HINT
        ) from None
    except msgspec.DecodeError as error:
        raise MalformedBody(str(error), hint="Send one JSON object.") from None


def change_of(fields: Mapping[str, object]) -> Fields:
    """Take a change from a Python caller; raises `InvalidInput` for a value that is not JSON."""
    return _some(raw_fields(fields))


def changed(job: Job, fields: Fields, now_us: int, limits: Limits = DEFAULT_LIMITS) -> JobChange:
    """Say what a job becomes by a change of some fields.

    Parameters
    ----------
    fields
        In.  Each is taken as a whole, as a registration has it.
    now_us
        The database's now.

    Raises
    ------
    InvalidInput
        A field, or what comes out together, breaks a rule.
    """
    before = raw_fields(
        {**msgspec.structs.asdict(job.definition), "payload": msgspec.Raw(_payload(job))}
    )
    body = msgspec.json.encode({**before, **fields})
    # What was right when the job was registered stays right: an old one-off is not refused as past.
    kept = read_job(body, now_us=job.anchor_us, limits=limits)
    if _times(kept.definition) == _times(job.definition):
        return _change(job, kept.definition, job.status)
    new = read_job(body, now_us=now_us, limits=limits)
    schedule = _schedule(job, new.definition, now_us)
    first_us = _first_us(schedule, now_us)
    is_active = job.status is JobStatus.ACTIVE
    return _change(
        job,
        new.definition,
        job.status,
        anchor_us=now_us,
        is_once=new.is_once,
        timed_us=now_us,
        scheduled_us=first_us if is_active or new.is_once else INFINITY_US,
        due_us=first_us if is_active else INFINITY_US,
    )


def paused(job: Job) -> JobChange | None:
    """Say what a job becomes when it is paused; None if it is paused already."""
    if job.status is JobStatus.PAUSED:
        return None
    scheduled_us = None if job.is_once else INFINITY_US
    return _change(
        job, job.definition, JobStatus.PAUSED, scheduled_us=scheduled_us, due_us=INFINITY_US
    )


def resumed(job: Job, now_us: int) -> JobChange | None:
    """Say what a job becomes when it is resumed; None if it is active already.

    Raises
    ------
    Conflict
        A one-off under SKIP whose instant has passed.
    InvalidSchedule
        Its schedule cannot be read any more, or has no occurrence from now on.
    """
    if job.status is JobStatus.ACTIVE:
        return None
    schedule = _schedule(job, job.definition, job.anchor_us)
    if schedule.kind is not ScheduleKind.ONCE:
        first_us = _first_us(schedule, now_us)
        return _change(
            job,
            job.definition,
            JobStatus.ACTIVE,
            timed_us=now_us,
            scheduled_us=first_us,
            due_us=first_us,
        )
    is_past = schedule.at_us < now_us
    if is_past and job.definition.missed_window is MissedWindow.SKIP:
        raise Conflict(
            f"the instant of job {format_job_id(job.job_id)}, {format_instant(schedule.at_us)}, "
            "passed while it was paused, and missed_window SKIP would never run it",
            hint="Give it another schedule first, or delete it.",
        )
    return _change(
        job,
        job.definition,
        JobStatus.ACTIVE,
        anchor_us=now_us if is_past else job.anchor_us,
        scheduled_us=schedule.at_us,
        due_us=schedule.at_us,
    )


def _change(
    job: Job,
    definition: Definition,
    status: JobStatus,
    *,
    anchor_us: int | None = None,
    is_once: bool | None = None,
    timed_us: int | None = None,
    scheduled_us: int | None = None,
    due_us: int | None = None,
) -> JobChange:
    return JobChange(
        job_id=job.job_id,
        rev=job.rev,
        definition=definition,
        status=status,
        anchor_us=job.anchor_us if anchor_us is None else anchor_us,
        is_once=job.is_once if is_once is None else is_once,
        timed_us=job.timed_us if timed_us is None else timed_us,
        scheduled_us=scheduled_us,
        due_us=due_us,
    )


def _schedule(job: Job, definition: Definition, anchor_us: int) -> Schedule:
    return parse_schedule(
        definition.schedule,
        definition.timezone,
        anchor_us=anchor_us,
        job_id=job.job_id,
        dst_gap=definition.dst_gap,
        dst_overlap=definition.dst_overlap,
    )


def _first_us(schedule: Schedule, now_us: int) -> int:
    first_us = next_occurrence_us(schedule, now_us)
    if first_us is None:
        is_once = schedule.kind is ScheduleKind.ONCE
        raise InvalidSchedule(
            f"schedule {schedule.text!a} has no occurrence from now on",
            pointer="/schedule",
            hint="A change takes effect from now on: give an instant to come."
            if is_once
            else "Occurrences end with the year 9999.",
        )
    return first_us


_FIELDS_HINT: Final = f"Fields are {', '.join(FIELDS)}."


def _some(fields: Fields) -> Fields:
    if not fields:
        raise InvalidInput("the change has no field", hint=_FIELDS_HINT)
    return fields


def _payload(job: Job) -> bytes:
    return job.definition.payload.encode("utf-8")


def _times(definition: Definition) -> tuple[str, ...]:
    """Return what the times of a job follow from."""
    return (
        definition.schedule,
        definition.timezone,
        definition.dst_gap,
        definition.dst_overlap,
    )
