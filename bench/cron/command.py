"""`python -m bench cron`: measures in interleaved rounds, compares, prints, keeps a run folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec

from bench.cron.measure import Asked, Times, differing, measure, medians, one_by_one_ns, prepare
from bench.cron.rows import ROWS
from bench.hot_second.machine import describe_machine
from mainspring.cli.output import json_option, print_columns, print_json

SEED = 20_261_201
PACKAGES = ("croniter", "cronsim", "cython", "numpy", "tzdata")
GOAL_TO_CRONITER = 50
GOAL_NEXT_NS = 1_000
GOAL_MEMO_NS = 100


@click.command(name="cron")
@click.option(
    "--instants",
    type=click.IntRange(100, 10_000_000),
    default=10_000,
    show_default=True,
    help="Distinct instants in a batch; croniter and cronsim are asked a part of them.",
)
@click.option("--rounds", type=click.IntRange(1, 999), default=7, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Run folder: result.json, command.txt.",
)
@json_option
def cron(instants: int, rounds: int, out: Path | None, as_json: bool) -> None:
    """Next occurrences by kernel, memo, croniter and cronsim, ordinary, rare and around changes.

    Figures are nanoseconds of processor time for one next occurrence, medians over the rounds; in
    a round all are asked one after the other, row by row.

    \b
    python -m bench cron
    python -m bench cron --rounds 21 --out bench/runs/NAME --json
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    machine = describe_machine(packages=PACKAGES)
    _tell("drawing instants and comparing answers")
    asked = [prepare(row, instants, SEED) for row in ROWS]
    measured: list[list[Times]] = [[] for _ in asked]
    singles: list[tuple[float, float]] = []
    for number in range(1, rounds + 1):
        _tell(f"round {number} of {rounds}")
        for one, times in zip(asked, measured, strict=True):
            times.append(measure(one))
        singles.append(one_by_one_ns(asked[0]))
    machine["load_after"] = round(os.getloadavg()[0], 2)
    result = _result(asked, measured, singles, instants, rounds) | {"machine": machine}
    if out is not None:
        _keep(out, result)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _result(
    asked: list[Asked],
    measured: list[list[Times]],
    singles: list[tuple[float, float]],
    instants: int,
    rounds: int,
) -> dict[str, Any]:
    figures = [medians(times) for times in measured]
    ratios = [times.croniter_ns / times.next_ns for times in figures]
    return {
        "expressions": [
            {"expr": one.row.expr, "tz": one.row.tz}
            | {name: round(value, 1) for name, value in times._asdict().items()}
            for one, times in zip(asked, figures, strict=True)
        ],
        "rivals": [
            {
                "expr": one.row.expr,
                "tz": one.row.tz,
                "kind": one.row.kind,
                "instants": len(one.rival_after),
                "croniter_differs": differing(one, one.croniter),
                "cronsim_differs": differing(one, one.cronsim),
                "memo_hit_share": round(one.hit_share, 3),
                "to_croniter": round(ratio, 1),
            }
            for one, ratio in zip(asked, ratios, strict=True)
        ],
        "instants": instants,
        "rounds": rounds,
        "to_croniter_min": round(min(ratios), 1),
        "next_ns_max": round(max(times.next_ns for times in figures), 1),
        "next_memo_ns_max": round(max(times.next_memo_ns for times in figures), 1),
        "one_by_one_ns": round(median(single[0] for single in singles), 1),
        "one_by_one_memo_ns": round(median(single[1] for single in singles), 1),
    }


def _keep(out: Path, result: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    body = msgspec.json.format(msgspec.json.encode(result), indent=2)
    (out / "result.json").write_bytes(body + b"\n")
    (out / "command.txt").write_text(" ".join(["python -m bench", *sys.argv[1:]]) + "\n")


def _print(result: dict[str, Any]) -> None:
    columns = ("expression", "zone", "kernel ns", "memo ns", "croniter ns", "cronsim ns", "times")
    rows = [
        [
            one["expr"],
            one["tz"],
            *(f"{one[name]:,.0f}" for name in Times._fields),
            f"{rival['to_croniter']:,.0f}",
        ]
        for one, rival in zip(result["expressions"], result["rivals"], strict=True)
    ]
    print_columns(columns, rows)
    click.echo(
        f"at least {result['to_croniter_min']:,.0f} times as fast as croniter "
        f"(goal {GOAL_TO_CRONITER}); at most {result['next_ns_max']:,.0f} ns computed "
        f"(goal {GOAL_NEXT_NS:,}) and {result['next_memo_ns_max']:,.0f} ns remembered "
        f"(goal {GOAL_MEMO_NS})"
    )
    click.echo(
        f"asked one by one: {result['one_by_one_ns']:,.0f} ns computed, "
        f"{result['one_by_one_memo_ns']:,.0f} ns by text from the memo in Python"
    )
    for rival in result["rivals"]:
        click.echo(
            f"{rival['expr']} {rival['tz']}: of {rival['instants']} answers, croniter differs in "
            f"{rival['croniter_differs']} and cronsim in {rival['cronsim_differs']}"
        )
    machine = result["machine"]
    click.echo(
        f"on {machine['cpu']}, {machine['cores']} cores, load {machine['load_before']} to "
        f"{machine['load_after']}, commit {machine['commit']}"
    )


def _tell(what: str) -> None:
    click.echo(what, err=True)
