"""What tests of the forecast share: a file from plain values, and a forecast as text."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mainspring.forecast import JobForecast, forecast_job, read_plan
from mainspring.instants import format_instant, parse_instant


def toml(jobs: list[dict[str, Any]], outages: list[tuple[str, str]] = []) -> bytes:  # noqa: B006
    """Write a file; JSON of plain values is TOML, too."""
    lines = []
    for job in jobs:
        lines += ["[[jobs]]", *(f"{key} = {json.dumps(value)}" for key, value in job.items())]
    for from_, to in outages:
        lines += ["[[outages]]", f"from = {from_}", f'to = "{to}"']
    return "\n".join(lines).encode()


class Found(NamedTuple):
    """One job's forecast as text; `firings` as `scheduled_at`, with `> starts_at` if it is late."""

    firings: list[str]
    missed: list[str]
    waiting: int


def shown(found: JobForecast) -> Found:
    firings = []
    for scheduled_us, starts_us, is_catch_up in zip(
        found.scheduled_us.tolist(), found.starts_us.tolist(), found.is_catch_up, strict=True
    ):
        text = clock(scheduled_us)
        if starts_us != scheduled_us:
            text += f" > {clock(starts_us)}"
        firings.append(f"{text} catch-up" if is_catch_up else text)
    missed = [
        f"{clock(each.judged_us)}: {each.count}, {clock(each.first_us)} to {clock(each.last_us)}"
        for each in found.missed
    ]
    return Found(firings, missed, found.waiting_count)


def clock(instant_us: int) -> str:
    """Return day and time of an instant, as `08T07:00`, with seconds where there are any."""
    return format_instant(instant_us)[8:-1].removesuffix(":00")


def forecast(
    schedule: str,
    from_: str,
    to: str,
    outages: list[tuple[str, str]] = [],  # noqa: B006
    **fields: Any,
) -> Found:
    """Forecast one job."""
    data = toml([{"name": "job", "schedule": schedule, **fields}], outages)
    plan = read_plan(data, from_us=parse_instant(from_))
    (job,) = plan.jobs
    return shown(forecast_job(job, plan.outages, parse_instant(from_), parse_instant(to)))
