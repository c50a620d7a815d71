"""`mainspring jobs` on a database: what it registers, changes, pauses and resumes, and says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mainspring.cli import main
from mainspring.registration import FIELDS
from mainspring.store.prepare import prepare_database

PAST = "2020-01-01T00:00:00Z"
NAMES = {"idempotency_key_template": "--key-template"}
CHANGES: dict[str, tuple[str, object]] = {
    "name": ("other", "other"),
    "schedule": ("30 14 1 1 *", "30 14 1 1 *"),
    "timezone": ("America/New_York", "America/New_York"),
    "task": ("t", "t"),
    "queue": ("q", "q"),
    "payload": ('{"n": [1, null]}', {"n": [1, None]}),
    "idempotency_key_template": ("k-{{date}}", "k-{{date}}"),
    "max_retries": ("7", 7),
    "retry_backoff": ("linear", "linear"),
    "retry_base_seconds": ("6", 6),
    "retry_cap_seconds": ("60", 60),
    "timeout_seconds": ("12", 12),
    "missed_window": ("RUN_ALL", "RUN_ALL"),
    "max_missed": ("5", 5),
    "misfire_grace_seconds": ("0", 0),
    "dst_gap": ("skip", "skip"),
    "dst_overlap": ("both", "both"),
}


def option(field: str) -> str:
    return NAMES.get(field, f"--{field.replace('_', '-')}")


class Command:
    """`mainspring jobs` on one database, in this process."""

    def __init__(self, dsn: str) -> None:
        prepare_database(dsn, shards=2)
        self.dsn = dsn

    def run(self, *arguments: str) -> Result:
        answer = CliRunner().invoke(
            main, ["jobs", *arguments, "--dsn", self.dsn], prog_name="mainspring"
        )
        assert answer.exception is None or isinstance(answer.exception, SystemExit)
        return answer

    def said(self, *arguments: str, code: int = 0) -> Any:
        """Return the one JSON value of stdout."""
        answer = self.run(*arguments, "--json")
        assert (answer.exit_code, answer.stderr) == (code, ""), answer.output
        return json.loads(answer.stdout)

    def add(self, *arguments: str, schedule: str = "0 9 * * 1") -> str:
        added = self.said("add", "--name", "report", "--schedule", schedule, *arguments)
        return str(added["job_id"])


@pytest.fixture
def jobs(dsn: str) -> Command:
    return Command(dsn)


def test_every_field_can_be_given_and_changed_by_an_option(jobs: Command) -> None:
    """One after the other, then all at once, at a registration and in a change."""
    assert CHANGES.keys() == set(FIELDS)
    every = [word for name, (text, _) in CHANGES.items() for word in (option(name), text)]
    added = jobs.said("show", jobs.said("add", *every)["job_id"])
    changed = jobs.add()
    for rev, (name, (text, value)) in enumerate(CHANGES.items(), 2):
        job = jobs.said("update", changed, option(name), text)
        assert (job[name], job["rev"]) == (value, rev)
    assert {name: job[name] for name in FIELDS} == {name: added[name] for name in FIELDS}
    assert {name: job[name] for name in FIELDS} == {
        name: value for name, (_, value) in CHANGES.items()
    }
    assert jobs.said("update", changed, *every)["rev"] == rev + 1


def test_a_change_is_said_to_people_on_one_line(jobs: Command) -> None:
    job_id = jobs.add(schedule="2199-01-01T00:00:00Z")
    waits, parked = "active\tnext run at 2199-01-01T00:00:00Z", "paused\tno next run"
    for arguments, line in (
        (["update", job_id, "--max-retries", "1"], f"{waits}\trev 2"),
        (["pause", job_id], f"{parked}\trev 3"),
        (["pause", job_id], f"{parked}\trev 3"),
        (["resume", job_id], f"{waits}\trev 4"),
        (["resume", job_id], f"{waits}\trev 4"),
    ):
        answer = jobs.run(*arguments)
        assert (answer.exit_code, answer.stdout, answer.stderr) == (0, f"{job_id}\t{line}\n", "")


def test_a_change_as_json_is_the_job_as_it_is_shown(jobs: Command) -> None:
    job_id = jobs.add()
    for arguments, status in (
        (["update", job_id, "--max-retries", "1"], "active"),
        (["pause", job_id, "--if-rev", "2"], "paused"),
        (["resume", job_id, "--if-rev", "3"], "active"),
    ):
        said = jobs.said(*arguments)
        assert said == jobs.said("show", job_id)
        assert said["status"] == status
    assert said["rev"] == 4


@pytest.mark.parametrize("verb", [["update", "--max-retries", "1"], ["pause"], ["resume"]])
def test_another_rev_than_was_seen_changes_nothing(jobs: Command, verb: list[str]) -> None:
    job_id = jobs.add()
    before = jobs.said("show", job_id)
    problem = jobs.said(*verb, job_id, "--if-rev", "7", code=2)
    assert (problem["kind"], problem["problem"]) == (
        "PreconditionFailed",
        f"job {job_id} is at rev 1, not 7",
    )
    assert problem["hint"].startswith("Read it again")
    answer = jobs.run(*verb, job_id, "--if-rev", "7")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert f"mainspring: job {job_id} is at rev 1, not 7\n  hint: Read it again" in answer.stderr
    assert jobs.said("show", job_id) == before


def test_what_cannot_be_changed_is_said_by_name(jobs: Command) -> None:
    job_id = jobs.add()
    for arguments, kind, pointer, hint in (
        ([], "InvalidInput", "", "Fields are name, schedule, "),
        (["--schedule", "0 25 * * *"], "InvalidSchedule", "/schedule", ""),
        (["--schedule", PAST], "InvalidSchedule", "/schedule", "give an instant to come"),
        (["--max-missed", "0"], "InvalidInput", "/max_missed", "1 to 10000"),
        (["--payload", "{n: 1}"], "InvalidInput", "/payload", "Quote it for the shell"),
    ):
        problem = jobs.said("update", job_id, *arguments, code=2)
        assert (problem["kind"], problem["pointer"]) == (kind, pointer)
        assert hint in problem["hint"]
    # What is no choice, or no number, is bad usage; of a rev too.
    for words in (["--dst-gap", "NEXT_VALID"], ["--missed-window", "x"], ["--if-rev", "x"]):
        answer = jobs.run("update", job_id, *words)
        assert (answer.exit_code, answer.stdout) == (2, "")
        assert f"Invalid value for '{words[0]}'" in answer.stderr
    assert jobs.said("show", job_id)["rev"] == 1


@pytest.mark.parametrize("verb", [["update", "--max-retries", "1"], ["pause"], ["resume"]])
def test_a_job_that_is_gone_or_never_was_is_bad_input(jobs: Command, verb: list[str]) -> None:
    gone = jobs.add()
    jobs.said("rm", gone)
    for job_id in (gone, "j_zzzzzz"):
        assert jobs.said(*verb, job_id, code=2)["kind"] == "NotFound"
    assert jobs.said(*verb, "x", code=2)["kind"] == "InvalidInput"


def test_a_one_off_in_the_past_is_refused_under_skip(jobs: Command) -> None:
    arguments = ["add", "--name", "x", "--schedule", PAST, "--missed-window"]
    problem = jobs.said(*arguments, "SKIP", code=2)
    assert (problem["kind"], problem["pointer"]) == ("InvalidSchedule", "/schedule")
    assert jobs.said(*arguments, "RUN_ALL", "--max-missed", "3")["next_run_at"] == PAST


def test_a_database_that_is_away_is_a_failure() -> None:
    away = "postgresql://nobody@127.0.0.1:1/none"
    for verb in ("update", "pause", "resume"):
        words = ["jobs", verb, "j_1", "--json", "--dsn", away]
        answer = CliRunner().invoke(main, words, prog_name="mainspring")
        assert (answer.exit_code, json.loads(answer.stdout)["kind"]) == (1, "StoreUnavailable")
