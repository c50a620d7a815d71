"""The table of docs/jobs.md that says what runs after an outage, against the judgement itself."""

from __future__ import annotations

import re
from pathlib import Path

from mainspring.cron import judge_missed, next_occurrence_us, parse_schedule
from mainspring.instants import US_PER_S, parse_instant
from mainspring.model import MissedWindow

TEXT = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text()
SECTION = TEXT.partition("## What was missed")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| `([A-Z_]+)`(?:, `max_missed` (\d+))? \| (.*) \| (.*)\|$", re.M)
SCHEDULE = parse_schedule("0 * * * *", "UTC", anchor_us=0)
GRACE_US, MAX_MISSED = 60 * US_PER_S, 100


def hour(clock: str) -> int:
    return parse_instant(f"2026-06-08T{clock:0>5}:00Z")


def after_the_outage(policy: MissedWindow, max_missed: int) -> tuple[list[int], list[int], int]:
    """Return what runs as a catch-up, the recorded first and count, and what follows as usual."""
    runs, recorded, scheduled_us, now_us = [], [], hour("2:00"), hour("5:20")
    while scheduled_us <= now_us:
        verdict = judge_missed(SCHEDULE, policy, scheduled_us, now_us, GRACE_US, max_missed)
        if verdict.dropped_first_us is not None:
            recorded += [verdict.dropped_first_us, verdict.dropped_count]
        if verdict.run_scheduled_us is not None:
            assert verdict.is_catch_up
            runs.append(verdict.run_scheduled_us)
        following_us = (
            verdict.next_us if not runs else next_occurrence_us(SCHEDULE, runs[-1])
        )  # fmt: skip
        assert following_us is not None
        scheduled_us = following_us
    return runs, recorded, scheduled_us


def test_the_table_says_what_runs_and_what_is_recorded() -> None:
    """Every policy has a row, for an hourly job that was not served from 1:30 to 5:20."""
    assert "hourly job that was not served from 1:30 to 5:20" in " ".join(SECTION.split())
    rows = ROW.findall(SECTION)
    assert {policy for policy, *_ in rows} == {each.value for each in MissedWindow}
    assert len(rows) == SECTION.count("\n|") - 2
    for policy, most, runs, recorded in rows:
        caught_up, usual = runs.split("; ")
        runs_us, recorded_us, following_us = after_the_outage(
            MissedWindow(policy), int(most or MAX_MISSED)
        )
        assert [hour(clock) for clock in re.findall(r"\d+:\d+", caught_up)] == runs_us
        assert re.findall(r"\d+:\d+", usual) == ["6:00"]
        assert hour("6:00") == following_us
        said = re.fullmatch(r"`missed` at (\d+:\d+), count (\d+) ", recorded)
        assert ([hour(said[1]), int(said[2])] if said else []) == recorded_us
