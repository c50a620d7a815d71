"""What a job is registered with: the fields a caller may send, and every rule about them.

The HTTP API, the command line and the embedding interface all come through here, so a job that is
refused by one is refused by all, with the same words.  `read_job` takes the bytes of a request,
`job_in` the fields a Python caller has; `job_from` checks and gives a `NewJob` that the store can
take as it is.

Every refusal is an `InvalidInput` whose `pointer` names the field.  Text is stored byte for byte:
nothing is trimmed, cut or normalised; what does not fit is refused.

Not done here: reading a clock.  `now_us` is the database's now, as near as the caller knows it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import difflib
import enum
import functools
import json
import re
import unicodedata
import uuid
from collections.abc import Mapping
from typing import Final, Required, TypedDict

import msgspec

from mainspring.cron import (
    Schedule,
    ScheduleKind,
    is_spread,
    next_occurrence_us,
    parse_schedule,
)
from mainspring.errors import InvalidInput, InvalidSchedule, MalformedBody
from mainspring.keys import compile_template, require_fit
from mainspring.model import Backoff, Definition, DstGap, DstOverlap, MissedWindow, NewJob
from mainspring.payload import check_json, compact, pointer_token

NAME_LENGTH_MAX: Final = 200
"""Characters, of a name and of a task."""

QUEUE_LENGTH_MAX: Final = 100

RANGES: Final = {
    "max_retries": (0, 1_000),
    "retry_base_seconds": (0, 86_400),
    "retry_cap_seconds": (0, 604_800),
    "timeout_seconds": (1, 604_800),  # a week: beyond it a run should be cut into several
    "max_missed": (1, 10_000),
    "misfire_grace_seconds": (0, 31_536_000),
}

_SCHEDULES_KEPT_MAX: Final = 4_096
"""Reading a cron expression is nine tenths of a registration's cost, and most share a few."""

_QUEUE: Final = re.compile(r"[A-Za-z0-9._-]+")
_PATH: Final = re.compile(r" - at `\$\.?([^`\[.]*)[^`]*`\Z")
_FIELD_OF_OBJECT: Final = re.compile(r"(unknown|required) field `(.*)`", re.DOTALL)
_TEXT_LENGTH_MAX: Final = 200
_CHOICES: Final[dict[str, type[enum.StrEnum]]] = {
    "retry_backoff": Backoff,
    "missed_window": MissedWindow,
    "dst_gap": DstGap,
    "dst_overlap": DstOverlap,
}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much JSON is taken; the API sets these from its settings."""

    payload_bytes_max: int = 65_536
    depth_max: int = 32


class JobIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a registration and their defaults.  Types hold, rules are not yet checked."""

    name: str
    schedule: str
    timezone: str = "UTC"
    task: str | None = None
    """None, the default, means the name."""
    queue: str = "default"
    payload: msgspec.Raw = msgspec.Raw(b"null")
    idempotency_key_template: str | None = None
    max_retries: int = 3
    retry_backoff: Backoff = Backoff.EXPONENTIAL
    retry_base_seconds: int = 5
    retry_cap_seconds: int = 3600
    timeout_seconds: int = 300
    missed_window: MissedWindow = MissedWindow.RUN_ONCE
    max_missed: int = 100
    misfire_grace_seconds: int = 60
    dst_gap: DstGap = DstGap.NEXT_VALID
    dst_overlap: DstOverlap = DstOverlap.FIRST


class JobUpdate(TypedDict, total=False):
    """The fields of `JobIn` as keyword arguments of a Python caller, each of them optional."""

    name: str
    schedule: str
    timezone: str
    task: str | None
    queue: str
    payload: object
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


class JobFields(JobUpdate, total=False):
    """The fields of a registration."""

    name: Required[str]  # type: ignore[misc]
    schedule: Required[str]  # type: ignore[misc]


FIELDS: Final = JobIn.__struct_fields__

DEFAULT_LIMITS: Final = Limits()
_DECODER: Final = msgspec.json.Decoder(JobIn)


def read_job(body: bytes, *, now_us: int, limits: Limits = DEFAULT_LIMITS) -> NewJob:
    """Read a registration from the body of a request.

    Parameters
    ----------
    body
        A JSON object; its length is the caller's to limit, cost is linear in it.
    now_us
        The database's now.

    Raises
    ------
    MalformedBody
        Not JSON.
    InvalidInput
        JSON, but not a job.  Nothing else is raised, whatever the bytes are.
    """
    check_json(body, depth_max=limits.depth_max)
    try:
        fields = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from None
    except msgspec.DecodeError as error:
        raise MalformedBody(str(error)[:_TEXT_LENGTH_MAX], hint="Send one JSON object.") from None
    return _assemble(fields, now_us, limits)


def raw_fields(fields: Mapping[str, object]) -> dict[str, msgspec.Raw]:
    """Write the fields of a Python caller as JSON, each for itself.

    Raises
    ------
    InvalidInput
        A value that no JSON has.  Whether a field exists and fits is not looked at.
    """
    raw: dict[str, msgspec.Raw] = {}
    for name, value in fields.items():
        if isinstance(value, msgspec.Raw):
            raw[name] = value
        elif name == "payload":
            raw[name] = _encode_payload(value)
        elif value is None or isinstance(value, (str, int)):
            raw[name] = msgspec.Raw(msgspec.json.encode(value))
        else:
            raise InvalidInput(
                f"{name} is a {type(value).__name__}",
                pointer=pointer_token(name),
                hint="Give a text or a whole number; only payload may be any value.",
            )
    return raw


def job_in(fields: Mapping[str, object]) -> JobIn:
    """Take the fields of a Python caller.

    `payload` is any value that JSON can hold.  Structs, dataclasses, dates and the like are written
    as msgspec writes them, so that a handler annotated with their type reads them again.

    Raises
    ------
    InvalidInput
        A field that is unknown, missing or of another type.
    """
    values = dict(fields)
    if "payload" in values:
        values["payload"] = _encode_payload(values["payload"])
    try:
        return msgspec.convert(values, JobIn)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from None


def job_from(fields: JobIn, now_us: int, limits: Limits = DEFAULT_LIMITS) -> NewJob:
    """Check a registration against every rule and find its first occurrence.

    The first occurrence of a repeating schedule is strictly later than `now_us`.  A one-off's is
    its own instant even if that is past: under RUN_ONCE it then runs at once.

    Raises
    ------
    InvalidInput
        `pointer` names the field.
    """
    check_json(bytes(fields.payload), depth_max=limits.depth_max - 1, pointer="/payload")
    return _assemble(fields, now_us, limits)


def placed(new: NewJob, job_id: int) -> NewJob:
    """Return a registration under its job id: an `H` in its schedule says only now what it means.

    A store calls it when it has drawn the id.
    """
    definition = new.definition
    if not is_spread(definition.schedule):
        return new
    schedule = parse_schedule(
        definition.schedule,
        definition.timezone,
        anchor_us=new.anchor_us,
        job_id=job_id,
        dst_gap=definition.dst_gap,
        dst_overlap=definition.dst_overlap,
    )
    return msgspec.structs.replace(new, first_us=_first_us(schedule, new.anchor_us))


def _assemble(fields: JobIn, now_us: int, limits: Limits) -> NewJob:
    """Check everything but the payload's JSON, which both callers have checked."""
    _check_text("name", fields.name)
    task = fields.name if fields.task is None else fields.task
    _check_text("task", task)
    _check_queue(fields.queue)
    _check_numbers(fields)
    payload = _checked_payload(fields.payload, limits)
    schedule = _parsed(
        fields.schedule, fields.timezone, fields.dst_gap, fields.dst_overlap
    ).anchored(now_us)
    _check_past(schedule, fields.missed_window, now_us)
    if fields.idempotency_key_template is not None:
        require_fit(compile_template(fields.idempotency_key_template), fields.name)
    definition = Definition(
        name=fields.name,
        task=task,
        queue=fields.queue,
        schedule=fields.schedule,
        timezone=fields.timezone,
        payload=payload,
        idempotency_key_template=fields.idempotency_key_template,
        max_retries=fields.max_retries,
        retry_backoff=fields.retry_backoff,
        retry_base_seconds=fields.retry_base_seconds,
        retry_cap_seconds=fields.retry_cap_seconds,
        timeout_seconds=fields.timeout_seconds,
        missed_window=fields.missed_window,
        max_missed=fields.max_missed,
        misfire_grace_seconds=fields.misfire_grace_seconds,
        dst_gap=fields.dst_gap,
        dst_overlap=fields.dst_overlap,
    )
    return NewJob(
        definition=definition,
        first_us=_first_us(schedule, now_us),
        anchor_us=now_us,
        is_once=schedule.kind is ScheduleKind.ONCE,
    )


@functools.lru_cache(maxsize=_SCHEDULES_KEPT_MAX)
def _parsed(text: str, zone_name: str, dst_gap: DstGap, dst_overlap: DstOverlap) -> Schedule:
    return parse_schedule(text, zone_name, anchor_us=0, dst_gap=dst_gap, dst_overlap=dst_overlap)


def _first_us(schedule: Schedule, now_us: int) -> int:
    if schedule.kind is ScheduleKind.ONCE:
        return schedule.at_us
    first_us = next_occurrence_us(schedule, now_us)
    if first_us is None:
        raise InvalidSchedule(
            f"schedule {schedule.text!a} has no occurrence from now on",
            pointer="/schedule",
            hint="Occurrences end with the year 9999.",
        )
    return first_us


def _check_text(field: str, text: str) -> None:
    """Check a name or a task: short enough, visible, and storable as it is."""
    pointer = f"/{field}"
    if len(text) > NAME_LENGTH_MAX:
        raise InvalidInput(
            f"{field} has {len(text)} characters",
            pointer=pointer,
            hint=f"Write at most {NAME_LENGTH_MAX} characters.",
        )
    if not text.strip():
        what = "holds only blanks" if text else "is empty"
        raise InvalidInput(
            f"{field} {what}",
            pointer=pointer,
            hint=f"Write 1 to {NAME_LENGTH_MAX} characters, one of them visible.",
        )
    for column, character in enumerate(text, 1):
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            raise InvalidInput(
                f"{field} has the control character U+{ord(character):04X} at column {column}",
                pointer=pointer,
                hint="Write it on one line, without control characters.",
            )


def _check_queue(queue: str) -> None:
    if len(queue) > QUEUE_LENGTH_MAX or not _QUEUE.fullmatch(queue):
        shown = ascii(queue if len(queue) <= 40 else queue[:37] + "...")
        raise InvalidInput(
            f"queue {shown} is not a queue name",
            pointer="/queue",
            hint=f"Use 1 to {QUEUE_LENGTH_MAX} letters, digits, dots, hyphens and underscores.",
        )


def _check_numbers(fields: JobIn) -> None:
    for field, (low, high) in RANGES.items():
        number: int = getattr(fields, field)
        if not low <= number <= high:
            raise InvalidInput(
                f"{field} is {number}, not in {low}..{high}",
                pointer=f"/{field}",
                hint=f"Write a whole number from {low} to {high}.",
            )
    if fields.retry_cap_seconds < fields.retry_base_seconds:
        raise InvalidInput(
            f"retry_cap_seconds is {fields.retry_cap_seconds}, "
            f"less than retry_base_seconds, {fields.retry_base_seconds}",
            pointer="/retry_cap_seconds",
            hint="Raise retry_cap_seconds, or lower retry_base_seconds.",
        )


def _check_past(schedule: Schedule, policy: MissedWindow, now_us: int) -> None:
    """Refuse what could only be skipped; under the other policies it runs at once."""
    is_once = schedule.kind is ScheduleKind.ONCE
    if is_once and schedule.at_us < now_us and policy is MissedWindow.SKIP:
        raise InvalidSchedule(
            f"{schedule.text!a} is past, and missed_window SKIP would never run it",
            pointer="/schedule",
            hint="Give an instant to come, or missed_window RUN_ONCE to run it at once.",
        )


def _checked_payload(raw: msgspec.Raw, limits: Limits) -> str:
    payload = compact(bytes(raw))
    length_bytes = len(payload.encode("utf-8"))
    if length_bytes > limits.payload_bytes_max:
        raise InvalidInput(
            f"payload has {length_bytes} bytes",
            pointer="/payload",
            hint=f"Send at most {limits.payload_bytes_max} bytes of JSON; "
            "store larger things elsewhere and send their address.",
        )
    return payload


def _encode_payload(value: object) -> msgspec.Raw:
    # The standard library, not msgspec: that one writes NaN as null, which would go unnoticed.
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain_of_typed)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"payload is not JSON: {error}",
            pointer="/payload",
            hint="Use dictionaries with string keys, lists, strings, numbers, booleans and None.",
        ) from None
    # A lone surrogate becomes its escape, which check_json then refuses by its place.
    return msgspec.Raw(text.encode("utf-8", "backslashreplace"))


_WRITTEN_BY_MSGSPEC: Final = (
    msgspec.Struct,
    dt.date,  # a datetime is one
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


def _plain_of_typed(value: object) -> object:
    """Turn a value with a type of its own into what JSON has; TypeError for any other."""
    is_known = isinstance(value, _WRITTEN_BY_MSGSPEC) or dataclasses.is_dataclass(value)
    if not is_known or isinstance(value, type):
        raise TypeError(f"a {type(value).__name__} is not JSON")
    return msgspec.to_builtins(value)


def _refused(text: str) -> InvalidInput:
    """Pass msgspec's own text on, with its path as a pointer and a hint."""
    hint = "The fields and their types stand in docs/jobs.md."
    if found := _FIELD_OF_OBJECT.search(text):
        pointer = pointer_token(found[2])
        near = difflib.get_close_matches(found[2][:40], FIELDS, n=1)
        if found[1] == "required":
            hint = f"{found[2]} has no default, send it."
        elif near:
            hint = f"Did you mean {near[0]}?"
        else:
            hint = f"Fields are {', '.join(FIELDS)}."
    elif path := _PATH.search(text):
        pointer = pointer_token(path[1])
        if path[1] in _CHOICES:
            hint = f"Use one of {', '.join(_CHOICES[path[1]])}."
    else:
        pointer = ""
    if len(text) > _TEXT_LENGTH_MAX:
        text = text[:_TEXT_LENGTH_MAX] + "..."
    return InvalidInput(text, pointer=pointer[:_TEXT_LENGTH_MAX], hint=hint)
