"""`mainspring forecast`: what a set of jobs will do over a span, outages included."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import click
import msgspec
import numpy as np

from mainspring.cli.output import json_option, print_columns, print_json
from mainspring.cron import Schedule
from mainspring.cron.preview import offset_text
from mainspring.cron.walk import HORIZON_US
from mainspring.errors import InvalidInput
from mainspring.forecast import JobForecast, Plan, count_due, forecast_job, read_plan
from mainspring.forecast.plan import FILE_BYTES_MAX
from mainspring.instants import US_PER_S, format_instant, parse_instant, to_datetime

LIMIT: Final = 100_000
LIMIT_MAX: Final = 1_000_000
"""About 150 MB of JSON."""

SUMMARY_LIMIT: Final = 50_000_000
"""With `--summary` one job's firings are held at a time: at most 400 MB an array, and a minute."""

PROGRESS_AFTER_S: Final = 1.0
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


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from", "from_", required=True, help="Instant at which the span begins.")
@click.option("--to", required=True, help="Instant at which it ends, exclusive.")
@click.option("--summary", "is_summary", is_flag=True, help="Only how many, for each job.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=LIMIT,
    show_default=True,
    help="How many firings may be printed; more are refused.",
)
@json_option
def forecast(file: Path, from_: str, to: str, is_summary: bool, limit: int, as_json: bool) -> None:
    """Show every firing of the jobs in FILE between two instants.

    FILE is TOML: [[jobs]] with the fields of a registration, and runs_take, how long their runs
    take; [[outages]] with from and to.  Needs no database.  See docs/forecast.md.

    \b
    mainspring forecast night.toml --from 2026-06-01T18:00:00Z --to 2026-06-02T06:00:00Z
    mainspring forecast jobs.toml --from 2026-01-01T00:00:00Z --to 2027-01-01T00:00:00Z --summary
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    from_us, to_us = _span(from_, to)
    try:
        plan = read_plan(_read(file), from_us=from_us)
        _check_count(plan, from_us, to_us, limit, is_summary=is_summary)
    except InvalidInput as error:
        error.detail = error.detail or f"in {file}"
        raise
    kept: list[JobForecast] = []
    counts: list[Counts] = []
    with _progress(len(plan.jobs)) as advance:
        for job in plan.jobs:
            found = forecast_job(job, plan.outages, from_us, to_us)
            counts.append(_counts(found))
            if not is_summary:
                kept.append(found)
            advance()
    names = [job.name for job in plan.jobs]
    summary = Summary(_total(counts), dict(zip(names, counts, strict=True)))
    if as_json:
        print_json({"summary": summary} if is_summary else _as_json(names, kept, summary))
        return
    if not is_summary:
        _print_firings(plan, kept)
        click.echo()
    _print_summary(summary)


def _span(from_: str, to: str) -> tuple[int, int]:
    from_us, to_us = parse_instant(from_), parse_instant(to)
    if to_us <= from_us:
        raise InvalidInput("the span ends before it begins", hint="Give a --to after --from.")
    if to_us > HORIZON_US:
        raise InvalidInput(
            f"the span ends at {to}, after the last occurrence of any schedule",
            hint=f"Give a --to up to {format_instant(HORIZON_US)}.",
        )
    return from_us, to_us


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInput(
            f"the file cannot be read: {error.strerror}", hint="Name a file that you may read."
        ) from error


def _check_count(plan: Plan, from_us: int, to_us: int, limit: int, *, is_summary: bool) -> None:
    count = sum(count_due(job, plan.outages, from_us, to_us) for job in plan.jobs)
    if count > (SUMMARY_LIMIT if is_summary else limit):
        hint = "Take a shorter span, or fewer jobs"
        if not is_summary:
            hint = f"Take a shorter span, --summary, or a --limit up to {LIMIT_MAX:,}"
        raise InvalidInput(f"there are {count:,} occurrences in the span", hint=f"{hint}.")


def _counts(found: JobForecast) -> Counts:
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


def _total(counts: Sequence[Counts]) -> Counts:
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


def _as_json(
    names: Sequence[str], kept: Sequence[JobForecast], summary: Summary
) -> dict[str, object]:
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


def _print_firings(plan: Plan, kept: Sequence[JobForecast]) -> None:
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


def _print_summary(summary: Summary) -> None:
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


@contextmanager
def _progress(count: int) -> Iterator[Callable[[], None]]:
    """Give what is to be called after each job; draws a bar once it has taken a while."""
    begun_s = time.monotonic()
    bar = click.progressbar(length=count, label="forecast", file=sys.stderr)
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty() and time.monotonic() - begun_s > PROGRESS_AFTER_S:
            bar.update(done - bar.pos)

    yield advance
    if bar.pos:
        bar.render_finish()
