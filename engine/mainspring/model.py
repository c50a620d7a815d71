"""The words of the field as values: jobs, firings, runs, policies and their ids.

Plain values only: no clock, no database, no decision that needs more than the value itself.
Instants are int64 microseconds since the Unix epoch (`*_us`).
"""

from __future__ import annotations

import enum
from typing import NewType

import msgspec

from mainspring.errors import InvalidInput
from mainspring.instants import MINUS_INFINITY_US

JobId = NewType("JobId", int)
FiringId = NewType("FiringId", int)
HolderId = NewType("HolderId", int)
Term = NewType("Term", int)

ID_MAX = 2**63 - 1

# Crockford's base32, lower case: no i, l, o, u, so that an id read aloud stays the same id.
# Source: D. Crockford, "Base 32", 2002.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_TEXT_MAX = 13  # 13 * 5 bits hold any 63-bit id


class JobStatus(enum.StrEnum):
    """State of a definition."""

    ACTIVE = "active"
    PAUSED = "paused"
    DELETED = "deleted"
    """Deleted while a run was going on; the row goes when that run ends."""


class RunStatus(enum.StrEnum):
    """State of a run.  `pending` and `running` are read from firings, the others are stored."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    """This attempt failed and another follows."""
    DEAD = "dead"
    """This attempt failed and none follows: a dead letter stands."""
    LOST = "lost"
    """The worker died, or did not report in time."""
    MISSED = "missed"
    """Occurrences whose time passed unserved; `missed_count` says how many."""
    SKIPPED = "skipped"
    """An occurrence that was due and not begun when its job was paused or changed."""
    CANCELLED = "cancelled"


class Trigger(enum.IntEnum):
    """What brought a firing about."""

    SCHEDULE = 0
    MANUAL = 1
    BACKFILL = 2
    REDRIVE = 3


class DstGap(enum.StrEnum):
    """What becomes of a fixed wall time that a gap of the zone leaves out."""

    NEXT_VALID = "next_valid"
    """It fires at the first valid instant after the gap."""
    SKIP = "skip"
    """It does not fire that day."""


class DstOverlap(enum.StrEnum):
    """Which reading of a fixed wall time that the zone's clock shows twice fires."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class MissedWindow(enum.StrEnum):
    """What becomes of occurrences whose time passed unserved."""

    SKIP = "SKIP"
    RUN_ONCE = "RUN_ONCE"
    RUN_ALL = "RUN_ALL"


class Backoff(enum.StrEnum):
    """How the delay before the next attempt grows."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a user sets on a job.

    `payload` is JSON text, handed to the handler as it was registered.
    """

    name: str
    task: str
    queue: str = "default"
    schedule: str
    timezone: str = "UTC"
    payload: str = "null"
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


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A validated registration: a definition and its first occurrence."""

    definition: Definition
    first_us: int
    anchor_us: int
    is_once: bool


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A registered definition with what the store added to it.

    `next_us` is the nominal time of the cursor's next firing; None while parked.  `timed_us` is
    when its times were set anew, by a changed schedule or a resumption: nothing before it is due.
    """

    job_id: JobId
    shard: int
    rev: int
    status: JobStatus
    definition: Definition
    anchor_us: int
    is_once: bool
    timed_us: int = MINUS_INFINITY_US
    created_us: int
    updated_us: int
    next_us: int | None


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a job becomes, decided from what it was at `rev`.

    `scheduled_us` and `due_us` are for its cursor, if that is not started: None leaves them as they
    are.  An occurrence that was due and gives way to another one is recorded as skipped.
    """

    job_id: JobId
    rev: int
    definition: Definition
    status: JobStatus
    anchor_us: int
    is_once: bool
    timed_us: int
    scheduled_us: int | None = None
    due_us: int | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a firing, or a recorded miss."""

    firing_id: FiringId
    fence: int
    job_id: JobId
    scheduled_us: int
    attempt: int
    status: RunStatus
    trigger: Trigger
    catch_up: bool
    started_us: int | None = None
    finished_us: int | None = None
    worker_id: HolderId | None = None
    missed_count: int = 0
    error: str | None = None
    output: str | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A firing out of attempts, named by its last run."""

    firing_id: FiringId
    fence: int
    job_id: JobId
    scheduled_us: int
    attempt: int
    trigger: Trigger
    catch_up: bool
    died_us: int
    error: str | None


def format_job_id(job_id: int) -> str:
    """Return the external name of a job, `j_` and base32."""
    return "j_" + _encode(job_id)


def parse_job_id(text: str) -> JobId:
    """Read `j_...`; raises `InvalidInput` for anything else."""
    return JobId(_parse("j_", text, "a job id"))


def format_holder_id(holder_id: int) -> str:
    """Return the external name of a holder, `h_` and base32."""
    return "h_" + _encode(holder_id)


def format_run_id(firing_id: int, fence: int) -> str:
    """Return the external name of a run, `r_` and base32 of firing id and fence."""
    return f"r_{_encode(firing_id)}_{_encode(fence)}"


def parse_run_id(text: str) -> tuple[FiringId, int]:
    """Read `r_..._...` into firing id and fence; raises `InvalidInput` for anything else."""
    firing, separator, fence = text[2:].partition("_")
    if not text.startswith("r_") or not separator:
        raise InvalidInput(
            f"{text[:40]!r} is not a run id", hint="Run ids look like r_1k5_3, as in the run list."
        )
    return FiringId(_parse("", firing, "a run id")), _parse("", fence, "a run id")


def _encode(number: int) -> str:
    if not 0 < number <= ID_MAX:
        raise ValueError(f"{number} is not an id, ids are 1 to 2**63-1")
    letters: list[str] = []
    while number:
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(reversed(letters))


def _parse(prefix: str, text: str, kind: str) -> int:
    body = text[len(prefix) :]
    number = 0
    is_well_formed = text.startswith(prefix) and 0 < len(body) <= _TEXT_MAX and body[0] != "0"
    for letter in body if is_well_formed else ():
        value = _VALUES.get(letter)
        if value is None:
            is_well_formed = False
            break
        number = number * 32 + value
    if not is_well_formed or number > ID_MAX:
        raise InvalidInput(
            f"{text[:40]!r} is not {kind}",
            hint=f"Ids are {prefix or 'two'} base32 numbers, as in the answer to the registration.",
        )
    return number


def shard_of(job_id: int, shard_count: int) -> int:
    """Return the shard of a job, 0 to `shard_count - 1`.

    Growing from N to N+1 shards moves 1/(N+1) of the jobs, all of them to the new shard.

    Source: J. Lamping and E. Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014.
    """
    key = job_id & 0xFFFF_FFFF_FFFF_FFFF
    bucket, jump = -1, 0
    while jump < shard_count:
        bucket = jump
        key = (key * 2862933555777941757 + 1) & 0xFFFF_FFFF_FFFF_FFFF
        jump = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket
