"""The judgement on late firings under RUN_ONCE."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.cron import (
    Schedule,
    Verdict,
    judge_missed,
    latest_occurrence_us,
    next_occurrence_us,
    parse_schedule,
)
from mainspring.instants import US_PER_S, parse_instant
from mainspring.model import MissedWindow

O1 = parse_instant("2026-06-08T12:00:00Z")
HOUR = 3600 * US_PER_S
GRACE = 60 * US_PER_S
HOURLY = parse_schedule("0 * * * *", "UTC", anchor_us=0)


def judge(
    now_us: int, schedule: Schedule = HOURLY, at_us: int = O1, grace_us: int = GRACE
) -> Verdict:
    return judge_missed(schedule, MissedWindow.RUN_ONCE, at_us, now_us, grace_us)


@pytest.mark.parametrize("now_us", [O1 - 1, O1, O1 + 1, O1 + GRACE])
def test_late_by_no_more_than_the_grace_is_on_time(now_us: int) -> None:
    """Also exactly the grace, and not yet due."""
    assert judge(now_us) == Verdict(True)


@pytest.mark.parametrize("now_us", [O1 + GRACE + 1, O1 + HOUR - 1])
def test_a_single_missed_occurrence_is_itself_the_catch_up(now_us: int) -> None:
    """Nothing is dropped."""
    assert judge(now_us) == Verdict(False, O1, 1, 0, None, None)


def test_a_late_one_off_is_its_own_catch_up() -> None:
    """However late."""
    once = parse_schedule("2026-06-08T12:00:00Z", "UTC", anchor_us=0)

    assert judge(O1 + 1000 * HOUR, once) == Verdict(False, O1, 1, 0, None, None)


def test_the_latest_missed_runs_and_the_others_are_dropped() -> None:
    """Three due, none covered by the grace: the third runs."""
    now_us = O1 + 2 * HOUR + GRACE + 1

    assert judge(now_us) == Verdict(False, O1 + 2 * HOUR, 3, 2, O1, O1 + HOUR)


def test_the_newest_is_ordinary_where_the_grace_covers_it() -> None:
    """Then the one before it is the latest missed, and the next after that is the newest."""
    now_us = O1 + 2 * HOUR + GRACE
    verdict = judge(now_us)

    assert verdict == Verdict(False, O1 + HOUR, 2, 1, O1, O1)
    assert next_occurrence_us(HOURLY, O1 + HOUR) == O1 + 2 * HOUR


def test_two_due_of_which_the_newest_is_covered() -> None:
    """Only the first is missed, and it runs."""
    assert judge(O1 + HOUR) == Verdict(False, O1, 1, 0, None, None)


def test_only_the_newest_is_covered_by_the_grace() -> None:
    """With a period under the grace, 61 missed seconds are missed but for the last."""
    every = parse_schedule("@every 1s", "UTC", anchor_us=O1 - US_PER_S)
    verdict = judge(O1 + 61 * US_PER_S, every)

    assert verdict == Verdict(False, O1 + 60 * US_PER_S, 61, 60, O1, O1 + 59 * US_PER_S)


def test_without_grace_an_occurrence_due_right_now_is_on_time() -> None:
    """Zero late is not more than zero."""
    assert judge(O1, grace_us=0) == Verdict(True)
    assert judge(O1 + HOUR, grace_us=0).catch_up_scheduled_us == O1


@pytest.mark.parametrize("policy", [MissedWindow.SKIP, MissedWindow.RUN_ALL])
def test_other_policies_have_no_judgement(policy: MissedWindow) -> None:
    """They are refused at registration; reaching this is a bug."""
    with pytest.raises(ValueError, match=policy.value):
        judge_missed(HOURLY, policy, O1, O1 + HOUR, GRACE)


@settings(deadline=None)
@given(
    text=st.sampled_from(["*/7 * * * *", "30 1,2 * * *", "@every 37s", "0 0 * * 1,5"]),
    late_us=st.integers(0, 4 * 86_400 * US_PER_S),
    grace_us=st.sampled_from([0, US_PER_S, GRACE, 2 * HOUR]),
)
def test_every_due_occurrence_is_dropped_run_or_covered(
    text: str, late_us: int, grace_us: int
) -> None:
    """Counted by walking: missed and at most one covered make up all that is due."""
    schedule = parse_schedule(text, "America/New_York", anchor_us=0)
    first_us = next_occurrence_us(schedule, parse_instant("2026-10-20T00:00:00Z"))
    assert first_us is not None
    now_us = first_us + late_us
    walked = [first_us]
    while (next_us := next_occurrence_us(schedule, walked[-1])) is not None and next_us <= now_us:
        walked.append(next_us)
    verdict = judge(now_us, schedule, first_us, grace_us)

    if late_us <= grace_us:
        assert verdict.is_on_time
        return
    missed = walked[:-1] if len(walked) > 1 and now_us - walked[-1] <= grace_us else walked
    assert verdict.missed_count == len(missed)
    assert verdict.catch_up_scheduled_us == missed[-1]
    assert verdict.dropped_count == len(missed) - 1
    assert verdict.dropped_first_us == (missed[0] if len(missed) > 1 else None)
    assert verdict.dropped_last_us == (missed[-2] if len(missed) > 1 else None)
    assert walked[-1] == latest_occurrence_us(schedule, now_us)
