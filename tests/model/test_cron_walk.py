"""Cron occurrences against the slow walk of `cron_oracle`: next, latest and count, by Hypothesis.

Hypothesis shrinks what it finds, in some zones that have all kinds of changes;
`test_cron_changes` draws from all zones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.cron import (
    Schedule,
    count_occurrences,
    latest_occurrence_us,
    next_occurrence_us,
    parse_schedule,
)
from mainspring.model import DstGap, DstOverlap
from model.cron_expressions import MONTHS, WEEKDAYS
from model.cron_oracle import US, WARM_UP_S, WINDOW_S, Expression, changes_of, walk, zone_of

ZONES = (
    "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "America/Nuuk",
    "Asia/Tehran", "Africa/Casablanca", "Pacific/Apia", "Africa/Monrovia", "Antarctica/Troll",
    "Antarctica/Vostok", "Europe/Dublin", "America/Sao_Paulo", "Asia/Kathmandu",
    "Pacific/Kwajalein", "Africa/Cairo", "Asia/Gaza", "Pacific/Chatham", "UTC",
)  # fmt: skip


def occurrences_by_next(schedule: Schedule, after_us: int, until_us: int) -> list[int]:
    found: list[int] = []
    while True:
        next_us = next_occurrence_us(schedule, after_us)
        if next_us is None or next_us > until_us:
            return found
        assert next_us > after_us
        found.append(next_us)
        after_us = next_us


def field_strategy(
    low: int, high: int, names: tuple[str, ...] = (), *, star: int, near: tuple[int, ...] = ()
) -> st.SearchStrategy[tuple[str, frozenset[int], bool]]:
    """One field as (text, values, starts with a star); `star` is the weight of a bare star."""
    whole = frozenset(range(low, high + 1))

    @st.composite
    def item(draw: Callable[..., int]) -> tuple[str, frozenset[int]]:
        shape = draw(st.integers(0, 4))
        first = draw(st.sampled_from(near) if near else st.integers(low, high))
        if shape <= 1:
            word = names[first - low] if names and shape == 1 else str(first)
            return word, frozenset({first})
        last = draw(st.integers(first, high))
        if shape == 2:
            return f"{first}-{last}", frozenset(range(first, last + 1))
        step = draw(st.integers(1, high - low + 1))
        if shape == 3:
            return f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))
        return f"*/{step}", frozenset(range(low, high + 1, step))

    def join(items: list[tuple[str, frozenset[int]]]) -> tuple[str, frozenset[int], bool]:
        text = ",".join(text for text, _ in items)
        return text, frozenset().union(*(values for _, values in items)), text.startswith("*")

    lists = st.lists(item(), min_size=1, max_size=3).map(join)
    return st.one_of(*[st.just(("*", whole, True))] * star, *[lists] * 3)


@functools.cache  # the same draws must meet the same strategy when an example is replayed
def expressions(*, star: int, hours: tuple[int, ...] = ()) -> st.SearchStrategy[Expression]:
    """Expressions; the more `star`, the more days match.  Hours are drawn from `hours`."""

    def join(fields: tuple[tuple[str, frozenset[int], bool], ...]) -> Expression:
        texts, values, stars = zip(*fields, strict=True)
        return Expression(" ".join(texts), values, stars)

    return st.tuples(
        field_strategy(0, 59, star=2),
        field_strategy(0, 23, star=1, near=hours),
        field_strategy(1, 31, star=star),
        field_strategy(1, 12, MONTHS, star=star),
        field_strategy(0, 6, WEEKDAYS, star=star),
    ).map(join)


@st.composite
def places(draw: Callable[..., int]) -> tuple[str, int, int]:
    """A zone, a change of its offset, and an instant within 36 hours, not always on a minute."""
    name = str(draw(st.sampled_from(ZONES)))
    change_s = draw(st.sampled_from(changes_of(name)))
    shift = draw(st.integers(-36, 12)) * 3600 + draw(st.sampled_from((0, 0, 1800, 930, 30)))
    return name, change_s, max(WARM_UP_S, change_s + shift)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    place=places(),
    data=st.data(),
    gap=st.sampled_from(DstGap),
    overlap=st.sampled_from(DstOverlap),
)
def test_occurrences_are_those_of_a_walk_over_half_minutes(
    place: tuple[str, int, int], data: st.DataObject, gap: DstGap, overlap: DstOverlap
) -> None:
    """Around any change of any zone, under any option: next, latest and count agree with it."""
    zone_name, change_s, start_s = place
    walls = [datetime.fromtimestamp(change_s + s, zone_of(zone_name)) for s in (-60, 0, 3600)]
    hours = (*sorted({wall.hour for wall in walls}), 0, 12)
    expression = data.draw(expressions(star=9, hours=hours))
    schedule = parse_schedule(
        expression.text, zone_name, anchor_us=0, dst_gap=gap, dst_overlap=overlap
    )
    expected = walk(expression, zone_name, start_s, gap, overlap)
    start_us, end_us = start_s * US, (start_s + WINDOW_S) * US

    assert expected == occurrences_by_next(schedule, start_us, end_us)

    near_us = [(change_s + minutes * 60) * US for minutes in (-61, -30, 0, 1, 10, 20, 40, 59, 100)]
    near_us += [data.draw(st.integers(start_us, end_us))]
    for at_us in (each for each in near_us if start_us <= each <= end_us):
        seen = [each for each in expected if each <= at_us]
        assert len(seen) == count_occurrences(schedule, start_us, at_us)
        if seen:
            assert seen[-1] == latest_occurrence_us(schedule, at_us)
        later = [each for each in expected if each > at_us]
        assert len(later) == count_occurrences(schedule, at_us, end_us)
        if later:
            assert later[0] == next_occurrence_us(schedule, at_us)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(expression=expressions(star=3), first=st.dates(date(1970, 1, 1), date(2200, 1, 1)))
def test_days_are_those_of_a_walk_over_the_calendar(expression: Expression, first: date) -> None:
    """Over 6 years in UTC the days with occurrences are those a plain test of each day finds."""
    text = " ".join(["0", "0", *expression.text.split()[2:]])
    never_fires = not any(
        expression.matches_day(date(2000, 1, 1) + timedelta(days=number)) for number in range(366)
    )
    if never_fires:
        return
    schedule = parse_schedule(text, "UTC", anchor_us=0)
    start = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()) * US
    days = [first + timedelta(days=number) for number in range(6 * 366)]
    expected = [
        start + number * 86_400 * US
        for number, day in enumerate(days)
        if expression.matches_day(day)
    ]
    end_us = start + (6 * 366 - 1) * 86_400 * US

    assert len(expected) == count_occurrences(schedule, start - 1, end_us)
    assert expected[:40] == occurrences_by_next(schedule, start - 1, end_us)[:40]
    at_us = end_us
    backwards: list[int] = []
    while len(backwards) < 20 and (found_us := latest_occurrence_us(schedule, at_us)) is not None:
        if found_us < start:
            break
        backwards.append(found_us)
        at_us = found_us - 1
    assert expected[::-1][:20] == backwards


@settings(max_examples=150, deadline=None)
@given(
    expression=expressions(star=6),
    zone_name=st.sampled_from(ZONES),
    after_us=st.integers(0, 2_145_916_800 * US),
)
def test_every_answer_is_later_and_nothing_lies_between(
    expression: Expression, zone_name: str, after_us: int
) -> None:
    """The next occurrence after `after` is the latest at itself, and the only one counted."""
    if not any(
        expression.matches_day(date(2000, 1, 1) + timedelta(days=number)) for number in range(366)
    ):
        return
    schedule = parse_schedule(expression.text, zone_name, anchor_us=0)
    next_us = next_occurrence_us(schedule, after_us)

    assert next_us is not None
    assert next_us > after_us
    assert next_us == latest_occurrence_us(schedule, next_us)
    assert count_occurrences(schedule, after_us, next_us) == 1
    assert count_occurrences(schedule, after_us, next_us - 1) == 0
    latest_us = latest_occurrence_us(schedule, next_us - 1)
    assert latest_us is None or latest_us <= after_us
