"""The judgement on late firings under each policy."""

from __future__ import annotations

import time
from typing import NamedTuple

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
from mainspring.cron.occurrence import count_occurrences, newest_but_us
from mainspring.instants import US_PER_DAY, US_PER_S, parse_instant
from mainspring.model import DstOverlap, MissedWindow

O1 = parse_instant("2026-06-08T12:00:00Z")
HOUR = 3600 * US_PER_S
GRACE = 60 * US_PER_S
HOURLY = parse_schedule("0 * * * *", "UTC", anchor_us=0)
ONCE = parse_schedule("2026-06-08T12:00:00Z", "UTC", anchor_us=0)
SKIP, RUN_ONCE, RUN_ALL = MissedWindow.SKIP, MissedWindow.RUN_ONCE, MissedWindow.RUN_ALL

every_policy = pytest.mark.parametrize("policy", list(MissedWindow))


def judge(
    now_us: int,
    schedule: Schedule = HOURLY,
    at_us: int = O1,
    grace_us: int = GRACE,
    policy: MissedWindow = RUN_ONCE,
    max_missed: int = 100,
) -> Verdict:
    return judge_missed(schedule, policy, at_us, now_us, grace_us, max_missed)


class Drops(NamedTuple):
    """Dropped occurrences: how many, the oldest and the newest."""

    number: int
    first_us: int | None
    last_us: int | None


def dropped(verdict: Verdict) -> Drops:
    return Drops(verdict.dropped_count, verdict.dropped_first_us, verdict.dropped_last_us)


NOTHING = Drops(0, None, None)


# What no policy changes ------------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize("now_us", [O1 - 1, O1, O1 + 1, O1 + GRACE])
def test_late_by_no_more_than_the_grace_is_on_time(policy: MissedWindow, now_us: int) -> None:
    """Also exactly the grace, and not yet due."""
    assert judge(now_us, policy=policy) == Verdict(True)


@every_policy
def test_without_grace_an_occurrence_due_right_now_is_on_time(policy: MissedWindow) -> None:
    """Zero late is not more than zero; an hour later it is the one before that was missed."""
    assert judge(O1, grace_us=0, policy=policy) == Verdict(True)

    later = judge(O1 + HOUR, grace_us=0, policy=policy)
    assert later.run_scheduled_us == (O1 + HOUR if policy is SKIP else O1)
    assert later.is_catch_up is (policy is not SKIP)


# RUN_ONCE --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [RUN_ONCE, RUN_ALL])
@pytest.mark.parametrize("now_us", [O1 + GRACE + 1, O1 + HOUR - 1])
def test_a_single_missed_occurrence_is_itself_the_catch_up(
    policy: MissedWindow, now_us: int
) -> None:
    """Nothing is dropped, nothing waits."""
    assert judge(now_us, policy=policy) == Verdict(False, O1, True, missed_count=1)


@pytest.mark.parametrize("policy", [RUN_ONCE, RUN_ALL])
def test_a_late_one_off_is_its_own_catch_up(policy: MissedWindow) -> None:
    """However late."""
    assert judge(O1 + 1000 * HOUR, ONCE, policy=policy) == Verdict(False, O1, True, missed_count=1)


def test_the_latest_missed_runs_and_the_others_are_dropped() -> None:
    """Three due, none covered by the grace: the third runs."""
    verdict = judge(O1 + 2 * HOUR + GRACE + 1)

    assert verdict.run_scheduled_us == O1 + 2 * HOUR
    assert verdict.missed_count == 3
    assert dropped(verdict) == (2, O1, O1 + HOUR)
    assert (verdict.next_us, verdict.waiting_count) == (None, 0)


def test_the_newest_is_ordinary_where_the_grace_covers_it() -> None:
    """Then the one before it is the latest missed, and the next after that is the newest."""
    verdict = judge(O1 + 2 * HOUR + GRACE)

    assert verdict.run_scheduled_us == O1 + HOUR
    assert verdict.missed_count == 2
    assert dropped(verdict) == (1, O1, O1)
    assert next_occurrence_us(HOURLY, O1 + HOUR) == O1 + 2 * HOUR


def test_two_due_of_which_the_newest_is_covered() -> None:
    """Only the first is missed, and it runs."""
    assert judge(O1 + HOUR) == Verdict(False, O1, True, missed_count=1)


def test_only_the_newest_is_covered_by_the_grace() -> None:
    """With a period under the grace, 61 missed seconds are missed but for the last."""
    every = parse_schedule("@every 1s", "UTC", anchor_us=O1 - US_PER_S)
    verdict = judge(O1 + 61 * US_PER_S, every)

    assert verdict.run_scheduled_us == O1 + 60 * US_PER_S
    assert verdict.missed_count == 61
    assert dropped(verdict) == (60, O1, O1 + 59 * US_PER_S)


# SKIP ------------------------------------------------------------------------------------------


def test_skip_drops_all_and_goes_on_after_now() -> None:
    """Three due, none covered: the cursor moves to the fourth."""
    verdict = judge(O1 + 2 * HOUR + GRACE + 1, policy=SKIP)

    assert (verdict.run_scheduled_us, verdict.is_catch_up) == (None, False)
    assert verdict.next_us == O1 + 3 * HOUR
    assert verdict.missed_count == 3
    assert dropped(verdict) == (3, O1, O1 + 2 * HOUR)


def test_skip_runs_the_newest_where_the_grace_covers_it() -> None:
    """It is no catch-up, and the cursor follows from it as always."""
    verdict = judge(O1 + 2 * HOUR + GRACE, policy=SKIP)

    assert (verdict.run_scheduled_us, verdict.is_catch_up) == (O1 + 2 * HOUR, False)
    assert verdict.next_us is None
    assert verdict.missed_count == 2
    assert dropped(verdict) == (2, O1, O1 + HOUR)


def test_a_late_one_off_under_skip_is_dropped_and_nothing_follows() -> None:
    """Recorded as one missed occurrence."""
    verdict = judge(O1 + HOUR, ONCE, policy=SKIP)

    assert (verdict.is_on_time, verdict.run_scheduled_us, verdict.next_us) == (False, None, None)
    assert (verdict.missed_count, dropped(verdict)) == (1, (1, O1, O1))


def test_skip_at_the_end_of_time_has_nothing_to_move_to() -> None:
    """The last occurrence that any schedule yields was missed."""
    last_us = parse_instant("9999-12-29T23:00:00Z")
    verdict = judge(last_us + HOUR + GRACE, at_us=last_us, policy=SKIP)

    assert (verdict.run_scheduled_us, verdict.next_us) == (None, None)
    assert dropped(verdict) == (1, last_us, last_us)


# RUN_ALL ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_missed", "run_hour", "drops", "waiting"),
    [
        (1, 3, Drops(3, O1, O1 + 2 * HOUR), 0),
        (2, 2, Drops(2, O1, O1 + HOUR), 1),
        (3, 1, Drops(1, O1, O1), 2),
        (4, 0, NOTHING, 3),
        (5, 0, NOTHING, 3),
    ],
)
def test_run_all_keeps_the_newest_and_begins_with_the_oldest_of_them(
    max_missed: int, run_hour: int, drops: Drops, waiting: int
) -> None:
    """Four missed, a fifth covered by the grace."""
    verdict = judge(O1 + 4 * HOUR, policy=RUN_ALL, max_missed=max_missed)

    assert (verdict.run_scheduled_us, verdict.is_catch_up) == (O1 + run_hour * HOUR, True)
    assert dropped(verdict) == drops
    assert (verdict.waiting_count, verdict.missed_count) == (waiting, drops.number + 1)
    assert verdict.next_us is None


class Chain(NamedTuple):
    """What a job did until it was on time again; instants, microseconds."""

    catch_ups_us: list[int]
    ordinary_us: list[int]
    dropped_count: int
    missed_count: int


def chain(
    schedule: Schedule,
    policy: MissedWindow,
    max_missed: int,
    first_us: int,
    now_us: int,
    grace_us: int = GRACE,
    run_us: int = 0,
    firings_max: int = 100_000,
) -> Chain:
    """Run what the judgement says, one firing after the other, until the next is still to come.

    `run_us` is how long each run takes.
    """
    found = Chain([], [], 0, 0)
    at_us: int | None = first_us
    for _ in range(firings_max):
        if at_us is None or at_us > now_us:
            break
        verdict = judge(now_us, schedule, at_us, grace_us, policy, max_missed)
        found = found._replace(
            dropped_count=found.dropped_count + verdict.dropped_count,
            missed_count=found.missed_count + verdict.missed_count,
        )
        run_at_us = at_us if verdict.is_on_time else verdict.run_scheduled_us
        if run_at_us is None:
            at_us = verdict.next_us
            continue
        (found.catch_ups_us if verdict.is_catch_up else found.ordinary_us).append(run_at_us)
        now_us += run_us
        at_us = next_occurrence_us(schedule, run_at_us)
    return found


@pytest.mark.parametrize(
    ("policy", "max_missed", "run_count", "dropped_count"),
    [
        (SKIP, 100, 0, 144),
        (RUN_ONCE, 100, 1, 143),
        (RUN_ALL, 100, 100, 44),
        (RUN_ALL, 200, 144, 0),
    ],
)
def test_a_night_without_power_in_each_policy(
    policy: MissedWindow, max_missed: int, run_count: int, dropped_count: int
) -> None:
    """Every five minutes, off from 00:02 to 12:02: 144 missed, and 12:05 follows (case D-B01)."""
    schedule = parse_schedule("*/5 * * * *", "UTC", anchor_us=0)
    slots = [parse_instant("2026-06-01T00:05:00Z") + i * 300 * US_PER_S for i in range(144)]
    now_us = parse_instant("2026-06-01T12:02:00Z")
    found = chain(schedule, policy, max_missed, slots[0], now_us)

    assert found.catch_ups_us == slots[144 - run_count :]
    assert found.ordinary_us == []
    assert (found.missed_count, found.dropped_count) == (144, dropped_count)
    after = found.catch_ups_us[-1] if run_count else now_us
    assert next_occurrence_us(schedule, after) == parse_instant("2026-06-01T12:05:00Z")


def test_run_all_caps_again_what_passes_while_it_catches_up() -> None:
    """Runs of two hours on an hourly job: it falls behind, and the newest three are kept."""
    now_us = O1 + 5 * HOUR + HOUR // 2
    found = chain(HOURLY, RUN_ALL, 3, O1, now_us, run_us=2 * HOUR, firings_max=3)

    assert found.catch_ups_us == [O1 + hour * HOUR for hour in (3, 5, 7)]
    assert found.dropped_count == 5  # 12:00, 13:00, 14:00; 16:00; 18:00
    assert found.missed_count == 8


# Against the obvious ---------------------------------------------------------------------------

TEXTS = st.sampled_from(
    ["*/7 * * * *", "30 1,2 * * *", "@every 37s", "0 0 * * 1,5", "15 1 * * *", "0 9 8 6 *"]
)
LATE = st.one_of(st.integers(0, 3 * HOUR), st.integers(0, 4 * US_PER_DAY))


def walk(schedule: Schedule, first_us: int, now_us: int) -> list[int]:
    """Return the due occurrences from the first on, one by one."""
    walked = [first_us]
    while (next_us := next_occurrence_us(schedule, walked[-1])) is not None and next_us <= now_us:
        walked.append(next_us)
    return walked


@settings(deadline=None)
@given(
    text=TEXTS,
    start=st.sampled_from(["2026-10-30T00:00:00Z", "2026-03-06T00:00:00Z"]),
    late_us=LATE,
    grace_us=st.sampled_from([0, US_PER_S, GRACE, 2 * HOUR]),
    policy=st.sampled_from(MissedWindow),
    max_missed=st.sampled_from([1, 2, 3, 100, 10_000]),
)
def test_every_due_occurrence_is_dropped_run_covered_or_waits(
    text: str, start: str, late_us: int, grace_us: int, policy: MissedWindow, max_missed: int
) -> None:
    """Each verdict from a list of all that is due, around both changes of New York's clock."""
    schedule = parse_schedule(text, "America/New_York", anchor_us=0, dst_overlap=DstOverlap.BOTH)
    first_us = next_occurrence_us(schedule, parse_instant(start))
    assert first_us is not None
    now_us = first_us + late_us
    walked = walk(schedule, first_us, now_us)
    verdict = judge(now_us, schedule, first_us, grace_us, policy, max_missed)

    if late_us <= grace_us:
        assert verdict == Verdict(True)
        return
    is_covered = len(walked) > 1 and now_us - walked[-1] <= grace_us
    missed = walked[:-1] if is_covered else walked
    kept = {SKIP: [], RUN_ONCE: missed[-1:], RUN_ALL: missed[-max_missed:]}[policy]
    drops = missed[: len(missed) - len(kept)]
    if kept:
        run_us, next_us = kept[0], None
    elif is_covered:
        run_us, next_us = walked[-1], None
    else:
        run_us, next_us = None, next_occurrence_us(schedule, now_us)
    assert verdict == Verdict(
        is_on_time=False,
        run_scheduled_us=run_us,
        is_catch_up=bool(kept),
        next_us=next_us,
        missed_count=len(drops) + bool(kept),
        dropped_count=len(drops),
        dropped_first_us=drops[0] if drops else None,
        dropped_last_us=drops[-1] if drops else None,
        waiting_count=max(0, len(kept) - 1),
    )
    assert walked[-1] == latest_occurrence_us(schedule, now_us)


@settings(deadline=None)
@given(
    text=st.sampled_from(["*/7 * * * *", "30 1,2 * * *", "@every 370s"]),
    late_us=st.integers(0, US_PER_DAY),
    grace_us=st.sampled_from([0, GRACE]),
    policy=st.sampled_from(MissedWindow),
    max_missed=st.sampled_from([1, 2, 5, 30]),
    run_us=st.sampled_from([0, US_PER_S, 200 * US_PER_S]),
)
def test_over_a_chain_each_occurrence_is_run_or_dropped_once(
    text: str, late_us: int, grace_us: int, policy: MissedWindow, max_missed: int, run_us: int
) -> None:
    """Whatever passes meanwhile: catch-up runs and drops are what was missed; order is kept."""
    schedule = parse_schedule(text, "America/New_York", anchor_us=0)
    first_us = next_occurrence_us(schedule, parse_instant("2026-10-31T12:00:00Z"))
    assert first_us is not None
    found = chain(schedule, policy, max_missed, first_us, first_us + late_us, grace_us, run_us)

    runs_us = sorted(found.catch_ups_us + found.ordinary_us)
    assert len(set(runs_us)) == len(runs_us)
    assert found.catch_ups_us == sorted(found.catch_ups_us)
    assert found.missed_count == found.dropped_count + len(found.catch_ups_us)
    # Up to the newest run nothing is left out; what SKIP drops may lie beyond it.
    if policy is not SKIP:
        assert len(walk(schedule, first_us, runs_us[-1])) == len(runs_us) + found.dropped_count


@settings(deadline=None)
@given(
    text=st.sampled_from(["* * * * *", "*/7 8-9 * * *", "0 0 13 * 5", "30 1 * * 0", "@every 37s"]),
    start_hour=st.integers(0, 3 * 366 * 24),
    newer_count=st.integers(0, 60),
    earlier_us=st.sampled_from([1, HOUR, 400 * US_PER_DAY]),
)
def test_an_occurrence_is_found_by_how_many_are_newer(
    text: str, start_hour: int, newer_count: int, earlier_us: int
) -> None:
    """Wherever the search begins: just before, or long before and so far from even."""
    schedule = parse_schedule(text, "Europe/Dublin", anchor_us=0, dst_overlap=DstOverlap.BOTH)
    first_us = next_occurrence_us(
        schedule, parse_instant("2025-01-01T00:00:00Z") + start_hour * HOUR
    )
    assert first_us is not None
    newest_us = first_us
    for _ in range(newer_count):
        next_us = next_occurrence_us(schedule, newest_us)
        assert next_us is not None
        newest_us = next_us

    assert newest_but_us(schedule, first_us - earlier_us, newest_us, newer_count) == first_us


@every_policy
@pytest.mark.parametrize("text", ["* * * * *", "@every 1s", "*/5 9-17 * * 1-5"])
def test_a_missed_year_is_judged_in_no_time(policy: MissedWindow, text: str) -> None:
    """No walk through half a million occurrences: 10 ms, of which a quiet machine needs three."""
    schedule = parse_schedule(text, "Europe/Berlin", anchor_us=0)
    first_us = next_occurrence_us(schedule, O1)
    assert first_us is not None
    now_us = first_us + 365 * US_PER_DAY
    took_s = []
    for _ in range(3):
        begun_s = time.process_time()
        verdict = judge(now_us, schedule, first_us, 0, policy, 10_000)
        took_s.append(time.process_time() - begun_s)

    assert min(took_s) < 0.010
    # Nothing that was due is left out, also where the newest is due this very moment.
    is_covered = latest_occurrence_us(schedule, now_us) == now_us
    missed_count = 1 + count_occurrences(schedule, first_us, now_us) - is_covered
    assert verdict.missed_count + verdict.waiting_count == missed_count
