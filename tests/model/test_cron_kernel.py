"""The compiled kernel against its twin in Python: the same answer on every input."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import _cron
from mainspring.cron import walk, zone_names
from mainspring.cron.extras import Extras
from mainspring.cron.fields import CronFields, next_wall_min
from mainspring.cron.kernel import IS_PURE, Answers, Cron, next_batch
from mainspring.cron.walk import HORIZON_US, Passes
from mainspring.cron.zone import load_zone
from mainspring.instants import INFINITY_US, US_PER_DAY, US_PER_S, parse_instant

pytestmark = pytest.mark.skipif(IS_PURE, reason="the compiled kernel is not what is in use")

YEAR_US = 366 * US_PER_DAY
YEARS = (1970, 1987, 2011, 2024, 2026, 2037, 2038, 2099, 2499, 2500, 2899, 2900, 9998, 9999)


def bits(low: int, high: int, *, at_least: int = 1) -> st.SearchStrategy[int]:
    """A set of values as bits."""
    values = st.sets(st.integers(low, high), min_size=at_least, max_size=high - low + 1)
    return st.one_of(
        values.map(lambda chosen: sum(1 << value for value in chosen)),
        st.just(sum(1 << value for value in range(low, high + 1))),
    )


extras = st.builds(
    Extras,
    is_last_day=st.booleans(),
    is_last_workday=st.booleans(),
    near_days=bits(1, 31, at_least=0) | st.just(0),
    nth_weekdays=bits(0, 34, at_least=0) | st.just(0),
    last_weekdays=bits(0, 6, at_least=0) | st.just(0),
)
fields = st.builds(
    CronFields,
    minutes=bits(0, 59),
    hours=bits(0, 23),
    days=bits(1, 31, at_least=0),
    months=bits(1, 12),
    weekdays=bits(0, 6, at_least=0),
    is_interval_like=st.booleans(),
    is_either_day=st.booleans(),
    extras=extras | st.just(Extras()),
)
passes = st.tuples(
    st.booleans(), st.sampled_from([(True, False), (False, True), (True, True)])
).map(lambda drawn: Passes(drawn[0], *drawn[1]))
zones = st.sampled_from(sorted(zone_names()))
instants = st.one_of(
    st.integers(-5, HORIZON_US + 5),
    st.tuples(st.sampled_from(YEARS), st.integers(0, YEAR_US)).map(
        lambda drawn: min(HORIZON_US, parse_instant(f"{drawn[0]}-01-01T00:00:00Z") + drawn[1])
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    fields=fields,
    from_day=st.dates(date(1970, 1, 1), date(9999, 12, 1)),
    minute=st.integers(0, 1439),
)
def test_wall_minutes_are_those_of_the_twin(
    fields: CronFields, from_day: date, minute: int
) -> None:
    """Any sets, any extras, any day up to the end of 9999."""
    cron = Cron(fields, load_zone("UTC"), Passes(False, True, False))
    from_min = (from_day - date(1970, 1, 1)) // timedelta(days=1) * 1_440 + minute

    assert next_wall_min(fields, from_min) == _cron.next_wall(cron.compiled, from_min)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(fields=fields, passes=passes, zone=zones, after_us=instants, near=st.integers(-90, 90))
def test_occurrences_are_those_of_the_twin(
    fields: CronFields, passes: Passes, zone: str, after_us: int, near: int
) -> None:
    """Any zone, around its changes, after which nothing is the same any more."""
    cron = Cron(fields, load_zone(zone), passes)
    if 0 <= after_us < HORIZON_US - YEAR_US:
        segment = cron.zone.segment_at(after_us)
        after_us = max(-1, segment.end_us + near * 60 * US_PER_S)

    assert walk.next_us(fields, cron.zone, passes, after_us) == cron.next_us(after_us)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    crons=st.lists(st.tuples(fields, passes, zones), min_size=1, max_size=4),
    questions=st.lists(st.tuples(st.integers(0, 3), instants), max_size=20),
)
def test_a_batch_is_its_single_questions(
    crons: list[tuple[CronFields, Passes, str]], questions: list[tuple[int, int]]
) -> None:
    """In any order, also where years are missing in the middle of it."""
    made = [Cron(each, load_zone(zone), passes) for each, passes, zone in crons]
    handles = np.array([handle % len(made) for handle, _ in questions], np.int32)
    after_us = np.array([instant_us for _, instant_us in questions], np.int64)
    answers = next_batch(made, handles, after_us).tolist()

    for handle, instant_us, answer in zip(handles, after_us.tolist(), answers, strict=True):
        single = made[handle].next_us(instant_us)
        assert answer == (INFINITY_US if single is None else single)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    crons=st.lists(st.tuples(fields, passes, zones), min_size=1, max_size=4),
    questions=st.lists(st.tuples(st.integers(0, 3), instants), max_size=30),
    answers_max=st.sampled_from((2, 4, 9, 64)),
)
def test_remembered_answers_are_those_computed(
    crons: list[tuple[CronFields, Passes, str]],
    questions: list[tuple[int, int]],
    answers_max: int,
) -> None:
    """In a memo of any size, asked again in any order, within the bound."""
    made = [Cron(each, load_zone(zone), passes) for each, passes, zone in crons]
    answers = Answers(answers_max)
    for asked in (questions, questions[::-1], questions * 2):
        handles = np.array([handle % len(made) for handle, _ in asked], np.int32)
        after_us = np.array([instant_us for _, instant_us in asked], np.int64)
        expected = next_batch(made, handles, after_us).tolist()
        assert expected == next_batch(made, handles, after_us, answers).tolist()
        assert min(1, len(asked)) <= len(answers) <= answers_max


def test_a_memo_answers_without_computing_and_forgets_the_oldest() -> None:
    """Two of a set of two: asked again they stay, a third drops the one asked longest ago."""
    cron = Cron(
        CronFields(1, 1, ~1 & (1 << 32) - 1, ~1 & (1 << 13) - 1, 127, False, False),
        load_zone("UTC"),
        Passes(False, True, False),
    )
    answers = Answers(2)

    def ask(*days: int) -> None:
        after_us = np.array([day * US_PER_DAY for day in days], np.int64)
        expected = [(day + 1) * US_PER_DAY for day in days]
        handles = np.zeros(len(days), np.int32)
        assert expected == next_batch([cron], handles, after_us, answers).tolist()

    ask(1, 2, 1, 3, 1, 2)
    assert 2 == len(answers)
    answers.clear()
    assert 0 == len(answers)
    ask(1)
    assert 1 == len(answers)
    for bad in (0, 1, 1 << 31):
        with pytest.raises(ValueError, match="answers_max"):
            Answers(bad)


def test_another_expression_made_in_the_place_of_one_has_answers_of_its_own() -> None:
    """Answers hang on the expression itself, not on its place in a batch or in memory."""
    answers = Answers(64)
    handles, after_us = np.zeros(1, np.int32), np.zeros(1, np.int64)
    everything = (1 << 32) - 2, (1 << 13) - 2, 127
    for minute in range(60):
        fields = CronFields(1 << minute, 1, *everything, False, False)
        cron = Cron(fields, load_zone("UTC"), Passes(False, True, False))
        expected = minute * 60 * US_PER_S or US_PER_DAY
        assert [expected] == next_batch([cron], handles, after_us, answers).tolist()


def test_what_is_no_expression_is_refused() -> None:
    """A bug of the caller never becomes a loop or a wrong memory access."""
    table = _cron.ZoneTable()
    good = {"minutes": 1, "hours": 1, "days": 2, "months": 2, "weekdays": 1}
    for bad in (
        {"minutes": 0}, {"minutes": 1 << 60}, {"hours": 1 << 24}, {"months": 1},
        {"months": 1 << 13}, {"weekdays": 128}, {"takes_first": False}, {"nth_weekdays": 1 << 35},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            _cron.CronSpec(table, **{**good, **bad})
    spec = _cron.CronSpec(table, **good)
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="handle 1 is none of 1"):
        _cron.next_batch([spec], np.ones(1, np.int32), one, one.copy(), 0)
    with pytest.raises(ValueError, match="equally long"):
        _cron.next_batch([spec], np.ones(2, np.int32), one, one.copy(), 0)
    with pytest.raises(ValueError, match="year 1900"):
        table.put_year(1900, [(0, 1, 0)])
    with pytest.raises(ValueError, match="no segments"):
        table.put_year(1970, [])


def test_no_day_at_all_ends_at_the_horizon_in_reasonable_time() -> None:
    """What the grammar refuses would still not hang the kernel."""
    never = CronFields(1, 1, 1 << 31, 1 << 2, 127, is_interval_like=False, is_either_day=False)
    cron = Cron(never, load_zone("Europe/Berlin"), Passes(False, True, False))

    assert cron.next_us(0) is None
