"""The benchmark of cron, small; and the table of clock changes, which is what the script makes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bench.cron import dst_table
from bench.cron.measure import differing, prepare
from bench.cron.rows import ROWS, Row
from mainspring.cron import parse_schedule

ROOT = Path(__file__).parent.parent
SCHEDULE = re.compile(r'^schedule: "([^"]+)"(?: +timezone: "([^"]+)")?', re.MULTILINE)
FIRST_COLUMN = re.compile(r"^\| ((?:`[^`]+`(?:, )?)+) \|", re.MULTILINE)


def bench_cron(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "cron", "--instants", "200", "--rounds", "1", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_benchmark_prints_one_value_and_keeps_it(tmp_path: Path) -> None:
    """Every row has its four figures, kernel and memo below croniter; the run folder has them."""
    result: dict[str, Any] = json.loads(bench_cron("--json", "--out", str(tmp_path / "run")))

    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert "--instants 200" in (tmp_path / "run" / "command.txt").read_text()
    assert [(row.expr, row.tz) for row in ROWS] == [
        (one["expr"], one["tz"]) for one in result["expressions"]
    ]
    for one in result["expressions"]:
        assert set(one) == {
            *("expr", "tz", "next_ns", "next_memo_ns", "croniter_ns", "cronsim_ns"),
        }
        assert 0 < one["next_ns"] < one["croniter_ns"]
        assert 0 < one["next_memo_ns"] < one["croniter_ns"]
        assert one["cronsim_ns"] > 0
    assert {"cpu", "cores", "commit", "packages", "load_before"} <= set(result["machine"])


@pytest.mark.slow
def test_the_benchmark_speaks_to_people() -> None:
    """A table, the goals beside what was reached, and how often the others answer otherwise."""
    text = bench_cron()

    assert "expression" in text.splitlines()[0]
    assert "times as fast as croniter (goal 50)" in text
    assert "croniter differs in" in text


def test_an_answer_that_differs_is_counted() -> None:
    """A rival a minute off in all, and one that agrees."""
    asked = prepare(Row("0 9 * * *", "Europe/Berlin", "dst"), 200, seed=1)

    assert 200 == len(set(asked.after_us.tolist()))
    assert 0 == differing(asked, asked.croniter)
    assert len(asked.rival_after) == differing(asked, lambda after: asked.croniter(after) + 60)


def test_the_document_has_the_table_that_the_script_makes() -> None:
    """With the versions that are locked; `python -m bench.cron.dst_table` writes it anew."""
    document = dst_table.DOCUMENT.read_text("utf-8")

    assert document == dst_table.written(document)
    ours = [line.split(" | ")[1] for line in dst_table.table().splitlines()[2:]]
    assert ["03:00 EDT"] * 3 + ["01:30 EDT", "25 times, each hour"] == ours


def test_a_cell_says_what_fired() -> None:
    """Nothing, some times with their offset, or how many and how regularly."""
    morning = datetime(2026, 11, 1, 3, tzinfo=dst_table.ZONE)
    hours = [morning.replace(hour=hour) for hour in range(3, 9)]

    assert "nothing" == dst_table.cell([])
    assert "03:00 EST" == dst_table.cell([morning])
    assert "6 times, each hour" == dst_table.cell(hours)
    assert "5 times" == dst_table.cell(hours[:4] + hours[5:])
    with pytest.raises(ValueError, match="markers"):
        dst_table.written("no table here")


def test_every_schedule_of_the_document_is_read() -> None:
    """Lines `schedule: "..."` and the first columns of tables."""
    text = dst_table.DOCUMENT.read_text("utf-8")
    found = [(schedule, zone or "UTC") for schedule, zone in SCHEDULE.findall(text)]
    for column in FIRST_COLUMN.findall(text):
        found += [(schedule, "UTC") for schedule in re.findall(r"`([^`]+)`", column)]

    assert len(found) > 12
    for schedule, zone in found:
        assert parse_schedule(schedule, zone, anchor_us=0)
