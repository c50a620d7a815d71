"""The table of schedules with the instants they must yield, many from reports of public bugs.

A case has `schedule`, `zone` and what is right: `expected` (from `after`, exclusive; null where
nothing follows) or `refused`.  Further keys: `fact` says it in words, `report` where it was met,
`env` what the host's environment says meanwhile, `max_ms` how long a refusal may take, and
`or_refused` or `or_expected` what would be right, too.  `D-Cnn` in an id numbers the reports.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.errors import InvalidSchedule
from mainspring.instants import format_instant, parse_instant

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "cron_cases.json").read_text("utf-8")
)
KEYS = {"id", "schedule", "zone", "after", "expected", "refused", "fact", "report", "env"} | {
    "max_ms", "or_refused", "or_expected",
}  # fmt: skip


def outcome(case: dict[str, Any]) -> list[str | None] | str:
    """What mainspring makes of a case: instants, as many as are expected, or a refusal."""
    try:
        schedule = parse_schedule(case["schedule"], case["zone"], anchor_us=0)
    except InvalidSchedule as error:
        return f"refused at {error.pointer}" if error.hint else "refused without a hint"
    at_us = parse_instant(case.get("after", "2026-01-01T00:00:00Z"))
    found: list[str | None] = []
    for _ in case.get("expected", [None]):
        next_us = next_occurrence_us(schedule, at_us)
        found.append(None if next_us is None else format_instant(next_us))
        at_us = at_us if next_us is None else next_us
    return found


def right_outcomes(case: dict[str, Any]) -> list[list[str | None] | str]:
    """What is right for a case, the best first."""
    right = [case[key] for key in ("expected", "or_expected") if key in case]
    if case.get("refused") or case.get("or_refused"):
        right.append(f"refused at {'/schedule' if case['zone'] == 'UTC' else '/timezone'}")
    return right


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]).replace(" ", "-"))
def test_schedule_yields_exactly_this_or_is_refused(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `after`, exclusive, in order; and a refusal is quick and has a hint and a pointer."""
    assert set(case) <= KEYS
    with monkeypatch.context() as host:
        for name, value in case.get("env", {}).items():
            host.setenv(name, value)
        time.tzset()
        actual = outcome(case)
        took_s = []
        for _ in range(3):  # the best of three: a collector or a neighbour may be in one
            begun_s = time.thread_time()
            outcome(case)
            took_s.append(time.thread_time() - begun_s)
    time.tzset()

    assert actual in right_outcomes(case)
    assert min(took_s) * 1_000 <= case.get("max_ms", 1_000)


def test_every_report_of_the_list_is_a_case() -> None:
    """D-C01 to D-C18, each once, each with its source and a fact."""
    numbered = [case for case in CASES if case["id"].startswith("D-")]

    assert [f"D-C{number:02}" for number in range(1, 19)] == [
        case["id"].split()[0] for case in numbered
    ]
    assert all(case["fact"] and case["report"] for case in numbered)
