"""What happens after a failed attempt: again or not, and after how long.

Pure: the random number is an argument, so a seeded simulation repeats exactly.

Source: Brooker, "Exponential Backoff and Jitter" (AWS Architecture Blog, 2015), full jitter.
"""

from __future__ import annotations

from typing import Final, Literal

from mainspring.instants import US_PER_S
from mainspring.model import Backoff

FailedOutcome = Literal["failed", "lost", "dead"]
"""`failed`: raised or timed out.  `lost`: its worker died.  `dead`: the handler gave up."""

_DOUBLINGS_MAX: Final = 62
"""2**62 us is 146,000 years, above any cap; shifting further would only make big integers."""


def backoff_us(kind: Backoff, attempt: int, base_s: float, cap_s: float, jitter01: float) -> int:
    """Say how long to wait after the failed `attempt` before the next one.

    Parameters
    ----------
    kind
        `fixed`: `base_s`.  `linear`: `base_s * attempt`.  `exponential`: uniform between 0 and
        `base_s * 2**(attempt - 1)` (full jitter, so that jobs that failed together do not come
        back together).
    attempt
        Number of the attempt that failed, from 1.
    base_s, cap_s
        Seconds, not negative.  No delay of any kind exceeds `cap_s`.
    jitter01
        In [0, 1), used by `exponential` alone.

    Returns
    -------
    int
        Microseconds, 0 to `cap_s * 10**6`.
    """
    assert attempt >= 1, attempt
    assert 0.0 <= jitter01 < 1.0, jitter01
    base_us = round(base_s * US_PER_S)
    cap_us = round(cap_s * US_PER_S)
    assert base_us >= 0, base_s
    assert cap_us >= 0, cap_s
    match kind:
        case Backoff.FIXED:
            return min(cap_us, base_us)
        case Backoff.LINEAR:
            return min(cap_us, base_us * attempt)
        case Backoff.EXPONENTIAL:
            ceiling_us = min(cap_us, base_us << min(attempt - 1, _DOUBLINGS_MAX))
            return int(ceiling_us * jitter01)


def decide_after_failure(
    attempt: int, max_retries: int, outcome: FailedOutcome
) -> Literal["retry", "dead"]:
    """Say whether the firing gets another attempt.

    A failed attempt n is retried while n < `max_retries`: 3 means three attempts in all, 0 and 1
    mean that none is repeated.  A lost attempt counts as a failed one, so that a job that kills
    its worker ends as a dead letter instead of killing all of them in turn.
    """
    assert attempt >= 1, attempt
    if outcome == "dead" or attempt >= max_retries:
        return "dead"
    return "retry"
