"""The table of schedules with the instants they must yield, many from reports of public bugs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.errors import InvalidSchedule
from mainspring.instants import format_instant, parse_instant

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "cron_cases.json").read_text("utf-8")
)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "expected" in case],
    ids=lambda case: str(case["id"]),
)
def test_schedule_yields_exactly_these_instants(case: dict[str, Any]) -> None:
    """From `after`, exclusive, the occurrences are those of the table, in order."""
    schedule = parse_schedule(case["schedule"], case["zone"], anchor_us=0)
    at_us = parse_instant(case["after"])
    actual: list[str | None] = []
    for _ in case["expected"]:
        next_us = next_occurrence_us(schedule, at_us)
        actual.append(None if next_us is None else format_instant(next_us))
        at_us = at_us if next_us is None else next_us

    assert case["expected"] == actual


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.get("refused")],
    ids=lambda case: str(case["id"]),
)
def test_schedule_is_refused(case: dict[str, Any]) -> None:
    """What the table refuses raises InvalidSchedule with a hint and a pointer to its field."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(case["schedule"], case["zone"], anchor_us=0)

    assert caught.value.hint
    assert caught.value.pointer == ("/timezone" if case["zone"] != "UTC" else "/schedule")
