"""What happened, counted twice: from the workers' logs and from the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mainspring.model import format_job_id
from mainspring.store.postgres.audit import RecordedRuns

Occurrence = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts and successes by (job id, scheduled_us), from one source."""

    starts: Counter[tuple[str, int, int]]
    ends: Counter[Occurrence]
    failures: Counter[Occurrence]


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """One line of the table."""

    title: str
    expected: str
    happened: str
    missed: int
    duplicates: int
    is_kept: bool


def read_logs(folder: Path) -> Counts:
    """Count what the workers wrote down."""
    starts: Counter[tuple[str, int, int]] = Counter()
    ends: Counter[Occurrence] = Counter()
    failures: Counter[Occurrence] = Counter()
    for path in sorted(folder.glob("worker-*.log")):
        for line in path.read_text().splitlines():
            event, job_id, scheduled, attempt, _run_id, _at = line.split()
            occurrence = (job_id, int(scheduled))
            match event:
                case "start":
                    starts[*occurrence, int(attempt)] += 1
                case "end":
                    ends[occurrence] += 1
                case _:
                    failures[occurrence] += 1
    return Counts(starts, ends, failures)


def read_tables(runs: RecordedRuns) -> Counts:
    """Count what the history says."""
    starts: Counter[tuple[str, int, int]] = Counter()
    ends: Counter[Occurrence] = Counter()
    failures: Counter[Occurrence] = Counter()
    names = {job_id: format_job_id(job_id) for job_id in set(runs.job_id.tolist())}
    columns = (runs.job_id.tolist(), runs.scheduled_us.tolist(), runs.attempt.tolist())
    for i, (job_id, scheduled_us, attempt) in enumerate(zip(*columns, strict=True)):
        occurrence = (names[job_id], scheduled_us)
        match runs.status[i]:
            case "success":
                starts[*occurrence, attempt] += 1
                ends[occurrence] += 1
            case "failed" | "dead":
                starts[*occurrence, attempt] += 1
                failures[occurrence] += 1
            case _:
                pass  # lost, missed: not a run that came to its end
    return Counts(starts, ends, failures)


def judge(
    title: str,
    job_ids: Iterable[str],
    occurrences: dict[str, Sequence[int]],
    *,
    attempts: int,
    ends_with: str,
    optional_after_us: int,
    sources: Sequence[Counts],
) -> RowVerdict:
    """Compare expected occurrences with both sources; the worse of the two counts.

    Occurrences after `optional_after_us` may or may not have run when everything was stopped.
    """
    wanted = {
        (job_id, at_us)
        for job_id in job_ids
        for at_us in occurrences[job_id]
        if at_us <= optional_after_us
    }
    ids = set(occurrences)
    missed = duplicates = 0
    happened: list[int] = []
    for counts in sources:
        outcomes = counts.ends if ends_with == "success" else counts.failures
        needed = 1 if ends_with == "success" else attempts
        missed = max(missed, sum(outcomes[occurrence] < needed for occurrence in wanted))
        extra = sum(n - 1 for (job_id, *_), n in counts.starts.items() if job_id in ids)
        extra += sum(max(0, n - needed) for (job_id, _), n in outcomes.items() if job_id in ids)
        tries = Counter((key[0], key[1]) for key in counts.starts if key[0] in ids)
        extra += sum(max(0, n - attempts) for n in tries.values())
        duplicates = max(duplicates, extra)
        happened.append(sum(n for (job_id, _), n in outcomes.items() if job_id in ids))
    noun = "successes" if ends_with == "success" else "failed attempts, then a dead letter"
    count = len(wanted) if ends_with == "success" else len(wanted) * attempts
    logged, recorded = happened
    return RowVerdict(
        title=title,
        expected=f"{count:,} {noun}"
        + (f" at attempt {attempts}" if _is_retried(attempts, ends_with) else ""),
        happened=f"{logged:,} in the logs, {recorded:,} in the tables",
        missed=missed,
        duplicates=duplicates,
        is_kept=missed == 0 and duplicates == 0,
    )


@dataclass(frozen=True, slots=True)
class BurstFigures:
    """How late the burst was, by the database clock."""

    lateness_p50_s: float
    lateness_p99_s: float
    lateness_max_s: float
    drain_s: float


def measure_burst(runs: RecordedRuns, at_us: int) -> BurstFigures:
    """Measure the firings scheduled at one instant."""
    chosen = runs.scheduled_us == at_us
    late_s = (runs.started_us[chosen] - at_us) / 1e6
    if not len(late_s):
        return BurstFigures(float("nan"), float("nan"), float("nan"), float("nan"))
    p50, p99 = np.percentile(late_s, [50, 99]).tolist()
    drain_s = float((runs.finished_us[chosen].max() - at_us) / 1e6)
    return BurstFigures(p50, p99, float(late_s.max()), drain_s)


def early_starts(runs: RecordedRuns) -> int:
    """Return how many attempts started before their time; must be 0."""
    is_started = runs.started_us > 0
    return int(np.sum(runs.started_us[is_started] < runs.scheduled_us[is_started]))


def _is_retried(attempts: int, ends_with: str) -> bool:
    return attempts > 1 and ends_with == "success"
