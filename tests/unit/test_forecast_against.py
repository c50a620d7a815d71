"""The forecast against slower ways to the same answer: a walk, single judgements, the engine."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import Context, Worker
from mainspring.cron import (
    Schedule,
    count_occurrences,
    judge_missed,
    next_occurrence_us,
    parse_schedule,
)
from mainspring.errors import InvalidInput
from mainspring.forecast import (
    Outages,
    PlannedJob,
    count_due,
    forecast_job,
    occurrences_between,
    read_plan,
)
from mainspring.instants import US_PER_DAY, US_PER_MIN, US_PER_S, format_instant, parse_instant
from mainspring.model import DstOverlap, MissedWindow
from mainspring.testing import DrivenEngine
from unit.forecast_stage import Found, clock, shown, toml

HOUR = 60 * US_PER_MIN


# Against slower ways ---------------------------------------------------------------------------


def walked(schedule: Schedule, from_us: int, until_us: int) -> list[int]:
    """Return the occurrences one by one."""
    found = []
    next_us = next_occurrence_us(schedule, from_us - 1)
    while next_us is not None and next_us < until_us:
        found.append(next_us)
        next_us = next_occurrence_us(schedule, next_us)
    return found


@settings(deadline=None)
@given(
    text=st.sampled_from(
        ["* * * * *", "*/7 8-9 * * *", "0 0 13 * 5", "30 1,2 * * *", "@every 37s", "2026-10-25"]
    ),
    zone=st.sampled_from(["UTC", "Europe/Dublin", "Australia/Lord_Howe"]),
    from_us=st.integers(
        parse_instant("2026-09-01T00:00:00Z"), parse_instant("2026-11-01T00:00:00Z")
    ),
    length_us=st.one_of(st.integers(0, 2 * HOUR), st.integers(0, 20 * US_PER_DAY)),
)
def test_all_occurrences_of_a_span_are_those_of_a_walk(
    text: str, zone: str, from_us: int, length_us: int
) -> None:
    """However the span is cut into lanes."""
    text = "2026-10-25T01:30:00" if text == "2026-10-25" else text
    schedule = parse_schedule(text, zone, anchor_us=0, dst_overlap=DstOverlap.BOTH)
    found = occurrences_between(schedule, from_us, from_us + length_us)

    # A walk of some hundred steps is long enough: the rest is held by the count.
    until_us = from_us + min(length_us, 5 * HOUR)
    few = [us for us in found.tolist() if us < until_us]
    assert few == walked(schedule, from_us, until_us)
    assert len(found) == count_occurrences(schedule, from_us - 1, from_us + length_us - 1)
    assert (found[1:] > found[:-1]).all()


def stepwise(job: PlannedJob, outages: Outages, from_us: int, to_us: int) -> Found:
    """Forecast by one judgement for each firing, and nothing else."""
    firings: list[str] = []
    missed: list[str] = []
    free_us = job.registered_us
    at_us = next_occurrence_us(job.schedule, max(job.registered_us, outages.begun_us(from_us) - 1))
    while at_us is not None and at_us < to_us:
        now_us = outages.served_us(max(at_us, free_us))
        if now_us >= to_us:
            return Found(firings, missed, len(walked(job.schedule, at_us, to_us)))
        verdict = judge_missed(
            job.schedule,
            job.definition.missed_window,
            at_us,
            now_us,
            job.definition.misfire_grace_seconds * US_PER_S,
            job.definition.max_missed,
        )
        if verdict.dropped_count:
            first_us, last_us = verdict.dropped_first_us, verdict.dropped_last_us
            assert first_us is not None
            assert last_us is not None
            missed.append(
                f"{clock(now_us)}: {verdict.dropped_count}, {clock(first_us)} to {clock(last_us)}"
            )
        run_us = at_us if verdict.is_on_time else verdict.run_scheduled_us
        if run_us is None:
            at_us = verdict.next_us
            continue
        late = f" > {clock(now_us)}" if now_us > run_us else ""
        firings.append(f"{clock(run_us)}{late}{' catch-up' * verdict.is_catch_up}")
        free_us = now_us + job.runs_take_us
        at_us = next_occurrence_us(job.schedule, run_us)
    return Found(firings, missed, 0)


DAY = parse_instant("2026-10-25T00:00:00Z")  # of the change to winter time in Berlin, at 01:00Z
MINUTE = st.integers(-60, 8 * 60)


@settings(deadline=None, max_examples=150)
@given(
    text=st.sampled_from(["*/7 * * * *", "@every 20m", "0,30 2 * * *", "2026-10-25T02:30:00"]),
    policy=st.sampled_from(MissedWindow),
    max_missed=st.sampled_from([1, 2, 5, 100]),
    grace_s=st.sampled_from([0, 60, 1_200]),
    runs_take_us=st.sampled_from([0, US_PER_S, 5 * US_PER_MIN, 7 * US_PER_MIN, HOUR]),
    registered_min=MINUTE,
    spans=st.lists(st.tuples(MINUTE, st.integers(1, 200)), max_size=3),
)
def test_a_forecast_is_what_judging_each_firing_gives(
    text: str,
    policy: MissedWindow,
    max_missed: int,
    grace_s: int,
    runs_take_us: int,
    registered_min: int,
    spans: list[tuple[int, int]],
) -> None:
    """Whole stretches and shortcuts change nothing, and every occurrence is accounted for."""
    data = toml(
        [
            {
                "name": "job",
                "schedule": text,
                "timezone": "Europe/Berlin",
                "missed_window": policy.value,
                "max_missed": max_missed,
                "misfire_grace_seconds": grace_s,
                "registered_at": format_instant(
                    DAY - 70 * US_PER_MIN + registered_min * US_PER_MIN
                ),
            }
        ]
    )
    try:
        (job,) = read_plan(data, from_us=DAY).jobs
    except InvalidInput:  # a one-off in the past under SKIP
        assert policy is MissedWindow.SKIP
        return
    if job.schedule.at_us and job.schedule.at_us <= job.registered_us:
        return  # at once; it has tests of its own
    job = PlannedJob(job.definition, job.schedule, job.registered_us, runs_take_us)
    outages = Outages(
        (DAY + start * US_PER_MIN, DAY + (start + length) * US_PER_MIN) for start, length in spans
    )
    to_us = DAY + 6 * HOUR
    found = shown(forecast_job(job, outages, DAY, to_us))

    assert found == stepwise(job, outages, DAY, to_us)
    dropped = sum(int(re.findall(r": (\d+),", each)[0]) for each in found.missed)
    count = count_due(job, outages, DAY, to_us)
    assert len(found.firings) + dropped + found.waiting == count
    assert len(set(found.firings)) == len(found.firings)
    if runs_take_us == 0:
        # Spans that follow one another share nothing and leave nothing out.
        middle_us = DAY + 3 * HOUR
        first = shown(forecast_job(job, outages, DAY, middle_us))
        second = shown(forecast_job(job, outages, middle_us, to_us))
        assert first.firings + second.firings == found.firings
        assert first.missed + second.missed == found.missed


# Against the engine ----------------------------------------------------------------------------


class EngineCase(NamedTuple):
    """One job, an outage of its own, how long its runs take."""

    schedule: str
    timezone: str
    outage: tuple[str, str] | None
    runs_take_s: int = 0
    fields: dict[str, Any] = {}  # noqa: RUF012


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(MissedWindow))
@pytest.mark.parametrize(
    "case",
    [
        EngineCase("*/20 * * * *", "UTC", ("03:10:00", "05:05:00")),
        EngineCase("*/20 * * * *", "UTC", ("03:10:00", "05:00:30")),
        EngineCase("*/20 * * * *", "UTC", None, 1_250),
        EngineCase("*/20 * * * *", "UTC", ("03:10:00", "05:30:00"), 400),
        EngineCase("30 1,2 * * *", "Europe/Berlin", ("00:20:00", "02:10:00")),
        EngineCase("30 2 * * *", "Europe/Berlin", None, 0, {"dst_overlap": "both"}),
        EngineCase(
            "@every 17m", "UTC", ("02:00:00", "02:40:00"), 60, {"misfire_grace_seconds": 600}
        ),
        EngineCase("H/10 * * * *", "UTC", ("00:05:00", "00:35:00"), 0, {"max_missed": 2}),
        EngineCase("2026-10-25T03:00:00", "Europe/Berlin", None),
        EngineCase("2026-10-25T03:00:00", "UTC", ("01:00:00", "04:00:00")),
    ],
)
def test_a_forecast_is_what_the_engine_does(case: EngineCase, policy: MissedWindow) -> None:
    """The same job in a driven engine, whose clock jumps over the outage: every run, every miss."""
    from_, to = "2026-10-25T00:00:00Z", "2026-10-25T08:00:00Z"
    worker = Worker()

    @worker.task("job")
    async def job(ctx: Context, payload: Any) -> None:
        await asyncio.sleep(case.runs_take_s)

    fields = {
        "name": "job",
        "schedule": case.schedule,
        "timezone": case.timezone,
        "missed_window": policy.value,
        "timeout_seconds": 7_200,
        **case.fields,
    }
    with DrivenEngine(worker, now=from_) as driven:
        job_id = driven.jobs.add(**fields).job_id  # type: ignore[arg-type]
        if case.outage is not None:
            begin_us, end_us = (parse_instant(f"2026-10-25T{at}Z") for at in case.outage)
            driven.advance_to(format_instant(begin_us - 1))
            driven._drive.now_us = end_us
        driven.advance_to(format_instant(parse_instant(to) - 1))
        runs = [*reversed(driven.runs(job_id))]

    outages = []
    if case.outage is not None:
        outages = [tuple(f"2026-10-25T{at}Z" for at in case.outage)]
    table = {**fields, "job_id": job_id}
    if case.runs_take_s:
        table["runs_take"] = f"{case.runs_take_s}s"
    plan = read_plan(toml([table], outages), from_us=parse_instant(from_))  # type: ignore[arg-type]
    found = forecast_job(plan.jobs[0], plan.outages, parse_instant(from_), parse_instant(to))
    ran = [
        (run.scheduled_at, run.started_at, run.catch_up)
        for run in runs
        if run.status in {"success", "running"}
    ]
    missed = sorted(run.missed_count for run in runs if run.status in {"missed", "skipped"})

    assert ran == [
        (format_instant(scheduled_us), format_instant(starts_us), bool(is_catch_up))
        for scheduled_us, starts_us, is_catch_up in zip(
            found.scheduled_us.tolist(), found.starts_us.tolist(), found.is_catch_up, strict=True
        )
    ]
    assert missed == sorted(each.count for each in found.missed)
    assert ran or missed


# Fast ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_year_of_many_jobs_takes_seconds() -> None:
    """100 jobs, hourly, daily and every quarter of an hour: 1.5 million firings, with outages."""
    schedules = itertools.cycle(["17 * * * *", "5 3 * * *", "*/15 * * * *"])
    jobs = [
        {"name": f"job-{i}", "schedule": next(schedules), "timezone": "Europe/Berlin"}
        for i in range(100)
    ]
    outages = [
        (f"2026-{month:02d}-10T02:00:00Z", f"2026-{month:02d}-10T04:00:00Z")
        for month in range(1, 13)
    ]
    from_us, to_us = parse_instant("2026-01-01T00:00:00Z"), parse_instant("2027-01-01T00:00:00Z")
    plan = read_plan(toml(jobs, outages), from_us=from_us)
    begun_s = time.process_time()
    count = sum(len(forecast_job(job, plan.outages, from_us, to_us).starts_us) for job in plan.jobs)

    assert time.process_time() - begun_s < 5  # less than one on a quiet machine
    assert count > 1_400_000
