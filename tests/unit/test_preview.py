"""What a schedule will do, in instants and in words; and the command that shows it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mainspring.cli import main
from mainspring.cron import parse_schedule
from mainspring.cron.preview import preview
from mainspring.cron.reading import in_words
from mainspring.instants import format_instant, parse_instant
from mainspring.model import DstGap, DstOverlap

NEW_YORK = "America/New_York"


def shown(text: str, after: str, count: int, zone: str = NEW_YORK, **options: str) -> list[str]:
    """Return the instants and then the notes."""
    schedule = parse_schedule(
        text,
        zone,
        anchor_us=parse_instant(after),
        dst_gap=DstGap(options.get("gap", "next_valid")),
        dst_overlap=DstOverlap(options.get("overlap", "first")),
    )
    firings_us, notes = preview(schedule, parse_instant(after), count)
    return [*map(format_instant, firings_us), *notes]


@pytest.mark.parametrize(
    ("gap", "firings", "note"),
    [
        ("next_valid", ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"], "the first instant after"),
        ("skip", ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"], "nothing fires for it"),
    ],
)
def test_a_gap_is_told_with_what_becomes_of_it(gap: str, firings: list[str], note: str) -> None:
    """Where the clock jumps, and what fires instead."""
    *instants, said = shown("30 2 * * *", "2026-03-08T00:00:00Z", 2, gap=gap)

    assert firings == instants
    assert "2026-03-08 02:30 does not exist in America/New_York" in said
    assert said.endswith(note)


@pytest.mark.parametrize(
    ("overlap", "firings", "note"),
    [
        ("first", ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"], "it fires in the first"),
        ("second", ["2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"], "it fires in the second"),
        ("both", ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"], "it fires in both"),
    ],
)
def test_an_overlap_is_told_with_what_fires(overlap: str, firings: list[str], note: str) -> None:
    """Both instants of the wall time, and which of them count."""
    *instants, said = shown("30 1 * * *", "2026-11-01T04:00:00Z", 2, overlap=overlap)

    assert firings == instants
    assert "at 2026-11-01T05:30:00Z and 2026-11-01T06:30:00Z" in said
    assert said.endswith(note)


def test_an_interval_goes_on_in_real_time_and_says_so() -> None:
    """Nothing is invented in the gap, and both passes of the overlap are there."""
    gap = shown("0 * * * *", "2026-03-08T05:30:00Z", 3)
    overlap = shown("0 * * * *", "2026-11-01T04:30:00Z", 3)

    assert ["2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"] == gap[:3]
    assert gap[3].endswith("fires nothing for what is left out")
    assert ["2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"] == overlap[:3]
    assert overlap[3].endswith("fires in both")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 9 1 * 1", "both day fields are set"),
        ("0 9 31 * *", "months without a day 31 are passed over"),
        ("* * * * *", "it fires every minute"),
        ("* 9 * * *", "every minute of its hours"),
        ("@every 90m", "counts from the registration"),
    ],
)
def test_what_is_probably_a_mistake_is_noted(text: str, words: str) -> None:
    """In the words of a person."""
    assert words in " ".join(shown(text, "2026-06-01T00:00:00Z", 1, "UTC"))


@pytest.mark.parametrize(
    "text", ["0 9 * * 1", "0 9 L * *", "*/15 9-17 * * mon-fri", "0 9 1,31 * *"]
)
def test_what_is_all_right_has_no_notes(text: str) -> None:
    """Else nobody would read them."""
    assert 2 == len(shown(text, "2026-06-01T00:00:00Z", 2, "UTC"))


def test_an_end_is_noted() -> None:
    """Of a one-off, and of time."""
    assert ["2026-06-08T13:00:00Z"] == shown("2026-06-08T09:00", "2026-06-01T00:00:00Z", 3)[:1]
    assert "it ends" in shown("2026-06-08T09:00", "2026-06-01T00:00:00Z", 3)[-1]
    assert "it ends" in shown("0 0 1 1 *", "9998-06-01T00:00:00Z", 3, "UTC")[-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 9 * * 1", "At 09:00, only on Monday"),
        ("@daily", "At 00:00"),
        ("0 9 * * FRI#2", "At 09:00, on the second Friday of the month"),
        ("@every 10s", "Every 10s, counted from the registration"),
        ("2026-06-08T09:00:00Z", "Once, at 2026-06-08T09:00:00Z"),
    ],
)
def test_a_schedule_is_read_out(text: str, words: str) -> None:
    """In plain English."""
    assert words == in_words(parse_schedule(text, "UTC", anchor_us=0))


def test_the_command_prints_json_and_a_table() -> None:
    """Both with the same instants."""
    arguments = ["preview", "30 2 * * *", "--tz", NEW_YORK, "--after", "2026-03-08T00:00:00Z"]
    answer = CliRunner().invoke(main, [*arguments, "--count", "2", "--json"])
    table = CliRunner().invoke(main, [*arguments, "--count", "2"])

    assert 0 == answer.exit_code, answer.output
    said = json.loads(answer.stdout)
    assert ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"] == said["firings"]
    assert 1 == len(said["notes"])
    assert 0 == table.exit_code
    assert "2026-03-08 03:00:00\t-04:00\t2026-03-08T07:00:00Z" in table.stdout
    assert "note: 2026-03-08 02:30 does not exist" in table.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["0 9 31 2 *"],
        ["0 9 * * *", "--tz", "America"],
        ["0 9 * * *", "--after", "yesterday"],
        ["0 9 * * *", "--count", "0"],
        ["H 9 * * *", "--job", "seven"],
        ["0 9 * * *", "--dst-gap", "later"],
    ],
)
def test_an_error_is_a_problem_and_exits_with_2(arguments: list[str]) -> None:
    """As for every command."""
    done = CliRunner().invoke(main, ["preview", *arguments, "--json"])

    assert 2 == done.exit_code
    assert json.loads(done.stdout)["problem"]


def test_an_h_is_that_of_the_job() -> None:
    """Two jobs, two minutes."""
    texts = [
        CliRunner().invoke(main, ["preview", "H 9 * * *", "--job", job, "--json"]).stdout
        for job in ("j_1", "j_2")
    ]

    assert texts[0] != texts[1]
