"""`python -m bench hot_second`: measures, judges, prints, and keeps a run folder."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from bench.hot_second.machine import describe_machine
from bench.hot_second.rounds import Round, Sizes, Teller, measure_round, templates
from bench.hot_second.server import Server
from bench.hot_second.timeline import curves_of, plot
from bench.hot_second.verdict import cpu_us_per_job, judge, medians
from mainspring.cli.output import EXIT_FAILED, json_option, print_columns, print_json
from mainspring.clock import monotonic_s
from mainspring.devpg import DevPostgres

KINDS = ("postgres", "scheduler", "worker")


@click.command(name="hot_second")
@click.option("--jobs", type=click.IntRange(100, 5_000_000), default=500_000, show_default=True)
@click.option("--shards", type=click.IntRange(1, 1_024), default=8, show_default=True)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--no-arm", is_flag=True, help="Claim nothing ahead: arm_ahead_seconds is 0.")
@click.option("--rounds", type=click.IntRange(1, 99), default=3, show_default=True)
@click.option(
    "--any-second",
    is_flag=True,
    help="Hourly jobs due at the next second that leaves time, instead of 1,200 cron expressions "
    "at a full minute: for a quick look.",
)
@click.option(
    "--textbook-connections",
    type=click.IntRange(1, 16),
    default=1,
    show_default=True,
    help="From how many connections the textbook loop claims.",
)
@click.option(
    "--drain-seconds", type=float, default=300.0, show_default=True, help="Give up after this long."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Run folder: result.json, command.txt, burst.svg.",
)
@json_option
def hot_second(
    jobs: int,
    shards: int,
    workers: int,
    no_arm: bool,
    rounds: int,
    any_second: bool,
    textbook_connections: int,
    drain_seconds: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """N recurring jobs due at one second, beside the textbook loop and plain SQL.

    Each round measures all four on databases of their own with the same jobs; the figures are
    medians over the rounds.  Exit code 1 if a firing was missed, doubled or early.

    \b
    python -m bench hot_second --jobs 20000 --rounds 1 --any-second
    python -m bench hot_second --jobs 500000 --shards 8 --workers 2 --out bench/runs/NAME --json
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    sizes = Sizes(
        jobs, shards, workers, not no_arm, drain_seconds, any_second, textbook_connections
    )
    with contextlib.ExitStack() as stack:
        tell = stack.enter_context(_telling())
        postgres = stack.enter_context(DevPostgres())
        server = Server(postgres)
        stack.callback(server.close)
        settings = server.settings()
        machine = describe_machine(postgres.version)
        per_job_s = stack.enter_context(templates(server, sizes, tell))
        measured: list[Round] = []
        for number in range(1, rounds + 1):
            tell(f"round {number} of {rounds}")
            measured.append(measure_round(server, sizes, per_job_s, tell))
    result = _result(measured, sizes, machine | {"settings": settings})
    if out is not None:
        _keep(out, result, measured)
    if as_json:
        print_json(result)
    else:
        _print(result)
    if result["missed"] or result["duplicates"] or result["early"]:
        sys.exit(EXIT_FAILED)


def _result(measured: list[Round], sizes: Sizes, machine: dict[str, object]) -> dict[str, Any]:
    figures = [
        one.floors
        | judge(one.witnesses, one.at_us, sizes.jobs)
        | {f"cpu_{k}": v for k, v in cpu_us_per_job(one.witnesses, sizes.jobs).items()}
        for one in measured
    ]
    result: dict[str, Any] = dict(medians(figures))
    # A promise is broken if it was broken in any round.
    for name in ("missed", "duplicates", "early"):
        result[name] = max(one[name] for one in figures)
    result["completed"] = min(int(one["completed"]) for one in figures)
    result["cpu_us_per_job"] = {kind: result.pop(f"cpu_{kind}") for kind in KINDS}
    result["claim_to_textbook"] = result["claim_per_s"] / result["textbook_claim_per_s"]
    result["claim_to_floor"] = result["claim_per_s"] / result["floor_update_per_s"]
    result["life_to_floor"] = result["completed_per_s"] / result["floor_life_per_s"]
    rounded = {name: _rounded(value) for name, value in result.items()}
    return rounded | {
        "jobs": sizes.jobs,
        "shards": sizes.shards,
        "workers": sizes.workers,
        "armed": sizes.is_armed,
        "any_second": sizes.is_any_second,
        "textbook_connections": sizes.textbook_connections,
        "machine": machine,
        "rounds": [{name: _rounded(value) for name, value in one.items()} for one in figures],
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, float):  # NumPy's too
        value = float(value)
        return round(value) if abs(value) >= 1_000 else round(value, 3)
    return value


def _keep(out: Path, result: dict[str, Any], measured: list[Round]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    body = msgspec.json.format(msgspec.json.encode(result), indent=2)
    (out / "result.json").write_bytes(body + b"\n")
    command = " ".join(["python -m bench", *sys.argv[1:]])
    (out / "command.txt").write_text(f"{command}\n")
    ordered = sorted(measured, key=lambda one: one.witnesses.drained_us - one.at_us)
    middle = ordered[len(ordered) // 2]
    plot(
        curves_of(middle.witnesses, middle.at_us),
        f"{result['jobs']:,} recurring jobs due in one second",
        out / "burst.svg",
    )


def _print(result: dict[str, Any]) -> None:
    cpu = result["cpu_us_per_job"]
    rows = [
        ["textbook claim loop", f"{result['textbook_claim_per_s']:,.0f} rows/s"],
        ["one plain UPDATE", f"{result['floor_update_per_s']:,.0f} rows/s"],
        ["a life in plain SQL", f"{result['floor_life_per_s']:,.0f} lives/s"],
        ["claimed, with payload, encoded", f"{result['claim_per_s']:,.0f} firings/s"],
        ["  the same within the burst", f"{result['claim_in_burst_per_s']:,.0f} firings/s"],
        ["  to the textbook loop", f"{result['claim_to_textbook']:.1f} x"],
        ["  to the plain UPDATE", f"{result['claim_to_floor']:.2f} x"],
        ["last released after the second", f"{result['last_released_late_s']:.3f} s"],
        [
            "started late, p50 / p99 / max",
            " / ".join(f"{result[f'start_late_{name}_s']:.2f}" for name in ("p50", "p99", "max"))
            + " s",
        ],
        ["drained, all committed", f"{result['drain_s']:.2f} s"],
        ["completed", f"{result['completed']:,} ({result['completed_per_s']:,.0f}/s)"],
        ["  to a life in plain SQL", f"{result['life_to_floor']:.2f} x"],
        [
            "missed / duplicates / early",
            f"{result['missed']} / {result['duplicates']} / {result['early']}",
        ],
        ["processor time a job", ", ".join(f"{kind} {cpu[kind]:.1f} us" for kind in KINDS)],
        ["WAL a job", f"{result['wal_bytes_per_job']:,.0f} bytes"],
    ]
    print_columns(("figure (median of rounds)", "value"), rows)
    machine = result["machine"]
    click.echo(f"on {machine['cpu']}, {machine['cores']} cores, commit {machine['commit']}")
    click.echo(", ".join(f"{name}={value}" for name, value in machine["settings"].items()))


@contextlib.contextmanager
def _telling() -> Iterator[Teller]:
    """Show bars on a terminal, lines otherwise; on stderr, so that stdout is the result's."""
    begun_s = monotonic_s()
    if not sys.stderr.isatty():
        last: list[str] = []

        def say(title: str, _done: int = 0, _total: int | None = None) -> None:
            if last != [title]:
                last[:] = [title]
                click.echo(f"[{monotonic_s() - begun_s:6.1f} s] {title}", err=True)

        yield say
        return
    from rich.console import Console  # noqa: PLC0415  only where a person looks
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    with Progress(
        TextColumn("{task.description:<30}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as progress:
        bars: dict[str, Any] = {}

        def show(title: str, done: int = 0, total: int | None = None) -> None:
            if title not in bars:
                bars[title] = progress.add_task(title, total=total)
            progress.update(bars[title], completed=done)

        yield show
