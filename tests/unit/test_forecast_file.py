"""The file of a forecast: what it may hold, and how each mistake is refused."""

from __future__ import annotations

import pytest

from mainspring.errors import InvalidInput
from mainspring.forecast import plan as plan_module
from mainspring.forecast import read_plan
from mainspring.instants import US_PER_MIN, US_PER_S, parse_instant
from mainspring.model import DstGap, DstOverlap, MissedWindow
from unit.forecast_stage import toml

HOUR = 60 * US_PER_MIN


@pytest.mark.parametrize(
    ("text", "pointer", "message"),
    [
        ("[[jobs]]\nname = a", "", "not TOML: invalid value (at line 2, column 8)"),
        ("x = " + "[" * 100_000, "", "nested too deep"),
        ("x = " + "1" * 10_000, "", "not TOML"),
        ("[[job]]\nname = 'a'", "/job", "unknown table 'job'"),
        ("", "/jobs", "there are no jobs"),
        ("jobs = 1", "/jobs", "jobs is not an array of tables"),
        ("jobs = [1]", "/jobs", "jobs is not an array of tables"),
        ("[[jobs]]\nname = 'a'", "/jobs/0/schedule", "missing required field"),
        (
            "[[jobs]]\nname='a'\nschedule='@daily'\n[[jobs]]\nname='b'\nschedule='61 * * * *'",
            "/jobs/1/schedule",
            "'61' is not in 0..59",
        ),
        ("[[jobs]]\nname = 'a'\nschedule = '@daily'\nqueu = 'b'", "/jobs/0/queu", "unknown field"),
        (
            "[[jobs]]\nname = 'a'\nschedule = '@daily'\ntimezone = 'Nowhere'",
            "/jobs/0/timezone",
            "unknown time zone",
        ),
        ("[[jobs]]\nname = 'a'\nschedule = 2026-01-01T00:00:00Z", "/jobs/0/schedule", "TOML date"),
        (
            "[[jobs]]\nname = 'a'\nschedule = '@daily'\nmax_missed = 0",
            "/jobs/0/max_missed",
            "not in 1..10000",
        ),
        (
            "[[jobs]]\nname = 'a'\nschedule = '@daily'\n[[jobs]]\nname='a'\nschedule = '@daily'",
            "/jobs/1/name",
            "is taken",
        ),
        *(
            (
                f"[[jobs]]\nname = 'a'\nschedule = '@daily'\nruns_take = {value}",
                "/jobs/0/runs_take",
                "",
            )
            for value in ("30", "'PT0S'", "'1 s'", "'P1M'", "true")
        ),
        *(
            (f"[[jobs]]\nname='a'\nschedule='@daily'\nregistered_at = {value}", place, message)
            for value, place, message in [
                ("2026-01-01", "/jobs/0/registered_at", "no instant with an offset"),
                ("2026-01-01T00:00:00", "/jobs/0/registered_at", "no instant with an offset"),
                ("'2026-01-01T00:00:00'", "/jobs/0/registered_at", "has no offset"),
                ("1969-01-01T00:00:00Z", "/jobs/0/registered_at", "not in 1970..9999"),
            ]
        ),
        ("[[jobs]]\nname='a'\nschedule='@daily'\njob_id = 7", "/jobs/0/job_id", "job_id is '7'"),
        ("[[jobs]]\nname='a'\nschedule='@daily'\njob_id = 'x'", "/jobs/0/job_id", "not a job id"),
        *(
            (f"[[jobs]]\nname='a'\nschedule='@daily'\n[[outages]]\n{outage}", place, message)
            for outage, place, message in [
                ("to = 2026-01-01T00:00:00Z", "/outages/0/from", "an outage without from"),
                ("from = 2026-01-01T00:00:00Z", "/outages/0/to", "an outage without to"),
                (
                    "from = 2026-01-01T01:00:00Z\nto = 2026-01-01T00:00:00Z",
                    "/outages/0/to",
                    "ends before it begins",
                ),
                (
                    "from = 2026-01-01T01:00:00Z\nto = 2026-01-01T02:00:00Z\nwhat = 'worker'",
                    "/outages/0/what",
                    "what is 'worker'",
                ),
                ("form = 2026-01-01T01:00:00Z", "/outages/0/form", "unknown field 'form'"),
            ]
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(
    text: str, pointer: str, message: str
) -> None:
    """Line and column of what is no TOML, a pointer for everything else, and what to write."""
    with pytest.raises(InvalidInput) as refused:
        read_plan(text.encode(), from_us=0)

    assert refused.value.pointer == pointer
    assert message in refused.value.message
    assert refused.value.hint


def test_a_file_that_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, jobs and outages are counted before they are looked at; UTF-8 is asked for."""
    job = {"name": "a", "schedule": "@daily"}
    outage = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")
    monkeypatch.setattr(plan_module, "JOBS_MAX", 2)
    monkeypatch.setattr(plan_module, "OUTAGES_MAX", 1)
    monkeypatch.setattr(plan_module, "FILE_BYTES_MAX", 1_000)
    refusals = []
    for data in (
        toml([{"name": "a"}] * 3),
        toml([job], [outage] * 2),
        toml([job]) + b"#" * 1_000,
        b"\xff",
    ):
        with pytest.raises(InvalidInput) as refused:
            read_plan(data, from_us=0)
        refusals.append((refused.value.pointer, refused.value.message))

    assert refusals == [
        ("/jobs", "there are 3 jobs"),
        ("/outages", "there are 2 outages"),
        ("", f"the file has {len(toml([job])) + 1_000:,} bytes"),
        ("", "the file is not UTF-8: byte 0"),
    ]


def test_a_job_has_the_fields_of_a_registration() -> None:
    """With their defaults; instants in quotes or not, payloads as TOML has them."""
    data = b"""
        [[jobs]]
        name = "a"
        schedule = "0 2 * * *"
        timezone = "Europe/Berlin"
        dst_gap = "skip"
        dst_overlap = "both"
        registered_at = 2026-01-01T01:00:00+01:00
        runs_take = "PT1M30S"
        payload = { since = 2026-01-01, rows = [1, 2] }
        [[jobs]]
        name = "b"
        schedule = "@every 1h"
        """
    first, second = read_plan(data, from_us=5 * HOUR).jobs

    assert (first.schedule.dst_gap, first.schedule.dst_overlap) == (DstGap.SKIP, DstOverlap.BOTH)
    assert first.registered_us == parse_instant("2026-01-01T00:00:00Z")
    assert first.runs_take_us == 90 * US_PER_S
    assert first.definition.payload == '{"since":"2026-01-01","rows":[1,2]}'
    assert first.definition.missed_window is MissedWindow.RUN_ONCE
    assert (second.registered_us, second.runs_take_us) == (5 * HOUR, 0)
    assert second.schedule.anchor_us == 5 * HOUR
