"""`H`: chosen by the job, the same everywhere, spread over all jobs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.cron.grammar import parse_fields
from mainspring.cron.spread import is_spread, spread
from mainspring.errors import InvalidSchedule
from mainspring.instants import parse_instant

AFTER_US = parse_instant("2026-06-08T12:00:00Z")


def test_it_is_the_same_for_a_job_and_differs_between_jobs() -> None:
    """Pinned: another release must not move the jobs of a running system."""
    assert "22 4 * * *" == spread("H H * * *", 1)
    assert "35 3 * * *" == spread("H H * * *", 2)
    assert spread("H H * * *", 1) == spread("H H * * *", 1)


def test_jobs_spread_evenly() -> None:
    """Each minute of the hour gets about its share of 60,000 jobs."""
    minutes = Counter(spread("H 0 * * *", job_id).split()[0] for job_id in range(60_000))

    assert 60 == len(minutes)
    assert 850 < min(minutes.values()) <= max(minutes.values()) < 1_150


@pytest.mark.parametrize(
    ("text", "low", "high", "step"),
    [
        ("H/15 * * * *", 0, 59, 15),
        ("H(10-29)/5 * * * *", 10, 29, 5),
        ("H(3-3) * * * *", 3, 3, 1),
    ],
)
def test_ranges_and_steps_stay_within(text: str, low: int, high: int, step: int) -> None:
    """The start lies anywhere below the step, and nothing beyond the range."""
    firsts = {int(spread(text, job_id).split()[0].split(",")[0]) for job_id in range(1, 400)}
    assert set(range(low, low + step)) == firsts
    for job_id in range(1, 200):
        values = [int(value) for value in spread(text, job_id).split()[0].split(",")]
        assert low <= values[0] < low + step
        assert values[-1] <= high
        assert all(b - a == step for a, b in pairwise(values))
        if step > 1:
            assert values[-1] + step > high


def test_days_go_to_the_28th_so_that_no_month_is_left_out() -> None:
    """And so every job with `H` there fires every month."""
    days = {int(spread("0 0 H * *", job_id).split()[2]) for job_id in range(1, 2_000)}

    assert days == set(range(1, 29))


def test_a_schedule_with_it_is_read_for_one_job() -> None:
    """Two jobs with one text have different occurrences; lists and other fields stay."""
    first, second = (
        parse_schedule("H,30 9 * * 1", "UTC", anchor_us=0, job_id=job_id) for job_id in (1, 2)
    )

    assert next_occurrence_us(first, AFTER_US) != next_occurrence_us(second, AFTER_US)


def test_aliases_names_and_plain_texts_have_none() -> None:
    """The letter h inside of words is no `H`."""
    assert not is_spread("@hourly")
    assert not is_spread("0 9 * mar thu")
    assert "0 9 * mar thu" == spread("0 9 * mar thu", 5)
    assert is_spread(" 0 9,H * * *")


@pytest.mark.parametrize(
    "text", ["H(1) * * * *", "H(5-2) * * * *", "H/99 * * * *", "0 H(0-24) * * *"]
)
def test_what_cannot_be_read_names_its_column(text: str) -> None:
    """As every refusal of a schedule does."""
    with pytest.raises(InvalidSchedule, match=r"at column [13]:") as caught:
        parse_schedule(text, "UTC", anchor_us=0)

    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("H 25 * * *", 3, "'25' is not in 0..23"),
        ("  H/5  H  32 * *", 11, "'32' is not in 1..31"),
        ("H(0-29)/10,99 * * * *", 12, "'99' is not in 0..59"),
        ("0 9 H,L,32W * *", 9, "there is no day 32"),
        ("99 H(9-1) * * *", 1, "'99' is not in 0..59"),
        ("0 H(9-1) 99 * *", 3, "the range of 'H(9-1)'"),
        ("5,H(9-1) * * * *", 3, "the range of 'H(9-1)'"),
        ("H-5 * * * *", 1, "cannot read 'H-5'"),
        ("H 0 30 2 *", None, "schedule 'H 0 30 2 *' never fires"),
        ("H 0 * * * *", 11, "6 fields instead of five"),
    ],
)
def test_what_stands_beside_it_is_shown_as_given(text: str, column: int | None, what: str) -> None:
    """The column and the text are the user's, whatever the `H` stands for in numbers."""
    for job_id in (1, 2, 3_000_000_000):
        with pytest.raises(InvalidSchedule) as caught:
            parse_schedule(text, "UTC", anchor_us=0, job_id=job_id)

        assert what in caught.value.message
        if column is not None:
            assert f"{text!r} at column {column}:" in caught.value.message


@pytest.mark.parametrize("text", ["H H * * *", "H/7,59 H(8-18)/3 H,L * 1-5", "0 0 H * H#2"])
def test_read_by_the_grammar_it_is_the_text_in_numbers(text: str) -> None:
    """What a memo and a reading in words take for the schedule is the schedule."""
    for job_id in range(1, 60):
        if "H#" in text:
            with pytest.raises(InvalidSchedule):
                parse_fields(text, job_id)
        else:
            assert parse_fields(spread(text, job_id)) == parse_fields(text, job_id)
