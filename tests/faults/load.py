"""What a scenario registers: one-offs spread over some seconds, recurring jobs, a few that fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mainspring.instants import US_PER_MIN, US_PER_S, format_instant
from mainspring.model import format_job_id
from mainspring.registration import job_from, job_in
from mainspring.store.postgres import PostgresStore

End = Literal["success", "dead"]
FAR_GRACE_S = 3_600
POLICY = {
    "retry_backoff": "fixed",
    "retry_base_seconds": 0,
    "misfire_grace_seconds": FAR_GRACE_S,  # late is late, not missed
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A job to be registered.

    `period_us` is 0 for a one-off, which is due at `first_us`; an `@every` counts from its anchor,
    and a cron job of every minute has a period of a minute and no anchor.
    """

    fields: dict[str, Any]
    end: End = "success"
    first_us: int = 0
    period_us: int = 0
    anchor_us: int = 0
    delete_ahead_us: int = 0
    """Deleted this long before its time; 0: not deleted."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A job as it was acknowledged."""

    job_id: str
    number: int
    planned: Planned


@dataclass(frozen=True, slots=True)
class Size:
    """How much is registered."""

    quick: int = 2_000
    slow: int = 240
    threaded: int = 60
    flaky: int = 40
    doomed: int = 10
    deleted: int = 150
    every: int = 30
    cron: int = 10
    long: int = 0
    long_hold_s: float = 12.0
    span_s: float = 5.0
    lead_s: float = 1.5
    """From the registration to the first one-off's time."""


def one_off(
    first_us: int, task: str, payload: Any, end: End = "success", ahead_us: int = 0, **more: Any
) -> Planned:
    """Plan a one-off."""
    fields = {
        **POLICY,
        "name": task,
        "payload": payload,
        "schedule": format_instant(first_us),
        **more,
    }
    return Planned(fields, end, first_us, delete_ahead_us=ahead_us)


def spread(count: int, first_us: int, span_us: int) -> list[int]:
    """Return instants evenly over a span."""
    return [first_us + index * span_us // max(1, count) for index in range(count)]


def plan_burst(now_us: int, size: Size) -> list[Planned]:
    """Plan the load of a scenario."""
    first_us = now_us + round(size.lead_s * US_PER_S)
    span_us = round(size.span_s * US_PER_S)
    plan = [one_off(at_us, "work", 0) for at_us in spread(size.quick, first_us, span_us)]
    for index, at_us in enumerate(spread(size.slow, first_us, span_us)):
        plan.append(one_off(at_us, "work", 0.3 + index % 8 / 10))
    for index, at_us in enumerate(spread(size.threaded, first_us, span_us)):
        plan.append(one_off(at_us, "work-thread", 0.2 + index % 4 / 10))
    plan += [
        one_off(at_us, "work", size.long_hold_s) for at_us in spread(size.long, first_us, span_us)
    ]
    plan += [one_off(at_us, "flaky", 1) for at_us in spread(size.flaky, first_us, span_us)]
    for at_us in spread(size.doomed, first_us, span_us):
        plan.append(one_off(at_us, "flaky", 99, "dead", max_retries=2))
    for index, at_us in enumerate(spread(size.deleted, first_us + US_PER_S, span_us)):
        plan.append(one_off(at_us, "work", 0, ahead_us=500_000 + index % 3 * 400_000))
    for index in range(size.every):
        period_s = 1 if index % 4 else 2
        anchor_us = now_us - index * 17_003
        hold_s = 0 if index % 5 else 0.4
        fields = {**POLICY, "name": "work", "payload": hold_s, "schedule": f"@every {period_s}s"}
        plan.append(Planned(fields, period_us=period_s * US_PER_S, anchor_us=anchor_us))
    for _ in range(size.cron):
        fields = {**POLICY, "name": "work", "payload": 0, "schedule": "* * * * *"}
        plan.append(Planned(fields, period_us=US_PER_MIN))
    return plan


def register(store: PostgresStore, plan: list[Planned], now_us: int) -> list[Registered]:
    """Register everything in one acknowledged transaction."""
    jobs = [job_from(job_in(each.fields), each.anchor_us or now_us) for each in plan]
    numbers = store.add_jobs(jobs)
    return [
        Registered(format_job_id(number), number, each)
        for number, each in zip(numbers, plan, strict=True)
    ]
