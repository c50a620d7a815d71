"""What a verdict on a scenario is made from, and what it says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from faults.expected import Deletion, Expectation, Occurrence
from faults.truth import Effect, Line, Tables

EXAMPLES = 3
TAKEOVER_S_MAX = 10.0
RESUMED_S_MAX = 5.0

StrikeKind = Literal["killed", "frozen", "stopped", "other"]


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault as the test brought it about, and when it was over.

    A `killed` worker is gone; a `frozen` one is stopped with its heartbeat, so it is declared dead;
    a `stopped` one still beats.  `other` faults touch no worker process; `pid` is then 0.
    `mono_us` is before the fault, `healed_mono_us` after its end.
    """

    kind: StrikeKind
    pid: int
    mono_us: int
    wall_us: int
    healed_mono_us: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a verdict needs."""

    expected: Mapping[Occurrence, Expectation]
    lines: Sequence[Line]
    effects: Sequence[Effect]
    tables: Tables
    deletions: Mapping[str, Deletion]
    strikes: Sequence[Strike]
    late_s_max: float
    takeover_s_max: float = TAKEOVER_S_MAX
    resumed_s_max: float = RESUMED_S_MAX


@dataclass
class Verdict:
    """What was counted.  `violations` must be empty.

    `duplicates` are begun runs beyond one for each occurrence and planned failure.
    `stale_reports` are ends of runs that had been ended as lost.
    """

    firings: int = 0
    starts: int = 0
    duplicates: int = 0
    lost: int = 0
    stale_reports: int = 0
    late_s: float = 0.0
    takeover_s: float | None = None
    resumed_s: float | None = None
    broken: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def violations(self) -> list[str]:
        """Return each broken promise with its count and some examples."""
        return [
            f"{promise}: {len(cases)}, as {'; '.join(cases[:EXAMPLES])}"
            for promise, cases in sorted(self.broken.items())
        ]
