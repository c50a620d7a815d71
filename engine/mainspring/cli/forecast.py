"""`mainspring forecast`: what a set of jobs will do over a span, outages included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from mainspring.cli.forecast_shown import (
    Counts,
    Summary,
    as_json_value,
    counts_of,
    print_firings,
    print_summary,
    total_of,
)
from mainspring.cli.output import json_option, print_json
from mainspring.clock import monotonic_us
from mainspring.cron.walk import HORIZON_US
from mainspring.errors import InvalidInput
from mainspring.forecast import JobForecast, Plan, count_due, forecast_job, read_plan
from mainspring.forecast.plan import FILE_BYTES_MAX
from mainspring.instants import US_PER_S, format_instant, parse_instant

LIMIT: Final = 100_000
LIMIT_MAX: Final = 1_000_000
"""About 150 MB of JSON."""

SUMMARY_LIMIT: Final = 50_000_000
"""With `--summary` one job's firings are held at a time: at most 400 MB an array, and a minute."""

PROGRESS_AFTER_US: Final = US_PER_S


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
            counts.append(counts_of(found))
            if not is_summary:
                kept.append(found)
            advance()
    names = [job.name for job in plan.jobs]
    summary = Summary(total_of(counts), dict(zip(names, counts, strict=True)))
    if as_json:
        print_json({"summary": summary} if is_summary else as_json_value(names, kept, summary))
        return
    if not is_summary:
        print_firings(plan, kept)
        click.echo()
    print_summary(summary)


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


@contextmanager
def _progress(count: int) -> Iterator[Callable[[], None]]:
    """Give what is to be called after each job; draws a bar once it has taken a while."""
    begun_us = monotonic_us()
    bar = click.progressbar(length=count, label="forecast", file=sys.stderr)
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty() and monotonic_us() - begun_us > PROGRESS_AFTER_US:
            bar.update(done - bar.pos)

    yield advance
    if bar.pos:
        bar.render_finish()
