"""What one job will do over a span, as exact tables."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.errors import InvalidInput
from mainspring.instants import US_PER_S, parse_instant
from unit.forecast_stage import Found, clock, forecast

NEW_YORK = "America/New_York"
GAP = ("2026-03-08T05:00:00Z", "2026-03-09T05:00:00Z")
OVERLAP = ("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z")


# The changes of the clock ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "span", "fields", "firings"),
    [
        ("30 2 * * *", GAP, {}, ["08T07:00"]),
        ("30 2 * * *", GAP, {"dst_gap": "skip"}, []),
        ("15,45 2 * * *", GAP, {}, ["08T07:00"]),
        ("30 1 * * *", OVERLAP, {}, ["01T05:30"]),
        ("30 1 * * *", OVERLAP, {"dst_overlap": "second"}, ["01T06:30"]),
        ("30 1 * * *", OVERLAP, {"dst_overlap": "both"}, ["01T05:30", "01T06:30"]),
    ],
)
def test_a_fixed_time_in_a_night_of_change(
    schedule: str, span: tuple[str, str], fields: dict[str, Any], firings: list[str]
) -> None:
    """Through gap and overlap as the options say."""
    assert forecast(schedule, *span, timezone=NEW_YORK, **fields) == (firings, [], 0)


def test_an_interval_in_a_night_of_change() -> None:
    """Every hour has passed once, whatever the wall clock shows."""
    gap = forecast("0 * * * *", "2026-03-08T04:30:00Z", "2026-03-08T09:00:00Z", timezone=NEW_YORK)
    overlap = forecast(
        "0 */2 * * *", "2026-11-01T03:30:00Z", "2026-11-01T10:00:00Z", timezone=NEW_YORK
    )

    assert gap.firings == ["08T05:00", "08T06:00", "08T07:00", "08T08:00"]
    assert overlap.firings == ["01T04:00", "01T07:00", "01T09:00"]


def test_an_outage_over_the_gap_is_caught_up_once() -> None:
    """What the gap moved to 07:00Z was missed like anything else."""
    found = forecast(
        "30 2 * * *", *GAP, [("2026-03-08T06:30:00Z", "2026-03-08T08:30:00Z")], timezone=NEW_YORK
    )

    assert found == (["08T07:00 > 08T08:30 catch-up"], [], 0)


# Missed windows --------------------------------------------------------------------------------

NIGHT = [("2026-06-01T00:02:00Z", "2026-06-01T12:02:00Z")]


def slots(first: int, count: int) -> list[str]:
    """Return every fifth minute from 00:05 on."""
    start_us = parse_instant("2026-06-01T00:05:00Z")
    return [clock(start_us + (first + i) * 300 * US_PER_S) for i in range(count)]


@pytest.mark.parametrize(
    ("fields", "run_count", "missed"),
    [
        ({"missed_window": "SKIP"}, 0, ["01T12:02: 144, 01T00:05 to 01T12:00"]),
        ({"missed_window": "RUN_ONCE"}, 1, ["01T12:02: 143, 01T00:05 to 01T11:55"]),
        ({"missed_window": "RUN_ALL"}, 100, ["01T12:02: 44, 01T00:05 to 01T03:40"]),
        ({"missed_window": "RUN_ALL", "max_missed": 200}, 144, []),
    ],
)
def test_a_night_without_power(fields: dict[str, Any], run_count: int, missed: list[str]) -> None:
    """Every five minutes, 144 missed; oldest first, the newest kept, then on time (case D-B01)."""
    found = forecast("*/5 * * * *", "2026-05-31T23:59:00Z", "2026-06-01T12:11:00Z", NIGHT, **fields)

    catch_ups = [f"{slot} > 01T12:02 catch-up" for slot in slots(144 - run_count, run_count)]
    assert found.firings == ["01T00:00", *catch_ups, "01T12:05", "01T12:10"]
    assert found.missed == missed
    assert found.waiting == 0


@pytest.mark.parametrize(
    ("policy", "firings", "missed"),
    [
        ("SKIP", ["01T03:00 > 01T03:00:30"], ["01T03:00:30: 2, 01T01:00 to 01T02:00"]),
        (
            "RUN_ONCE",
            ["01T02:00 > 01T03:00:30 catch-up", "01T03:00 > 01T03:00:30"],
            ["01T03:00:30: 1, 01T01:00 to 01T01:00"],
        ),
        (
            "RUN_ALL",
            [
                "01T01:00 > 01T03:00:30 catch-up",
                "01T02:00 > 01T03:00:30 catch-up",
                "01T03:00 > 01T03:00:30",
            ],
            [],
        ),
    ],
)
def test_the_newest_is_late_where_the_grace_covers_it(
    policy: str, firings: list[str], missed: list[str]
) -> None:
    """Half a minute late is within a minute's grace: no catch-up."""
    found = forecast(
        "0 * * * *",
        "2026-06-01T00:30:00Z",
        "2026-06-01T03:30:00Z",
        [("2026-06-01T00:45:00Z", "2026-06-01T03:00:30Z")],
        missed_window=policy,
    )

    assert found == (firings, missed, 0)


def test_an_outage_is_sharp_at_both_ends() -> None:
    """What is due as it begins waits; what is due as it ends is on time."""
    found = forecast(
        "0 * * * *",
        "2026-06-01T00:30:00Z",
        "2026-06-01T04:00:00Z",
        [("2026-06-01T01:00:00Z", "2026-06-01T03:00:00Z")],
    )

    # 03:00 runs at 03:00, after the catch-up that stands for 01:00 and 02:00.
    assert found.firings == ["01T02:00 > 01T03:00 catch-up", "01T03:00"]
    assert found.missed == ["01T03:00: 1, 01T01:00 to 01T01:00"]


def test_outages_that_touch_are_one() -> None:
    """Nothing slips through between them, in whatever order they are written."""
    found = forecast(
        "0 * * * *",
        "2026-06-01T00:30:00Z",
        "2026-06-01T03:30:00Z",
        [
            ("2026-06-01T02:00:00Z", "2026-06-01T02:30:00Z"),
            ("2026-06-01T00:45:00Z", "2026-06-01T02:00:00Z"),
        ],
    )

    assert found.firings == ["01T02:00 > 01T02:30 catch-up", "01T03:00"]


def test_an_outage_from_before_the_span_is_looked_at_whole() -> None:
    """What was missed before the span is caught up in it, also where it ends as the span begins."""
    for to, start in (("01:10", "01T01:10"), ("01:05", "01T01:05")):
        found = forecast(
            "0 * * * *",
            "2026-06-01T01:05:00Z",
            "2026-06-01T02:30:00Z",
            [("2026-05-31T22:30:00Z", f"2026-06-01T{to}:00Z")],
            registered_at="2026-05-01T00:00:00Z",
        )

        assert found.firings == [f"01T01:00 > {start} catch-up", "01T02:00"]
        assert found.missed == [f"{start}: 2, 31T23:00 to 01T00:00"]


def test_what_is_not_served_by_the_end_waits() -> None:
    """An outage goes on at the end of the span."""
    found = forecast(
        "0 * * * *",
        "2026-06-01T00:30:00Z",
        "2026-06-01T04:00:00Z",
        [("2026-06-01T01:30:00Z", "2026-06-01T04:00:00Z")],
    )

    assert found == (["01T01:00"], [], 2)


# One-offs and registrations --------------------------------------------------------------------


def test_a_one_off_in_the_past_runs_at_once() -> None:
    """When it is registered, or when the outage of then ends; it is late, and no catch-up."""
    span = ("2026-06-01T12:00:00Z", "2026-06-01T13:00:00Z")
    outage = [("2026-06-01T11:00:00Z", "2026-06-01T12:30:00Z")]

    for policy in ("RUN_ONCE", "RUN_ALL"):
        found = forecast("2026-05-01T09:00:00Z", *span, missed_window=policy)
        assert found == (["01T09:00 > 01T12:00"], [], 0)
    assert forecast("2026-05-01T09:00:00Z", *span, outage).firings == ["01T09:00 > 01T12:30"]
    assert forecast("2026-06-01T12:00:00Z", *span).firings == ["01T12:00"]


def test_a_one_off_that_skips_is_refused_in_the_past() -> None:
    """As registration refuses it."""
    with pytest.raises(InvalidInput, match="is past") as refused:
        forecast(
            "2026-05-01T09:00:00Z",
            "2026-06-01T12:00:00Z",
            "2026-06-01T13:00:00Z",
            missed_window="SKIP",
        )

    assert refused.value.pointer == "/jobs/0/schedule"


def test_a_one_off_that_was_registered_before_the_span_is_over() -> None:
    """Also if its instant had been past then; one to come fires once."""
    span = ("2026-06-01T12:00:00Z", "2026-06-01T13:00:00Z")
    early = {"registered_at": "2026-05-20T00:00:00Z"}

    assert forecast("2026-05-25T00:00:00Z", *span, **early) == ([], [], 0)
    assert forecast("2026-05-10T00:00:00Z", *span, **early) == ([], [], 0)
    assert forecast("2026-06-01T12:30:00Z", *span, **early).firings == ["01T12:30"]


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ("SKIP", Found([], ["01T14:00: 1, 01T12:30 to 01T12:30"], 0)),
        ("RUN_ONCE", Found(["01T12:30 > 01T14:00 catch-up"], [], 0)),
        ("RUN_ALL", Found(["01T12:30 > 01T14:00 catch-up"], [], 0)),
    ],
)
def test_a_one_off_in_an_outage(policy: str, found: Found) -> None:
    """Missed, as its policy says."""
    assert found == forecast(
        "2026-06-01T12:30:00Z",
        "2026-06-01T12:00:00Z",
        "2026-06-01T15:00:00Z",
        [("2026-06-01T12:10:00Z", "2026-06-01T14:00:00Z")],
        missed_window=policy,
    )


def test_a_period_counts_from_the_registration() -> None:
    """Which is the start of the span where the file does not say."""
    span = ("2026-06-01T00:00:00Z", "2026-06-01T00:03:00Z")

    assert forecast("@every 70s", *span).firings == ["01T00:01:10", "01T00:02:20"]
    assert forecast("@every 70s", *span, registered_at="2026-05-31T23:59:00Z").firings == [
        "01T00:00:10",
        "01T00:01:20",
        "01T00:02:30",
    ]
    assert forecast("@every 70s", *span, registered_at="2026-06-01T00:01:00Z").firings == [
        "01T00:02:10"
    ]


def test_an_occurrence_at_the_very_registration_is_not_the_jobs() -> None:
    """A job that was there before has it; the end of the span belongs to the next one."""
    span = ("2026-06-01T01:00:00Z", "2026-06-01T02:00:00Z")

    assert forecast("0 * * * *", *span).firings == []
    assert forecast("0 * * * *", *span, registered_at="2026-06-01T00:59:59Z").firings == [
        "01T01:00"
    ]


def test_an_h_is_the_jobs_own() -> None:
    """By its id, which is its number in the file where the file does not say."""
    span = ("2026-06-01T00:00:00Z", "2026-06-01T01:00:00Z")
    minutes = {
        job_id: forecast("H * * * *", *span, job_id=job_id).firings for job_id in ("j_1", "j_2")
    }

    assert minutes["j_1"] != minutes["j_2"]
    assert forecast("H * * * *", *span).firings == minutes["j_1"]


# Runs that take time ---------------------------------------------------------------------------


def test_an_occurrence_waits_for_the_end_of_the_run() -> None:
    """Runs of 90 s in every minute: each second one starts late, until it is beyond the grace."""
    found = forecast(
        "* * * * *",
        "2026-06-01T00:00:30Z",
        "2026-06-01T00:10:00Z",
        runs_take="90s",
    )

    assert found.firings == [
        "01T00:01",
        "01T00:02 > 01T00:02:30",
        "01T00:03 > 01T00:04",
        "01T00:04 > 01T00:05:30 catch-up",
        "01T00:06 > 01T00:07 catch-up",
        "01T00:07 > 01T00:08:30 catch-up",
    ]
    assert found.missed == ["01T00:07: 1, 01T00:05 to 01T00:05"]
    assert found.waiting == 2


def test_runs_that_fit_between_are_on_time() -> None:
    """A run may end at the very instant of the next occurrence."""
    found = forecast(
        "*/15 * * * *", "2026-06-01T00:00:00Z", "2026-06-01T01:00:00Z", runs_take="15m"
    )

    assert found == (["01T00:15", "01T00:30", "01T00:45"], [], 0)


def test_a_run_that_an_outage_surprises_is_finished() -> None:
    """Its next occurrence waits for the end of the outage, and no longer."""
    found = forecast(
        "0 * * * *",
        "2026-06-01T00:30:00Z",
        "2026-06-01T04:00:00Z",
        [("2026-06-01T01:10:00Z", "2026-06-01T02:00:30Z")],
        runs_take="30m",
    )

    assert found.firings == ["01T01:00", "01T02:00 > 01T02:00:30", "01T03:00"]


def test_catch_up_runs_come_one_after_the_other() -> None:
    """What passes meanwhile is judged anew, and the cap holds again."""
    found = forecast(
        "0 * * * *",
        "2026-06-01T00:30:00Z",
        "2026-06-01T09:00:00Z",
        [("2026-06-01T00:45:00Z", "2026-06-01T05:10:00Z")],
        missed_window="RUN_ALL",
        max_missed=2,
        runs_take="40m",
    )

    assert found.firings == [
        "01T04:00 > 01T05:10 catch-up",
        "01T05:00 > 01T05:50 catch-up",
        "01T06:00 > 01T06:30 catch-up",
        "01T07:00 > 01T07:10 catch-up",
        "01T08:00",
    ]
    assert found.missed == ["01T05:10: 3, 01T01:00 to 01T03:00"]
