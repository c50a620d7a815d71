"""The benchmark of the hot second, small; and that its verdict sees what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.hot_second.burst import Witnesses
from bench.hot_second.pairs import pairs_meeting_at
from bench.hot_second.verdict import judge
from mainspring.claim import Codes
from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.instants import US_PER_S, parse_instant
from mainspring.store.postgres.audit import RecordedRuns

ROOT = Path(__file__).parent.parent
AT_US = parse_instant("2026-12-01T12:00:00Z")
JOBS = 6
FIGURES = {
    *("textbook_claim_per_s", "floor_update_per_s", "floor_life_per_s", "claim_per_s"),
    *("last_released_late_s", "start_late_p50_s", "start_late_p99_s", "start_late_max_s"),
    *("drain_s", "completed", "completed_per_s", "missed", "duplicates", "cpu_us_per_job"),
    *("wal_bytes_per_job", "jobs", "machine"),
}


@pytest.mark.slow
def test_it_measures_a_small_burst_and_keeps_the_run(tmp_path: Path) -> None:
    """Every figure is there, nothing was missed or doubled, and the folder holds the run."""
    options = ["--jobs", "1000", "--rounds", "1", "--any-second", "--shards", "2"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "hot_second", "--json"),
            *options,
            *("--out", str(tmp_path / "run")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result.keys() >= FIGURES
    assert (1_000, 1_000, 0, 0, 0) == tuple(
        result[name] for name in ("completed", "rescheduled", "missed", "duplicates", "early")
    )
    assert result["claim_per_s"] > 0
    assert result["last_released_late_s"] > 0
    assert {"postgres", "scheduler", "worker"} == result["cpu_us_per_job"].keys()
    assert "on" == result["machine"]["settings"]["synchronous_commit"]
    assert json.loads((tmp_path / "run" / "result.json").read_text())["jobs"] == 1_000
    assert "--jobs 1000" in (tmp_path / "run" / "command.txt").read_text()
    assert "</svg>" in (tmp_path / "run" / "burst.svg").read_text()


def test_bad_sizes_are_refused() -> None:
    """As everywhere: exit code 2, and what is right."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", "hot_second", "--jobs", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "--jobs" in done.stderr


def test_a_thousand_pairs_of_many_shapes_meet_in_one_second() -> None:
    """Each is due next just then, and not again within the hour."""
    pairs = pairs_meeting_at(AT_US, AT_US - 60 * US_PER_S, 1_200)

    assert 1_200 == len(set(pairs))
    assert len({zone for _, zone in pairs}) > 100
    for expression, zone in pairs[::50]:
        schedule = parse_schedule(expression, zone, anchor_us=AT_US)
        assert AT_US == next_occurrence_us(schedule, AT_US - 60 * US_PER_S)
        following_us = next_occurrence_us(schedule, AT_US)
        assert following_us is not None
        assert following_us >= AT_US + 1_800 * US_PER_S


def witnesses(**changes: Any) -> Witnesses:
    """Return what is said of six jobs that each ran once, unless changed."""
    jobs = np.arange(1, JOBS + 1)
    logs = np.column_stack(
        [jobs, np.full(JOBS, AT_US), np.ones(JOBS), np.ones(JOBS), AT_US + 1_000 * jobs]
    ).astype(np.int64)
    columns: dict[str, Any] = {
        "logs": logs,
        "job_id": jobs,
        "scheduled_us": np.full(JOBS, AT_US),
        "status": ["success"] * JOBS,
        "started_us": AT_US + 900 * jobs,
    } | changes
    count = len(columns["job_id"])
    values = tuple(sorted(set(columns["status"])))
    codes = np.array([values.index(one) for one in columns["status"]], np.int32)
    runs = RecordedRuns(
        firing_id=columns["job_id"],
        job_id=columns["job_id"],
        scheduled_us=columns["scheduled_us"],
        started_us=columns["started_us"],
        finished_us=columns["started_us"] + 50,
        attempt=np.ones(count, np.int32),
        missed_count=np.zeros(count, np.int32),
        catch_up=np.zeros(count, np.uint8),
        status=Codes(codes, values),
    )
    record = {
        "claims": np.array([[AT_US - 2_000_000, 4], [AT_US - 1_500_000, 2]]),
        "prepared": np.array([[AT_US - 1_600_000, 4], [AT_US - 1_000_000, 2]]),
        "released": np.array([[AT_US + 10_000, 6]]),
    }
    return Witnesses(record, columns["logs"], runs, JOBS, AT_US + 2 * US_PER_S, {}, 600)


def test_a_good_burst_is_judged_good() -> None:
    """And its figures are the plain arithmetic of what the witnesses say."""
    figures = judge(witnesses(), AT_US, JOBS)

    assert (0, 0, 0, 6) == tuple(
        figures[name] for name in ("missed", "duplicates", "early", "completed")
    )
    assert figures["claim_in_burst_per_s"] == pytest.approx(6.0)
    assert figures["last_released_late_s"] == pytest.approx(0.01)
    assert figures["start_late_max_s"] == pytest.approx(0.006)
    assert figures["completed_per_s"] == pytest.approx(3.0)
    assert figures["wal_bytes_per_job"] == pytest.approx(100.0)


def test_each_defect_is_seen_by_its_own_witness() -> None:
    """A run that one of the two does not know, knows twice, or knows too early."""
    good = witnesses()
    jobs = np.arange(1, JOBS + 1)
    early = good.logs.copy()
    early[2, 4] = AT_US - 1
    for name, changed, wanted in (
        ("missed_by_logs", {"logs": good.logs[:-1]}, 1),
        ("duplicates_by_logs", {"logs": np.vstack([good.logs, good.logs[:2]])}, 2),
        ("early", {"logs": early}, 1),
        ("early", {"started_us": AT_US + 900 * jobs - 1_000}, 1),
        ("missed_by_tables", {"status": ["success"] * 5 + ["failed"]}, 1),
        ("duplicates_by_tables", {"status": ["success"] * 5 + ["lost"]}, 1),
        ("duplicates_by_tables", {"job_id": np.array([1, 2, 3, 4, 5, 5])}, 1),
        ("missed_by_tables", {"scheduled_us": np.full(JOBS, AT_US + 1)}, 6),
    ):
        figures = judge(witnesses(**changed), AT_US, JOBS)
        assert wanted == figures[name], name
        assert figures["missed"] or figures["duplicates"] or figures["early"], name
