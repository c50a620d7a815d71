"""What happened, counted twice: from the workers' logs and from the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mainspring.model import format_job_id
from mainspring.store.postgres.audit import RecordedRuns

Occurrence = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts and successes by (job id, scheduled_us), from one source.

    `deaths` are the occurrences that ended for good; None from the logs, which cannot tell.
    """

    starts: Counter[tuple[str, int, int]]
    ends: Counter[Occurrence]
    failures: Counter[Occurrence]
    deaths: frozenset[Occurrence] | None = None


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """One line of the table.

    `expected_min` and `expected_max` differ where an occurrence fell so close to the stop that it
    may or may not have run.  Counted are successes, or failed attempts where those were planned.
    `extra` are attempts more than planned, and occurrences that were never due.
    """

    title: str
    expected_min: int
    expected_max: int
    ends_with: str
    attempts: int
    logged: int
    recorded: int
    missed: int
    extra: int

    @property
    def is_kept(self) -> bool:
        """Whether it came as it had to."""
        return self.missed == 0 and self.extra == 0

    @property
    def expected(self) -> str:
        """What had to come, in words."""
        count = f"{self.expected_max:,}"
        if self.expected_min != self.expected_max:
            count = f"{self.expected_min:,} to {count}"
        if self.ends_with != "success":
            return f"{count} failures"
        return f"{count} at attempt {self.attempts}" if self.attempts > 1 else count


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
    deaths = set()
    names = {job_id: format_job_id(job_id) for job_id in set(runs.job_id.tolist())}
    columns = (runs.job_id.tolist(), runs.scheduled_us.tolist(), runs.attempt.tolist())
    for i, (job_id, scheduled_us, attempt) in enumerate(zip(*columns, strict=True)):
        occurrence = (names[job_id], scheduled_us)
        match runs.status[i]:
            case "success":
                starts[*occurrence, attempt] += 1
                ends[occurrence] += 1
            case "failed" | "dead" as status:
                starts[*occurrence, attempt] += 1
                failures[occurrence] += 1
                if status == "dead":
                    deaths.add(occurrence)
            case _:
                pass  # lost, missed: not a run that came to its end
    return Counts(starts, ends, failures, frozenset(deaths))


def judge(
    title: str,
    occurrences: Mapping[str, Sequence[int]],
    *,
    attempts: int,
    ends_with: str,
    optional_after_us: int,
    sources: Sequence[Counts],
) -> RowVerdict:
    """Compare expected occurrences with both sources; the worse of the two counts.

    Parameters
    ----------
    occurrences
        By job id, every instant that may have run.
    optional_after_us
        What is due after it may or may not have run when everything was stopped.
    sources
        In.  The logs, then the tables.
    """
    allowed = {(job_id, at_us) for job_id, at_all in occurrences.items() for at_us in at_all}
    wanted = {occurrence for occurrence in allowed if occurrence[1] <= optional_after_us}
    needed = 1 if ends_with == "success" else attempts
    missed = extra = 0
    happened: list[int] = []
    for counts in sources:
        outcomes = _of_jobs(counts.ends if ends_with == "success" else counts.failures, occurrences)
        starts = {key: n for key, n in counts.starts.items() if key[0] in occurrences}
        tries = Counter((job_id, at_us) for job_id, at_us, _ in starts)
        over = sum(n - 1 for n in starts.values())
        over += sum(max(0, n - needed) for n in outcomes.values())
        over += sum(max(0, n - attempts) for n in tries.values())
        over += sum(occurrence not in allowed for occurrence in tries)
        extra = max(extra, over)
        short = sum(outcomes[occurrence] < needed for occurrence in wanted)
        if ends_with == "dead" and counts.deaths is not None:
            short = max(short, len(wanted - counts.deaths))
        missed = max(missed, short)
        happened.append(outcomes.total())
    logged, recorded = happened
    return RowVerdict(
        title=title,
        expected_min=len(wanted) * needed,
        expected_max=len(allowed) * needed,
        ends_with=ends_with,
        attempts=attempts,
        logged=logged,
        recorded=recorded,
        missed=missed,
        extra=extra,
    )


def _of_jobs(counted: Counter[Occurrence], jobs: Container[str]) -> Counter[Occurrence]:
    return Counter({occurrence: n for occurrence, n in counted.items() if occurrence[0] in jobs})


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
