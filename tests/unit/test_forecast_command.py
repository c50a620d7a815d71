"""`mainspring forecast` and its page."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mainspring.cli import forecast as command
from mainspring.cli import main

TONIGHT = """
[[jobs]]
name = "report"
schedule = "30 2 * * *"
timezone = "America/New_York"

[[jobs]]
name = "sync"
schedule = "*/30 * * * *"
missed_window = "RUN_ALL"
max_missed = 2
runs_take = "5m"

[[outages]]
from = 2026-03-08T05:40:00Z
to = 2026-03-08T07:30:20Z
"""
SPAN = ("--from", "2026-03-08T05:15:00Z", "--to", "2026-03-08T08:10:00Z")


@pytest.fixture
def tonight(tmp_path: Path) -> str:
    """The path of a file."""
    file = tmp_path / "tonight.toml"
    file.write_text(TONIGHT)
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["forecast", *arguments], prog_name="mainspring")


def test_the_command_prints_a_table(tonight: str) -> None:
    """One line a firing or miss, by the clock of its job; and what each job does in all."""
    done = run(tonight, *SPAN)

    assert done.exit_code == 0
    assert (
        done.stdout
        == """\
local time                  UTC                   job     what
2026-03-08 05:30:00 +00:00  2026-03-08T05:30:00Z  sync    on time
2026-03-08 07:30:20 +00:00  2026-03-08T07:30:20Z  sync    missed x1: 2026-03-08 06:00:00
2026-03-08 07:30:20 +00:00  2026-03-08T07:30:20Z  sync    catch-up of 2026-03-08 06:30:00
2026-03-08 03:30:20 -04:00  2026-03-08T07:30:20Z  report  catch-up of 2026-03-08 03:00:00
2026-03-08 07:35:20 +00:00  2026-03-08T07:35:20Z  sync    catch-up of 2026-03-08 07:00:00
2026-03-08 07:40:20 +00:00  2026-03-08T07:40:20Z  sync    catch-up of 2026-03-08 07:30:00
2026-03-08 08:00:00 +00:00  2026-03-08T08:00:00Z  sync    on time

job     firings  on time  late  catch-up  missed  waiting  latest by
report        1        0     0         1       0        0  30m20s
sync          5        2     0         3       1        0  1h
all           6        2     0         4       1        0  1h
"""
    )


def test_the_command_prints_one_json_value(tonight: str) -> None:
    """The same, for machines."""
    done = run(tonight, *SPAN, "--json")
    value = json.loads(done.stdout)

    assert done.exit_code == 0
    assert ("firings", "missed", "summary") == tuple(value)
    assert len(value["firings"]) == 6
    assert value["firings"][1] == {
        "job": "sync",
        "scheduled_at": "2026-03-08T06:30:00Z",
        "starts_at": "2026-03-08T07:30:20Z",
        "late_seconds": 3620,
        "catch_up": True,
    }
    assert value["missed"] == [
        {
            "job": "sync",
            "judged_at": "2026-03-08T07:30:20Z",
            "count": 1,
            "first_at": "2026-03-08T06:00:00Z",
            "last_at": "2026-03-08T06:00:00Z",
        }
    ]
    assert value["summary"]["total"]["firings"] == 6
    assert value["summary"]["jobs"]["sync"] == {
        "firings": 5,
        "on_time": 2,
        "late": 0,
        "catch_up": 3,
        "missed": 1,
        "waiting": 0,
        "late_seconds_max": 3620,
    }


def test_firings_come_in_the_order_in_which_they_start(tmp_path: Path) -> None:
    """A late one after those that were due later and start before it."""
    file = tmp_path / "jobs.toml"
    file.write_text(TONIGHT + "[[jobs]]\nname = 'probe'\nschedule = '36 7 * * *'\n")
    firings = json.loads(run(str(file), *SPAN, "--json").stdout)["firings"]
    starts = [each["starts_at"] for each in firings]

    assert sorted(starts) == starts
    assert [each["job"] for each in firings[-3:]] == ["probe", "sync", "sync"]


def test_a_summary_leaves_the_firings_out(tonight: str) -> None:
    """In both forms, and the limit does not count for it."""
    text = run(tonight, *SPAN, "--summary", "--limit", "1")
    value = json.loads(run(tonight, *SPAN, "--summary", "--json").stdout)
    whole = run(tonight, *SPAN)

    assert whole.stdout.endswith("\n\n" + text.stdout)
    assert text.stdout.startswith("job ")
    assert list(value) == ["summary"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*SPAN, "--limit", "6"], "there are 7 occurrences in the span"),
        ([*SPAN[:3], SPAN[1]], "the span ends before it begins"),
        ([*SPAN[:3], "9999-12-31T00:00:00Z"], "after the last occurrence of any schedule"),
        ([*SPAN[:3], "tomorrow"], "bad instant 'tomorrow'"),
    ],
)
def test_a_span_that_cannot_be_is_refused(tonight: str, arguments: list[str], message: str) -> None:
    """Exit code 2, in words or as one JSON value, with a hint."""
    done = run(tonight, *arguments)
    problem = run(tonight, *arguments, "--json")

    assert (done.exit_code, problem.exit_code) == (2, 2)
    assert message in done.stderr
    assert "hint: " in done.stderr
    assert message in json.loads(problem.stdout)["problem"]


def test_a_problem_names_the_file_and_the_place(tmp_path: Path) -> None:
    """Line and column, or a pointer; a folder and a file that is not there are bad input, too."""
    file = tmp_path / "jobs.toml"
    file.write_text("[[jobs]]\nname = 'a'\nschedule = '* * *'\n")
    job = run(str(file), *SPAN)
    file.write_text("[[jobs]\n")
    syntax = run(str(file), *SPAN)

    assert (job.exit_code, syntax.exit_code) == (2, 2)
    assert job.stderr.startswith("mainspring: /jobs/0/schedule: wrong number of fields")
    assert f"in {file}" in job.stderr
    assert "(at line 1, column 7)" in syntax.stderr
    for path in (tmp_path, tmp_path / "none.toml"):
        assert run(str(path), *SPAN).exit_code == 2


def test_a_bar_is_drawn_for_a_person_once_it_has_taken_a_while(
    tonight: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr; not for a pipe, and not for what is done at once."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    drawn = []
    for stream, after_us in ((Terminal(), -1), (Terminal(), 10**8), (io.StringIO(), -1)):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(command, "PROGRESS_AFTER_US", after_us)
        with command._progress(2) as advance:
            advance()
            advance()
        drawn.append(stream.getvalue())

    assert "forecast" in drawn[0]
    assert "100%" in drawn[0]
    assert drawn[1:] == ["", ""]


# The document ----------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "forecast.md"


def test_the_documents_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command on the page, with the file on the page."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (file,) = [body for language, body in blocks if language == "toml"]
    (tmp_path / "tonight.toml").write_text(file)
    monkeypatch.chdir(tmp_path)
    shown = 0
    for _, body in blocks:
        if not body.startswith("$ mainspring forecast "):
            continue
        line, _, output = body.partition("\n")
        done = run(*line.removeprefix("$ mainspring forecast ").split())
        assert done.exit_code == 0
        assert done.stdout == output
        shown += 1

    assert shown == 2
