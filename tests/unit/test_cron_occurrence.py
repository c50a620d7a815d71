"""Next, latest and due occurrences at their edges; the walk over zones is in tests/model."""

from __future__ import annotations

import pytest

from mainspring.cron import (
    DueOccurrences,
    Schedule,
    count_occurrences,
    due_occurrences,
    latest_occurrence_us,
    next_occurrence_us,
    parse_schedule,
    walk,
)
from mainspring.cron.fields import CronFields
from mainspring.cron.kernel import Cron
from mainspring.cron.walk import HORIZON_US, Passes
from mainspring.cron.zone import Zone
from mainspring.instants import INSTANT_MAX_US, US_PER_S, parse_instant

MIN_US = 60 * US_PER_S
NOON_US = parse_instant("2026-06-08T12:00:00Z")


def parse(text: str, zone: str = "UTC", anchor_us: int = NOON_US) -> Schedule:
    return parse_schedule(text, zone, anchor_us=anchor_us)


def test_after_is_exclusive_and_latest_inclusive() -> None:
    """To the microsecond."""
    schedule = parse("0 12 * * *")

    assert next_occurrence_us(schedule, NOON_US - 1) == NOON_US
    assert next_occurrence_us(schedule, NOON_US) == NOON_US + 86_400 * US_PER_S
    assert latest_occurrence_us(schedule, NOON_US) == NOON_US
    assert latest_occurrence_us(schedule, NOON_US - 1) == NOON_US - 86_400 * US_PER_S


@pytest.mark.parametrize("text", ["* * * * *", "0 0 * * *"])
def test_the_epoch_is_an_occurrence_and_nothing_is_before_it(text: str) -> None:
    """Instants start at 0, whatever is asked."""
    schedule = parse(text)

    assert next_occurrence_us(schedule, -1) == 0
    assert next_occurrence_us(schedule, -(10**18)) == 0
    assert latest_occurrence_us(schedule, 0) == 0
    assert latest_occurrence_us(schedule, -1) is None
    assert latest_occurrence_us(parse(text, "America/New_York"), 1) in {0, None}


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"])
@pytest.mark.parametrize("text", ["* * * * *", "0 3 * * *", "@every 1s", "0 */24 29 2 */7"])
def test_repeating_schedules_end_at_the_horizon(text: str, zone: str) -> None:
    """Near the end of 9999 there is no next occurrence, and no overflow."""
    schedule = parse(text, zone)
    for after_us in (HORIZON_US, INSTANT_MAX_US, 2**63 - 1):
        assert next_occurrence_us(schedule, after_us) is None
    latest_us = latest_occurrence_us(schedule, 2**63 - 1)
    assert latest_us is not None
    assert latest_us <= HORIZON_US
    assert next_occurrence_us(schedule, latest_us) is None
    assert next_occurrence_us(schedule, latest_us - 1) == latest_us


@pytest.mark.parametrize(
    ("text", "count"),
    [("@every 1s", 31_536_000), ("* * * * *", 525_600), ("*/5 9-16 * * *", 365 * 96)],
)
def test_a_year_of_due_occurrences_is_counted_exactly(text: str, count: int) -> None:
    """And without walking through it: the newest and the one before are right."""
    schedule = parse(text)
    first_us = next_occurrence_us(schedule, NOON_US)
    assert first_us is not None
    now_us = first_us + 365 * 86_400 * US_PER_S - 1
    due = due_occurrences(schedule, first_us, now_us)

    assert due.count == count
    assert due.previous_us is not None
    assert due.latest_us <= now_us < (next_occurrence_us(schedule, due.latest_us) or 0)
    assert next_occurrence_us(schedule, due.previous_us) == due.latest_us


def test_few_due_occurrences() -> None:
    """One, two and three of them; the first is the firing itself."""
    schedule = parse("* * * * *")
    one, two, three = (NOON_US + number * MIN_US for number in range(3))

    assert due_occurrences(schedule, one, two - 1) == DueOccurrences(1, one, None)
    assert due_occurrences(schedule, one, two) == DueOccurrences(2, two, one)
    assert due_occurrences(schedule, one, three) == DueOccurrences(3, three, two)


def test_a_firing_counts_even_if_its_schedule_yields_it_no_longer() -> None:
    """A law may have moved the clock since it was computed."""
    off_us = NOON_US + 7 * US_PER_S

    assert due_occurrences(parse("* * * * *"), off_us, off_us) == DueOccurrences(1, off_us, None)


def test_a_one_off_is_due_once() -> None:
    """However long it has been due."""
    schedule = parse("2026-06-08T12:00:00Z")

    assert due_occurrences(schedule, NOON_US, NOON_US * 2) == DueOccurrences(1, NOON_US, None)
    assert count_occurrences(schedule, NOON_US - 1, NOON_US) == 1
    assert count_occurrences(schedule, NOON_US, NOON_US * 2) == 0
    assert latest_occurrence_us(schedule, NOON_US - 1) is None
    assert latest_occurrence_us(schedule, NOON_US) == NOON_US


def test_every_has_no_occurrence_at_or_before_its_anchor() -> None:
    """The first is one period after registration."""
    schedule = parse("@every 10s")

    assert latest_occurrence_us(schedule, NOON_US) is None
    assert latest_occurrence_us(schedule, NOON_US + 10 * US_PER_S) == NOON_US + 10 * US_PER_S
    assert count_occurrences(schedule, 0, NOON_US + 25 * US_PER_S) == 2


def test_wall_times_of_one_gap_count_once() -> None:
    """02:00 to 02:50 and 03:00 share the instant at which the gap ends."""
    schedule = parse("*/10 2,3 * * *", "America/New_York")
    day_us = parse_instant("2026-03-08T05:00:00Z")

    assert count_occurrences(schedule, day_us, day_us + 23 * 3600 * US_PER_S) == 6


def test_wall_times_of_an_overlap_count_once_or_twice() -> None:
    """Once for a fixed-time schedule, in both passes for an interval-like one."""
    day_us = parse_instant("2026-11-01T04:00:00Z")
    end_us = day_us + 25 * 3600 * US_PER_S - 1

    fixed = parse("*/10 1 * * *", "America/New_York")
    assert count_occurrences(fixed, day_us, end_us) == 6
    interval = parse("*/10 * * * *", "America/New_York")
    assert count_occurrences(interval, day_us - 1, end_us) == 150


def test_a_search_gives_up_after_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval-like schedule that no clock ever reads would else be looked for up to 9999."""
    schedule = parse("0 * 29 2 *")
    assert next_occurrence_us(schedule, NOON_US) == parse_instant("2028-02-29T00:00:00Z")
    assert latest_occurrence_us(schedule, NOON_US) == parse_instant("2024-02-29T23:00:00Z")

    monkeypatch.setattr(walk, "SEARCH_US", 400 * 86_400 * US_PER_S)
    assert schedule.cron is not None
    assert walk.next_us(*parts_of(schedule.cron), NOON_US) is None
    assert latest_occurrence_us(schedule, NOON_US) is None


def parts_of(cron: Cron) -> tuple[CronFields, Zone, Passes]:
    return cron.fields, cron.zone, cron.passes
