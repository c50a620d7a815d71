"""How a burst went over time: armed, released, started, completed; and its plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.hot_second.burst import Int64s, Witnesses
from mainspring.instants import US_PER_S

POINTS_MAX = 400


def curves_of(witnesses: Witnesses, at_us: int) -> dict[str, tuple[list[float], list[int]]]:
    """Return (seconds after the due instant, firings so far) of each stage, at most 400 points."""
    record, runs = witnesses.record, witnesses.runs
    logs = witnesses.logs
    stages = {
        "armed": (record["prepared"][:, 0], record["prepared"][:, 1]),
        "released": (record["released"][:, 0], record["released"][:, 1]),
        "started": (logs[:, 4], np.ones(len(logs), np.int64)),
        "completed": (runs.finished_us, np.ones(len(runs.finished_us), np.int64)),
    }
    return {name: _cumulated(times, counts, at_us) for name, (times, counts) in stages.items()}


def _cumulated(times_us: Int64s, counts: Int64s, at_us: int) -> tuple[list[float], list[int]]:
    order = np.argsort(times_us, kind="stable")
    times_s = (times_us[order] - at_us) / US_PER_S
    sums = np.cumsum(counts[order])
    if len(sums) > POINTS_MAX:
        chosen = np.linspace(0, len(sums) - 1, POINTS_MAX).round().astype(int)
        times_s, sums = times_s[chosen], sums[chosen]
    return np.round(times_s, 4).tolist(), sums.tolist()


def plot(curves: dict[str, tuple[list[float], list[int]]], title: str, path: Path) -> None:
    """Draw the curves; the suffix of the path chooses PNG or SVG."""
    # Imported here: only a plot needs it, and it takes a second.
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for name, (times_s, sums) in curves.items():
        axes.step(times_s, sums, where="post", label=name, linewidth=1.8)
    axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
    axes.set_xlabel("seconds after the due instant")
    axes.set_ylabel("firings")
    axes.yaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.set_title(title)
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(path)
