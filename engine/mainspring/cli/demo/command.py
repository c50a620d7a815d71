"""The command: sets up, registers, watches, judges, prints."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from mainspring.cli.children import Child
from mainspring.cli.database import DSN_VARIABLE, dsn_option
from mainspring.cli.demo.client import DemoClient
from mainspring.cli.demo.plan import PlannedJob, burst_body, expected_occurrences, plan_jobs
from mainspring.cli.demo.tasks import LOG_VARIABLE
from mainspring.cli.demo.verdict import (
    Counts,
    RowVerdict,
    early_starts,
    judge,
    measure_burst,
    read_logs,
    read_tables,
)
from mainspring.cli.output import EXIT_FAILED, json_option, print_columns, print_json
from mainspring.clock import monotonic_s, sleep_s
from mainspring.devpg import DevPostgres
from mainspring.instants import US_PER_S, format_instant, parse_instant
from mainspring.store.postgres import PostgresStore
from mainspring.store.postgres.audit import Audit, RecordedRuns
from mainspring.store.prepare import prepare_database

WARM_UP_JOBS = 300
MARGIN_S = 4
DRAIN_S_MAX = 90.0
SETTLE_S = 3
WORKERS = 2
FAR_US = 4_102_444_800 * US_PER_S  # 2100-01-01


@click.command()
@click.option(
    "--jobs",
    "burst_count",
    type=click.IntRange(1, 200_000),
    default=20_000,
    show_default=True,
    help="One-offs that are due in the same second.",
)
@dsn_option
@json_option
def demo(dsn: str | None, burst_count: int, as_json: bool) -> None:
    """Show the main job: a scheduler, an API and two workers on a Postgres of their own.

    Ends by itself in a minute or two.  Exit code 0 only if nothing was missed, lost or doubled.
    """
    # SIGTERM ends it as Ctrl-C does, so that nothing is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        say = _sayer(as_json=as_json)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mainspring-demo-")))
        if not dsn:
            say("starting an embedded Postgres")
            postgres = stack.enter_context(DevPostgres())
            dsn = postgres.dsn
        prepare_database(dsn, shards=8)
        say(f"starting scheduler, API and {WORKERS} workers (logs in {folder})")
        url = _start_processes(stack, dsn, folder)
        client = DemoClient(url)
        store = PostgresStore(dsn, application_name="mainspring demo", pool_max=1)
        stack.callback(store.close)
        audit = Audit(dsn)
        stack.callback(audit.close)
        planned = plan_jobs(store.database_us())
        registered = [(job, client.post_job(job.body)) for job in planned]
        say(f"registered {len(planned)} jobs over HTTP at {url}")
        burst_us = _choose_instant(client, store, burst_count)
        bodies = [burst_body(number, burst_us) for number in range(burst_count)]
        with _progress(f"registering {burst_count:,} one-offs", burst_count, as_json) as told:
            burst_ids = client.post_many(bodies, told)
        is_in_time = store.database_us() < burst_us - US_PER_S
        say(f"registered {burst_count:,} one-offs, all due at {format_instant(burst_us)}")
        _watch(store, audit, burst_us, burst_count, as_json)
        # Each repeating job is to have fired at least once.
        firsts_us = [parse_instant(answer["next_run_at"]) for _, answer in registered]
        settled_us = max(firsts_us) + SETTLE_S * US_PER_S
        _wait_until(store, settled_us, "waiting for the next full minute", as_json)
        stop_us = store.database_us()
        for job, answer in registered:
            if job.period_us:
                client.delete_job(answer["job_id"])
        deleted_us = store.database_us()
        _wait_settled(audit)
        runs = audit.runs()
        rows = _judge_all(
            registered,
            burst_ids,
            burst_us,
            (stop_us, deleted_us),
            (read_logs(folder), read_tables(runs)),
        )
        _report(rows, runs, burst_us, is_in_time=is_in_time, as_json=as_json)


def _start_processes(stack: contextlib.ExitStack, dsn: str, folder: Path) -> str:
    environment = {DSN_VARIABLE: dsn, "MAINSPRING_PORT": "0", LOG_VARIABLE: str(folder)}
    commands = {"scheduler": ["mainspring.cli", "scheduler", "--json"], "api": ["mainspring_api"]}
    for number in range(1, WORKERS + 1):
        target = "mainspring.cli.demo.tasks:worker"
        commands[f"worker-{number}"] = ["mainspring.cli", "worker", target, "--json"]
    children = []
    for title, arguments in commands.items():
        child = Child(
            title, arguments, environment=environment, log_path=folder / f"{title}.stderr"
        )
        stack.callback(child.stop)
        children.append(child)
    answers = {child.title: child.wait_ready() for child in children}
    return str(answers["api"]["url"])


def _choose_instant(client: DemoClient, store: PostgresStore, burst_count: int) -> int:
    """Measure how fast this machine registers, and choose a second that leaves time for it."""
    started_s = monotonic_s()
    warm_up = client.post_many(
        [burst_body(number, FAR_US) for number in range(WARM_UP_JOBS)], lambda _done: None
    )
    per_job_s = (monotonic_s() - started_s) / WARM_UP_JOBS
    for job_id in warm_up:
        client.delete_job(job_id)
    span_us = round((burst_count * per_job_s * 1.3 + MARGIN_S) * US_PER_S)
    return (store.database_us() + span_us) // US_PER_S * US_PER_S + US_PER_S


def _watch(
    store: PostgresStore, audit: Audit, burst_us: int, burst_count: int, as_json: bool
) -> None:
    _wait_until(store, burst_us, "waiting for their second", as_json)
    deadline_s = monotonic_s() + DRAIN_S_MAX
    with _progress(f"running {burst_count:,} firings", burst_count, as_json) as told:
        while monotonic_s() < deadline_s:
            runs = audit.runs()
            done = int((runs.scheduled_us == burst_us).sum())
            told(done)
            if done >= burst_count:
                break
            sleep_s(0.25)


def _wait_until(store: PostgresStore, until_us: int, title: str, as_json: bool) -> None:
    begun_us = now_us = store.database_us()
    if now_us >= until_us:
        return
    with _progress(title, -((now_us - until_us) // US_PER_S), as_json) as told:
        while now_us < until_us:
            sleep_s(0.05)
            now_us = store.database_us()
            told((now_us - begun_us) // US_PER_S)


def _wait_settled(audit: Audit) -> None:
    """Wait until nothing is due any more, so that what runs has come to its end."""
    deadline_s = monotonic_s() + DRAIN_S_MAX
    while len(audit.open_firings().firing_id) and monotonic_s() < deadline_s:
        sleep_s(0.1)


def _judge_all(
    registered: list[tuple[PlannedJob, dict[str, str]]],
    burst_ids: list[str],
    burst_us: int,
    stopped_us: tuple[int, int],
    sources: tuple[Counts, Counts],
) -> list[RowVerdict]:
    """Judge each job; `stopped_us` are the instants before and after the repeating ones ended."""
    stop_us, deleted_us = stopped_us
    rows = []
    for job, answer in registered:
        first_us = parse_instant(answer["next_run_at"])
        occurrences = expected_occurrences(first_us, job.period_us, deleted_us)
        rows.append(
            judge(
                job.title,
                {answer["job_id"]: occurrences},
                attempts=job.attempts,
                ends_with=job.ends_with,
                optional_after_us=stop_us - SETTLE_S * US_PER_S // 2,
                sources=sources,
            )
        )
    rows.append(
        judge(
            f"{len(burst_ids):,} in the same second",
            dict.fromkeys(burst_ids, (burst_us,)),
            attempts=1,
            ends_with="success",
            optional_after_us=burst_us,
            sources=sources,
        )
    )
    return rows


def _report(
    rows: list[RowVerdict],
    runs: RecordedRuns,
    burst_us: int,
    *,
    is_in_time: bool,
    as_json: bool,
) -> None:
    figures = measure_burst(runs, burst_us)
    early = early_starts(runs)
    lost = sum(runs.status[i] == "lost" for i in range(len(runs.firing_id)))
    missed_windows = int(runs.missed_count.sum())
    is_kept = all(row.is_kept for row in rows) and not (early or lost or missed_windows)
    if as_json:
        print_json(
            {
                "kept": is_kept,
                "jobs": [asdict(row) | {"kept": row.is_kept} for row in rows],
                "burst": asdict(figures),
                "early": early,
                "lost": lost,
                "missed_windows": missed_windows,
            }
        )
    else:
        _print_rows(rows)
        click.echo(
            f"lateness in the same second: p50 {figures.lateness_p50_s:.3f} s, "
            f"p99 {figures.lateness_p99_s:.3f} s, max {figures.lateness_max_s:.3f} s; "
            f"drained in {figures.drain_s:.2f} s"
        )
        click.echo(f"started early: {early}, lost: {lost}, missed windows: {missed_windows}")
        if not is_in_time:
            click.echo("note: registration took longer than foreseen, lateness includes that")
        click.echo("every promise was kept" if is_kept else "a promise was BROKEN")
    if not is_kept:
        sys.exit(EXIT_FAILED)


def _print_rows(rows: list[RowVerdict]) -> None:
    click.echo()
    print_columns(
        ("what was due", "expected", "in logs", "in tables", "missed", "extra", ""),
        [
            [
                row.title,
                row.expected,
                f"{row.logged:,}",
                f"{row.recorded:,}",
                str(row.missed),
                str(row.extra),
                "ok" if row.is_kept else "BROKEN",
            ]
            for row in rows
        ],
    )
    click.echo()


def _sayer(*, as_json: bool) -> Callable[[str], None]:
    started_s = monotonic_s()

    def say(text: str) -> None:
        click.echo(f"[{monotonic_s() - started_s:5.1f} s] {text}", err=as_json)

    return say


@contextmanager
def _progress(title: str, total: int, as_json: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, a line otherwise."""
    if as_json or not sys.stderr.isatty():
        click.echo(title, err=True)
        yield lambda _done: None
        return
    from rich.console import Console  # noqa: PLC0415  only where a person looks
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as progress:
        bar = progress.add_task(title, total=total)
        yield lambda done: progress.update(bar, completed=done)
        progress.update(bar, completed=total)
