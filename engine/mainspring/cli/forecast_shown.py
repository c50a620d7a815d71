"""How a forecast is shown: as JSON, as lines for people, and how much each job does in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import msgspec
import numpy as np

from mainspring.cli.output import print_columns
from mainspring.cron import Schedule
from mainspring.cron.preview import offset_text
from mainspring.forecast import JobForecast, Plan
from mainspring.instants import US_PER_S, format_instant, to_datetime

_UNITS_S: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


class FiringOut(msgspec.Struct, frozen=True):
    """A firing as it is printed."""

    job: str
    scheduled_at: str
    starts_at: str
    late_seconds: float
    catch_up: bool


class MissedOut(msgspec.Struct, frozen=True):
    """Occurrences that nothing runs: recorded at `judged_at`, `count` of them."""

    job: str
    judged_at: str
    count: int
    first_at: str
    last_at: str


class Counts(msgspec.Struct, frozen=True):
    """What a job does in all; `firings` are those on time, late and catch-up together."""

    firings: int = 0
    on_time: int = 0
    late: int = 0
    catch_up: int = 0
    missed: int = 0
    waiting: int = 0
    late_seconds_max: float = 0


class Summary(msgspec.Struct, frozen=True):
    """Counts of all jobs together, and of each by its name."""

    total: Counts
    jobs: dict[str, Counts]


def counts_of(found: JobForecast) -> Counts:
    """Count what one job does."""
    late_us = found.late_us
    catch_up = int(found.is_catch_up.sum())
    late = int(np.count_nonzero(late_us)) - catch_up
    return Counts(
        firings=len(late_us),
        on_time=len(late_us) - late - catch_up,
        late=late,
        catch_up=catch_up,
        missed=sum(missed.count for missed in found.missed),
        waiting=found.waiting_count,
        late_seconds_max=_seconds(int(late_us.max(initial=0))),
    )


def total_of(counts: Sequence[Counts]) -> Counts:
    """Add up what all jobs do; there is at least one."""
    return Counts(
        firings=sum(each.firings for each in counts),
        on_time=sum(each.on_time for each in counts),
        late=sum(each.late for each in counts),
        catch_up=sum(each.catch_up for each in counts),
        missed=sum(each.missed for each in counts),
        waiting=sum(each.waiting for each in counts),
        late_seconds_max=max(each.late_seconds_max for each in counts),
    )


def _in_order(kept: Sequence[JobForecast]) -> Iterator[tuple[int, int]]:
    """Yield (job, firing) of all firings as they start; together, as they were due, then by job."""
    jobs = np.repeat(np.arange(len(kept)), [len(each.starts_us) for each in kept])
    firings = np.concatenate([np.arange(len(each.starts_us)) for each in kept])
    scheduled_us = np.concatenate([each.scheduled_us for each in kept])
    starts_us = np.concatenate([each.starts_us for each in kept])
    order = np.lexsort((jobs, scheduled_us, starts_us))
    yield from zip(jobs[order].tolist(), firings[order].tolist(), strict=True)


def as_json_value(
    names: Sequence[str], kept: Sequence[JobForecast], summary: Summary
) -> dict[str, object]:
    """Return what `--json` prints, firings as they start."""
    firings = []
    for job, firing in _in_order(kept):
        found = kept[job]
        scheduled_us, starts_us = int(found.scheduled_us[firing]), int(found.starts_us[firing])
        firings.append(
            FiringOut(
                names[job],
                format_instant(scheduled_us),
                format_instant(starts_us),
                _seconds(starts_us - scheduled_us),
                bool(found.is_catch_up[firing]),
            )
        )
    spans = sorted((span, job) for job, found in enumerate(kept) for span in found.missed)
    missed = [
        MissedOut(
            names[job],
            format_instant(span.judged_us),
            span.count,
            format_instant(span.first_us),
            format_instant(span.last_us),
        )
        for span, job in spans
    ]
    return {"firings": firings, "missed": missed, "summary": summary}


def print_firings(plan: Plan, kept: Sequence[JobForecast]) -> None:
    """Print one line a firing or miss, in order; at one instant the misses first."""
    lines: list[tuple[int, int, str]] = []
    for job, found in enumerate(kept):
        schedule = plan.jobs[job].schedule
        for span in found.missed:
            first, last = _local(schedule, span.first_us), _local(schedule, span.last_us)
            to = f" to {last}" if span.count > 1 else ""
            lines.append((span.judged_us, job, f"missed x{span.count}: {first}{to}"))
    for job, firing in _in_order(kept):
        found, schedule = kept[job], plan.jobs[job].schedule
        scheduled_us, starts_us = int(found.scheduled_us[firing]), int(found.starts_us[firing])
        what = "on time"
        if found.is_catch_up[firing]:
            what = f"catch-up of {_local(schedule, scheduled_us)}"
        elif starts_us > scheduled_us:
            what = f"late by {_spelt(starts_us - scheduled_us)}"
        lines.append((starts_us, job, what))
    lines.sort(key=lambda line: line[0])
    rows = []
    for instant_us, job, what in lines:
        schedule = plan.jobs[job].schedule
        local = f"{_local(schedule, instant_us)} {offset_text(schedule, instant_us)}"
        rows.append((local, format_instant(instant_us), plan.jobs[job].name, what))
    print_columns(("local time", "UTC", "job", "what"), rows)


def print_summary(summary: Summary) -> None:
    """Print one line a job, and one for all if there are several."""
    columns = ("job", "firings", "on time", "late", "catch-up", "missed", "waiting", "latest by")
    named = [*summary.jobs.items()]
    if len(named) > 1:
        named.append(("all", summary.total))
    rows = [
        (
            name,
            *(
                f"{count:,}"
                for count in (
                    counts.firings,
                    counts.on_time,
                    counts.late,
                    counts.catch_up,
                    counts.missed,
                    counts.waiting,
                )
            ),
            _spelt(round(counts.late_seconds_max * US_PER_S)) if counts.late_seconds_max else "-",
        )
        for name, counts in named
    ]
    print_columns(columns, rows)


def _local(schedule: Schedule, instant_us: int) -> str:
    """Write what the wall clock of a job's zone reads."""
    wall_us = instant_us + schedule.zone.segment_at(instant_us).offset_us
    return (to_datetime(0) + timedelta(microseconds=wall_us)).strftime("%Y-%m-%d %H:%M:%S")


def _spelt(duration_us: int) -> str:
    """Write a duration by its largest unit and the one below it, as `8h17m`."""
    rest_s = duration_us // US_PER_S
    if not rest_s:
        return f"{duration_us / US_PER_S:.3g}s"
    counts = []
    for unit_s, unit in _UNITS_S:
        count, rest_s = divmod(rest_s, unit_s)
        counts.append((count, unit))
    first = next(place for place, (count, _) in enumerate(counts) if count)
    return "".join(f"{count}{unit}" for count, unit in counts[first : first + 2] if count)


def _seconds(duration_us: int) -> float:
    """Give seconds, whole ones as an integer."""
    whole, rest = divmod(duration_us, US_PER_S)
    return duration_us / US_PER_S if rest else whole
