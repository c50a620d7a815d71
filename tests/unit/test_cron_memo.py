"""The memo of next occurrences: same answers, bounded size."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.cron import OccurrenceMemo, next_occurrence_us, parse_schedule
from mainspring.cron import memo as memo_module
from mainspring.cron.memo import Generations
from mainspring.errors import InvalidSchedule
from mainspring.instants import INFINITY_US, US_PER_S, parse_instant

NOON_US = parse_instant("2026-06-08T12:00:00Z")


def test_answers_are_those_of_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """First asked, asked again, and asked about another instant; the second is remembered."""
    memo = OccurrenceMemo()
    schedule = parse_schedule("0 9 * * 1", "America/New_York", anchor_us=0)
    expected = next_occurrence_us(schedule, NOON_US)
    assert expected == memo.next_us("0 9 * * 1", "America/New_York", 5, NOON_US)
    later = memo.next_us("0 9 * * 1", "America/New_York", 5, NOON_US + 7 * 86_400 * US_PER_S)
    assert later == NOON_US + 7 * 86_400 * US_PER_S + 3600 * US_PER_S

    monkeypatch.setattr(memo_module, "next_occurrence_us", lambda *_: pytest.fail("asked again"))
    assert expected == memo.next_us("0 9 * * 1", "America/New_York", 6, NOON_US)


def test_zones_and_anchors_are_kept_apart() -> None:
    """The same text in another zone, or `@every` from another anchor, is another schedule."""
    memo = OccurrenceMemo()
    answers = [memo.next_us("0 9 * * *", zone, 0, NOON_US) for zone in ("UTC", "Asia/Tokyo")]
    assert len(set(answers)) == 2

    periods = [memo.next_us("@every 10s", "UTC", anchor, NOON_US) for anchor in (0, 3, 0)]
    assert periods == [NOON_US + 10_000_000, NOON_US + 3, NOON_US + 10_000_000]


def test_none_is_infinity() -> None:
    """A one-off that has passed parks."""
    memo = OccurrenceMemo()

    assert memo.next_us("2026-06-08T12:00:00Z", "UTC", 0, NOON_US - 1) == NOON_US
    assert memo.next_us("2026-06-08T12:00:00Z", "UTC", 0, NOON_US) == INFINITY_US


def test_an_unreadable_schedule_raises_each_time() -> None:
    """Errors are not remembered."""
    memo = OccurrenceMemo()
    for _ in range(2):
        with pytest.raises(InvalidSchedule):
            memo.next_us("0 9 * *", "UTC", 0, NOON_US)


@settings(deadline=None)
@given(keys=st.lists(st.integers(0, 30), max_size=200), entries_max=st.integers(2, 10))
def test_generations_hold_a_bound_and_never_a_wrong_value(
    keys: list[int], entries_max: int
) -> None:
    """At most `entries_max` entries; what was just put or found is found again."""
    generations: Generations[int, int] = Generations(entries_max)
    for key in keys:
        value = generations.get(key)
        assert value in {None, key * 7}
        if value is None:
            generations.put(key, key * 7)
        assert generations.get(key) == key * 7
        assert len(generations) <= entries_max


def test_an_entry_that_is_asked_for_survives() -> None:
    """It moves to the young generation while others pass by."""
    generations: Generations[int, int] = Generations(8)
    generations.put(-1, 1)
    for key in range(100):
        generations.put(key, key)
        assert generations.get(-1) == 1
    assert generations.get(0) is None


def test_threads_get_right_answers() -> None:
    """Four threads share a small memo."""
    memo = OccurrenceMemo(answers_max=8)
    wrong: list[int] = []

    def ask(seed: int) -> None:
        for number in range(400):
            at_us = NOON_US + (number * seed) % 23 * 60 * US_PER_S
            if memo.next_us("* * * * *", "UTC", 0, at_us) != at_us + 60 * US_PER_S:
                wrong.append(at_us)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
