"""Notes the figures of each scenario: a table at the end of the run, and lines of JSON on request.

Figures travel as a property of the test's report, so they arrive wherever the tests run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from faults.checker import statuses
from faults.facts import Facts, Verdict

FOLDER_VARIABLE = "MAINSPRING_FAULTS_RESULTS"
PROPERTY = "faults"
COLUMNS = (
    ("scenario", 44),
    ("firings", 8),
    ("starts", 7),
    ("dup", 4),
    ("lost", 5),
    ("stale", 6),
    ("late s", 7),
    ("takeover s", 11),
    ("resumed s", 10),
    ("slowness", 9),
    ("", 7),
)

_noted: list[dict[str, Any]] = []


def note(name: str, verdict: Verdict, facts: Facts, more: dict[str, Any]) -> None:
    """Keep the figures of the scenario that runs now."""
    _noted.append(
        {
            "scenario": name,
            "firings": verdict.firings,
            "starts": verdict.starts,
            "duplicates": verdict.duplicates,
            "lost": verdict.lost,
            "stale_reports": verdict.stale_reports,
            "late_s_max": round(verdict.late_s, 3),
            "takeover_s_max": _rounded(verdict.takeover_s),
            "resumed_s": _rounded(verdict.resumed_s),
            "deleted": len(facts.deletions),
            "rows": dict(statuses(facts.tables)),
            "violations": verdict.violations,
            **more,
        }
    )


def take() -> list[dict[str, Any]]:
    """Return what was noted since the last call."""
    noted = list(_noted)
    _noted.clear()
    return noted


def write(results: Iterable[dict[str, Any]]) -> Path | None:
    """Append the results to a file of the folder that the environment names, if it does."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    path = Path(folder) / "faults.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.writelines(msgspec.json.encode(result) + b"\n" for result in results)
    return path


def table(results: Iterable[dict[str, Any]]) -> list[str]:
    """Return the table for people."""
    lines = ["".join(_cell(title, width) for title, width in COLUMNS)]
    for result in sorted(results, key=lambda result: str(result["scenario"])):
        values = (
            result["scenario"],
            result["firings"],
            result["starts"],
            result["duplicates"],
            result["lost"],
            result["stale_reports"],
            f"{result['late_s_max']:.2f}",
            _shown(result["takeover_s_max"]),
            _shown(result["resumed_s"]),
            f"{result['slowness']:.1f}",
            "BROKEN" if result["violations"] else "ok",
        )
        lines.append(
            "".join(
                _cell(str(value), width) for value, (_, width) in zip(values, COLUMNS, strict=True)
            )
        )
    return lines


def _cell(text: str, width: int) -> str:
    return f"{text:<{width}}" if width > 30 else f"{text:>{width}}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
