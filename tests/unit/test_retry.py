"""Backoff and the decision after a failed attempt."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.model import Backoff
from mainspring.retry import FailedOutcome, backoff_us, decide_after_failure

S = 1_000_000


@pytest.mark.parametrize(
    ("kind", "delays_s"),
    [(Backoff.FIXED, [5, 5, 5, 5]), (Backoff.LINEAR, [5, 10, 15, 20])],
)
def test_fixed_and_linear_take_no_chance(kind: Backoff, delays_s: list[int]) -> None:
    """Base each time, or base times attempt, whatever the random number."""
    for jitter01 in (0.0, 0.5, 0.999):
        actual = [backoff_us(kind, attempt, 5, 3600, jitter01) for attempt in (1, 2, 3, 4)]
        assert [delay * S for delay in delays_s] == actual


def test_exponential_is_uniform_below_a_doubling_ceiling() -> None:
    """Full jitter: half of the range at 0.5, zero at 0."""
    actual = [backoff_us(Backoff.EXPONENTIAL, attempt, 5, 3600, 0.5) for attempt in (1, 2, 3, 4)]

    assert actual == [2_500_000, 5 * S, 10 * S, 20 * S]
    assert backoff_us(Backoff.EXPONENTIAL, 9, 5, 3600, 0.0) == 0


def test_exponential_stays_under_the_cap() -> None:
    """The cap bounds the ceiling before the random number is applied."""
    assert backoff_us(Backoff.EXPONENTIAL, 11, 5, 3600, 0.5) == 1800 * S


@settings(deadline=None)
@given(
    kind=st.sampled_from(Backoff),
    attempt=st.integers(1, 10**6),
    base_s=st.integers(0, 86_400),
    cap_s=st.integers(0, 30 * 86_400),
    jitter01=st.floats(0, 1, exclude_max=True),
)
def test_no_delay_is_negative_or_above_the_cap(
    kind: Backoff, attempt: int, base_s: int, cap_s: int, jitter01: float
) -> None:
    """For any attempt up to a million, in whole microseconds."""
    delay_us = backoff_us(kind, attempt, base_s, cap_s, jitter01)

    assert isinstance(delay_us, int)
    assert 0 <= delay_us <= cap_s * S
    if kind is Backoff.LINEAR:
        assert delay_us == min(cap_s, base_s * attempt) * S


@pytest.mark.parametrize("outcome", ["failed", "lost"])
@pytest.mark.parametrize(("max_retries", "attempts"), [(0, 1), (1, 1), (2, 2), (3, 3), (10, 10)])
def test_a_firing_gets_max_retries_attempts_in_all(
    outcome: FailedOutcome, max_retries: int, attempts: int
) -> None:
    """3 means three attempts; 0 and 1 mean that the first is the last."""
    made = 1
    while decide_after_failure(made, max_retries, outcome) == "retry":
        made += 1

    assert attempts == made


def test_a_handler_that_gave_up_is_dead_at_once() -> None:
    """Whatever attempts are left."""
    assert decide_after_failure(1, 10, "dead") == "dead"
