"""What a worker reports of a run, made of what its handler said."""

from __future__ import annotations

from typing import Final

from mainspring.core.ending import EndKind, Report
from mainspring.handlers import Outcome, OutcomeKind
from mainspring.instants import US_PER_S

_END_KINDS: Final[dict[OutcomeKind, EndKind]] = {
    OutcomeKind.SUCCESS: "success",
    OutcomeKind.FAILED: "failed",
    OutcomeKind.RETRY: "failed",
    OutcomeKind.DEAD: "dead",
}


def report_of(outcome: Outcome) -> Report:
    """Return the report of one ended run."""
    after_s = outcome.retry_after_seconds
    return Report(
        kind=_END_KINDS[outcome.kind],
        error=outcome.error,
        output=outcome.output,
        retry_after_us=None if after_s is None else round(after_s * US_PER_S),
    )
