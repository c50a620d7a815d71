"""What the demo registers, and which firings that must bring about.

The expected occurrences are counted here by plain arithmetic on seconds and minutes, not by the
code under demonstration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainspring.cli.demo.tasks import FLAKY_FAILURES
from mainspring.instants import US_PER_MIN, US_PER_S, format_instant

DOOMED_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job of the demo; `period_us` is 0 for a one-off, and `ends_with` its last run's status."""

    title: str
    body: dict[str, Any]
    period_us: int
    attempts: int
    ends_with: str


def plan_jobs(now_us: int) -> list[PlannedJob]:
    """Return the handful of jobs."""
    soon = format_instant(now_us + 3 * US_PER_S)
    quick = {"retry_backoff": "fixed", "retry_base_seconds": 1}
    return [
        PlannedJob(
            "every second",
            {"name": "every-second", "task": "demo.work", "schedule": "@every 1s"},
            US_PER_S,
            1,
            "success",
        ),
        PlannedJob(
            "every minute",
            {"name": "every-minute", "task": "demo.work", "schedule": "* * * * *"},
            US_PER_MIN,
            1,
            "success",
        ),
        PlannedJob(
            "one-off in 3 s",
            {"name": "one-off", "task": "demo.work", "schedule": soon},
            0,
            1,
            "success",
        ),
        PlannedJob(
            "fails twice, then succeeds",
            {
                "name": "flaky",
                "task": "demo.flaky",
                "schedule": soon,
                "max_retries": FLAKY_FAILURES + 1,
                **quick,
            },
            0,
            FLAKY_FAILURES + 1,
            "success",
        ),
        PlannedJob(
            "ends as a dead letter",
            {
                "name": "doomed",
                "task": "demo.doomed",
                "schedule": soon,
                "max_retries": DOOMED_ATTEMPTS,
                **quick,
            },
            0,
            DOOMED_ATTEMPTS,
            "dead",
        ),
    ]


def burst_body(number: int, at_us: int) -> dict[str, Any]:
    """Return one of the many one-offs of the same second."""
    return {
        "name": f"burst-{number}",
        "task": "demo.work",
        "schedule": format_instant(at_us),
        "payload": {"number": number},
    }


def expected_occurrences(first_us: int, period_us: int, until_us: int) -> list[int]:
    """Return the instants from the first on that are due by `until_us`."""
    if period_us == 0:
        return [first_us] if first_us <= until_us else []
    return list(range(first_us, until_us + 1, period_us))
