"""From what the witnesses say to figures: pure functions."""

from __future__ import annotations

from statistics import median

import numpy as np

from bench.hot_second.burst import Int64s, Witnesses
from mainspring.instants import US_PER_S

Figures = dict[str, float | int]


def judge(witnesses: Witnesses, at_us: int, jobs: int) -> Figures:
    """Return the figures of one burst.

    `missed` and `duplicates` are the worse of what the logs and what the tables say; both are
    given beside.  Lateness is from the due instant to the first line of the handler.
    """
    logs, runs = witnesses.logs, witnesses.runs
    begun_us = logs[logs[:, 1] == at_us][:, 4]
    logged_jobs = logs[logs[:, 1] == at_us][:, 0]
    is_of_burst = runs.scheduled_us == at_us
    is_success = is_of_burst & _has_status(witnesses, "success")
    succeeded = runs.job_id[is_success]
    missed_logs, duplicates_logs = _missed_and_doubled(logged_jobs, jobs)
    missed_tables, duplicates_tables = _missed_and_doubled(succeeded, jobs)
    duplicates_tables += int((is_of_burst & ~_has_status(witnesses, "success")).sum())
    late_s = (begun_us - at_us) / US_PER_S if len(begun_us) else np.array([np.nan])
    started_us = runs.started_us[is_success]
    prepared, released = witnesses.record["prepared"], witnesses.record["released"]
    claims = witnesses.record["claims"]
    claims = claims[claims[:, 1] > 0]
    claim_s = (prepared[:, 0].max() - claims[:, 0].min()) / US_PER_S if len(claims) else np.nan
    drain_s = (witnesses.drained_us - at_us) / US_PER_S
    p50, p99 = np.percentile(late_s, [50, 99]).tolist()
    return {
        "claim_in_burst_per_s": int(claims[:, 1].sum()) / claim_s,
        "claimed_ahead_s": float((at_us - claims[:, 0].min()) / US_PER_S) if len(claims) else 0.0,
        "last_released_late_s": float((released[:, 0].max() - at_us) / US_PER_S),
        "start_late_p50_s": p50,
        "start_late_p99_s": p99,
        "start_late_max_s": float(late_s.max()),
        "drain_s": drain_s,
        "completed": len(np.unique(succeeded)),
        "completed_per_s": len(np.unique(succeeded)) / drain_s,
        "rescheduled": witnesses.rescheduled,
        "early": int((begun_us < at_us).sum() + (started_us < at_us).sum()),
        "missed": max(missed_logs, missed_tables),
        "missed_by_logs": missed_logs,
        "missed_by_tables": missed_tables,
        "duplicates": max(duplicates_logs, duplicates_tables),
        "duplicates_by_logs": duplicates_logs,
        "duplicates_by_tables": duplicates_tables,
        "wal_bytes_per_job": witnesses.wal_bytes / jobs,
    }


def cpu_us_per_job(witnesses: Witnesses, jobs: int) -> dict[str, float]:
    """Return processor time by kind of process."""
    return {kind: seconds * 1e6 / jobs for kind, seconds in witnesses.cpu_s.items()}


def medians(rounds: list[Figures]) -> Figures:
    """Return the median of each figure over the rounds."""
    return {name: median(one[name] for one in rounds) for name in rounds[0]}


def _missed_and_doubled(job_ids: Int64s, jobs: int) -> tuple[int, int]:
    distinct = len(np.unique(job_ids))
    return jobs - distinct, len(job_ids) - distinct


def _has_status(witnesses: Witnesses, status: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    codes = witnesses.runs.status
    if status not in codes.values:
        return np.zeros(len(codes.codes), bool)
    return np.asarray(codes.codes == codes.values.index(status))
