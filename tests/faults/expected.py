"""Which occurrences had to come, by plain arithmetic on seconds; nothing of mainspring's cron."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from faults.load import End, Registered

Occurrence = tuple[str, int]
"""Job id and nominal instant in microseconds."""

US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class Expectation:
    """How an occurrence has to end; an optional one may also never begin."""

    end: End
    key: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion that was acknowledged; wall-clock microseconds."""

    job_id: str
    asked_us: int
    acked_us: int


def occurrences(job: Registered, registered_us: int, until_us: int) -> list[int]:
    """Return the instants of a job up to and with `until_us`."""
    planned = job.planned
    if planned.period_us == 0:
        return [planned.first_us]
    if planned.anchor_us:
        first_us = planned.anchor_us + planned.period_us
    else:
        first_us = (registered_us // planned.period_us + 1) * planned.period_us
    return list(range(first_us, until_us + 1, planned.period_us))


def expect(
    jobs: Iterable[Registered],
    registered_us: int,
    quiet_us: int,
    deletions: Mapping[str, Deletion],
) -> dict[Occurrence, Expectation]:
    """Return what had to happen.

    Parameters
    ----------
    quiet_us
        Recurring jobs were let run until everything due by then had come.  What they were due for
        later, up to their deletion, may or may not have run.
    """
    expected: dict[Occurrence, Expectation] = {}
    for job in jobs:
        deletion = deletions.get(job.job_id)
        until_us = deletion.acked_us if deletion else quiet_us
        for at_us in occurrences(job, registered_us, until_us):
            is_optional = deletion is not None and (at_us > quiet_us or not job.planned.period_us)
            key = f"{job.job_id}:{at_us // US_PER_S}"
            expected[job.job_id, at_us] = Expectation(job.planned.end, key, is_optional)
    return expected
