"""The demo's judgement: what it must notice in either of its two sources."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mainspring.cli.demo.verdict import Counts, RowVerdict, judge

JOB = "j_1"
DUE = (10, 20, 30)
LAST_SURE_US = 20


def counts(*runs: tuple[int, int, str]) -> Counts:
    """Return what was counted, from (scheduled_us, attempt, outcome)."""
    made = Counts(Counter(), Counter(), Counter())
    for at_us, attempt, outcome in runs:
        made.starts[JOB, at_us, attempt] += 1
        if outcome == "end":
            made.ends[JOB, at_us] += 1
        elif outcome == "fail":
            made.failures[JOB, at_us] += 1
    return made


ALL = counts((10, 1, "end"), (20, 1, "end"), (30, 1, "end"))


def verdict(logs: Counts, tables: Counts) -> RowVerdict:
    return judge(
        "a job",
        {JOB: DUE},
        attempts=1,
        ends_with="success",
        optional_after_us=LAST_SURE_US,
        sources=(logs, tables),
    )


def test_what_came_once_each_is_kept() -> None:
    row = verdict(ALL, ALL)

    assert (True, 0, 0, 3, 3) == (row.is_kept, row.missed, row.extra, row.logged, row.recorded)
    assert "2 to 3" == row.expected


def test_what_fell_due_at_the_stop_may_be_missing() -> None:
    without_last = counts((10, 1, "end"), (20, 1, "end"))

    assert verdict(without_last, without_last).is_kept


@pytest.mark.parametrize(
    ("broken", "missed", "extra"),
    [
        (counts((10, 1, "end")), 1, 0),
        (counts((10, 1, "end"), (20, 1, "begun")), 1, 0),
        (counts((10, 1, "end"), (20, 1, "end"), (20, 1, "begun")), 0, 1),
        (counts((10, 1, "end"), (20, 1, "begun"), (20, 2, "end")), 0, 1),
        (counts((10, 1, "end"), (20, 1, "end"), (25, 1, "end")), 0, 1),
    ],
    ids=["never came", "never ended", "started twice", "tried twice", "was never due"],
)
@pytest.mark.parametrize("is_in_logs", [True, False])
def test_either_source_breaks_the_promise(
    broken: Counts, missed: int, extra: int, is_in_logs: bool
) -> None:
    row = verdict(broken, ALL) if is_in_logs else verdict(ALL, broken)

    assert (False, missed, extra) == (row.is_kept, row.missed, row.extra)


def test_other_jobs_are_not_counted() -> None:
    others = Counts(Counter({("j_2", 10, 1): 2}), Counter({("j_2", 10): 2}), Counter())

    row = judge(
        "a job",
        {JOB: ()},
        attempts=1,
        ends_with="success",
        optional_after_us=LAST_SURE_US,
        sources=(others, others),
    )

    assert (True, 0, 0) == (row.is_kept, row.logged, row.recorded)


def test_a_dead_letter_needs_each_of_its_failures() -> None:
    failed_once, failed_twice = counts((10, 1, "fail")), counts((10, 1, "fail"), (10, 2, "fail"))

    rows = [
        judge(
            "doomed",
            {JOB: (10,)},
            attempts=2,
            ends_with="dead",
            optional_after_us=LAST_SURE_US,
            sources=(seen, seen),
        )
        for seen in (failed_once, failed_twice)
    ]

    assert [(1, "2 failures"), (0, "2 failures")] == [(row.missed, row.expected) for row in rows]


def test_a_doomed_job_that_never_ended_dead_is_missed() -> None:
    """The tables know which failure was the last; two `failed` rows are not a dead letter."""
    seen = counts((10, 1, "fail"), (10, 2, "fail"))

    rows = [
        judge(
            "doomed",
            {JOB: (10,)},
            attempts=2,
            ends_with="dead",
            optional_after_us=LAST_SURE_US,
            sources=(seen, replace(seen, deaths=frozenset(deaths))),
        )
        for deaths in ((), ((JOB, 10),))
    ]

    assert [1, 0] == [row.missed for row in rows]
