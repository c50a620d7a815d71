"""The command's face: targets, settings, problems and exit codes, and what its help imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from mainspring.cli import COMMANDS, main
from mainspring.cli.children import Child, ChildFailed
from mainspring.cli.jobs import jobs as jobs_group
from mainspring.cli.output import fail, print_columns
from mainspring.cli.serve import serve
from mainspring.cli.targets import load_tasks, worker_settings
from mainspring.errors import (
    Conflict,
    DevPostgresError,
    InvalidInput,
    MainspringError,
    NotFound,
    StoreUnavailable,
)
from mainspring.handlers import Tasks, Worker
from mainspring.registration import FIELDS

NO_DATABASE = "postgresql://nobody@127.0.0.1:1/none"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="mainspring")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory of its own; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("program", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def program(folder: Path, text: str) -> None:
    sys.modules.pop("program", None)
    (folder / "program.py").write_text(text)


# Targets ---------------------------------------------------------------------------------------


def test_a_target_is_imported_from_the_current_directory(folder: Path) -> None:
    """`module:object` gives the object itself."""
    program(
        folder,
        "import mainspring\nworker = mainspring.Worker()\n"
        "@worker.task('greet')\ndef greet(ctx, payload): ...\n",
    )

    tasks = load_tasks("program:worker")

    assert tasks is sys.modules["program"].worker
    assert ("greet",) == tuple(tasks.names)


@pytest.mark.parametrize("target", ["program", "program:", ":worker", ""])
def test_a_target_without_its_two_parts_is_refused(folder: Path, target: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_tasks(target)

    assert f"{target!r} does not name an object" == caught.value.message
    assert "Write it as module:object, as in app:worker." == caught.value.hint


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("nowhere_to_be_found:worker", "Run from the folder that holds it, or install it."),
        ("program.py:worker", "Name the module, not its file: program."),
    ],
)
def test_a_module_that_is_not_there_is_named(folder: Path, target: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_tasks(target)

    assert caught.value.message.startswith(f"cannot import {target.partition(':')[0]!r}: No module")
    assert hint == caught.value.hint


def test_a_module_that_lacks_another_names_that_one(folder: Path) -> None:
    """The hint is about the missing dependency, not about where the program lies."""
    program(folder, "import nowhere_to_be_found\n")

    with pytest.raises(InvalidInput) as caught:
        load_tasks("program:worker")

    assert caught.value.hint is not None
    assert caught.value.hint.startswith("It imports 'nowhere_to_be_found':")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def (\n", "SyntaxError: invalid syntax (program.py, line 1)"),
        ("raise RuntimeError('boom')\n", "RuntimeError: boom"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
    ],
)
def test_whatever_a_module_raises_is_bad_input(folder: Path, text: str, said: str) -> None:
    """No traceback of ours, and above all no exit with code 0."""
    program(folder, text)

    with pytest.raises(InvalidInput) as caught:
        load_tasks("program:worker")

    assert f"cannot import 'program': {said}" == caught.value.message


def test_an_object_that_is_missing_or_no_worker_or_empty_is_told_apart(folder: Path) -> None:
    program(folder, "import mainspring\nthree = 3\nempty = mainspring.Worker()\n")

    messages = []
    for name in ("gone", "three", "empty"):
        with pytest.raises(InvalidInput) as caught:
            load_tasks(f"program:{name}")
        messages.append(caught.value.message)

    assert [
        "'program' has no 'gone'",
        "'program:three' is not a set of tasks",
        "'program:empty' has no handlers",
    ] == messages


# Settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "flags", "expected"),
    [
        ({}, {}, (7, ("mail", "sms"))),
        ({"MAINSPRING_CONCURRENCY": "8", "MAINSPRING_QUEUES": "a,b"}, {}, (8, ("a", "b"))),
        (
            {"MAINSPRING_CONCURRENCY": "8", "MAINSPRING_QUEUES": "a,b"},
            {"concurrency": 9, "queues": ("c",)},
            (9, ("c",)),
        ),
        ({"MAINSPRING_CONCURRENCY": "8"}, {"concurrency": None, "queues": None}, (8, None)),
    ],
)
def test_a_flag_wins_over_the_environment_and_that_over_the_program(
    environ: dict[str, str], flags: dict[str, object], expected: tuple[int, tuple[str, ...] | None]
) -> None:
    """A flag that was not given is None and overrides nothing."""
    settings = worker_settings(Worker(concurrency=7, queues=["mail", "sms"]), environ, flags)

    assert (expected[0], expected[1] or ("mail", "sms")) == (settings.concurrency, settings.queues)


@pytest.mark.parametrize("tasks", [Tasks(), Worker()])
def test_a_program_that_says_nothing_gets_the_defaults(tasks: Tasks) -> None:
    settings = worker_settings(tasks, {}, {})

    assert (100, ("default",)) == (settings.concurrency, settings.queues)


# Problems --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("x"), 2),
        (NotFound("x"), 2),
        (Conflict("x"), 2),
        (MainspringError("x"), 1),
        (StoreUnavailable("x"), 1),
        (DevPostgresError("x"), 1),
        (ChildFailed("x"), 1),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_exit_codes_tell_bad_input_from_failure(
    error: MainspringError, code: int, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        fail(error, as_json=as_json)

    assert code == caught.value.code


def test_a_problem_as_json_is_one_value_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fail(InvalidInput("bad", pointer="/a", detail="d", hint="Do."), as_json=True)

    said = capsys.readouterr()
    assert "" == said.err
    assert {
        "problem": "bad",
        "kind": "InvalidInput",
        "pointer": "/a",
        "detail": "d",
        "hint": "Do.",
    } == json.loads(said.out)


def test_a_problem_for_people_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """In Postgres' three parts, the place first; what is not there is not printed."""
    with pytest.raises(SystemExit):
        fail(InvalidInput("bad", pointer="/a", hint="Do."), as_json=False)

    said = capsys.readouterr()
    assert ("", "mainspring: /a: bad\n  hint: Do.\n") == (said.out, said.err)


@pytest.mark.parametrize(
    ("arguments", "problem", "path"),
    [
        (["jobs", "add", "--name", "x"], "missing option '--schedule'", "mainspring jobs add"),
        (["jobs", "update"], "missing argument 'JOB_ID'", "mainspring jobs update"),
        (
            ["jobs", "pause", "j_1", "--if-rev", "x"],
            "invalid value for '--if-rev'",
            "mainspring jobs pause",
        ),
        (["jobs", "list", "--limit", "0"], "invalid value for '--limit'", "mainspring jobs list"),
        (["nonsense"], "no such command 'nonsense'", "mainspring"),
        (["worker"], "missing argument 'TARGET'", "mainspring worker"),
    ],
)
def test_bad_usage_with_json_is_one_value_too(
    arguments: list[str], problem: str, path: str
) -> None:
    answer = run(*arguments, "--json")

    said: dict[str, Any] = json.loads(answer.stdout)
    assert 2 == answer.exit_code
    assert said["problem"].startswith(problem)
    assert f"See `{path} --help` for its options." == said["hint"]


def test_bad_usage_without_json_is_said_on_stderr() -> None:
    answer = run("jobs", "add", "--name", "x")

    assert (2, "") == (answer.exit_code, answer.stdout)
    assert "Missing option '--schedule'" in answer.stderr


@pytest.mark.parametrize("as_json", [["--json"], []])
def test_a_database_that_is_away_is_a_failure_and_none_at_all_bad_input(as_json: list[str]) -> None:
    assert 1 == run("jobs", "list", "--dsn", NO_DATABASE, *as_json).exit_code
    assert 2 == run("jobs", "list", "--dsn", "", *as_json).exit_code


@pytest.mark.parametrize(("module", "kind"), [("program", InvalidInput), ("other", ChildFailed)])
def test_a_child_that_ends_with_bad_input_is_bad_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, kind: type[MainspringError]
) -> None:
    """So `serve` ends with the exit code that the command alone would have had."""
    line = """print('{"problem": "no", "detail": null, "hint": "Do."}')"""
    (folder / "program.py").write_text(f"{line}\nraise SystemExit(2)\n")
    (folder / "other.py").write_text(f"{line}\nraise SystemExit(1)\n")
    child = Child("worker 1", [module], environment={})

    with pytest.raises(MainspringError) as caught:
        child.wait_ready()

    assert (kind, "worker 1: no", "Do.") == (
        type(caught.value),
        caught.value.message,
        caught.value.hint,
    )


# Help ------------------------------------------------------------------------------------------


def test_the_help_of_the_root_imports_no_command() -> None:
    """It is there at once: no NumPy, no psycopg, no ZeroMQ, and no module of a command."""
    code = (
        "import sys\n"
        "from mainspring.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'zmq', 'psycopg', 'uvicorn', 'rich', 'mainspring.cli.jobs'}\n"
        "print('imported', sorted(heavy & set(sys.modules)))\n"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "imported []" == said.stdout.splitlines()[-1]


def test_every_command_named_in_the_help_is_there() -> None:
    """Each place can be imported, and the command answers by its own name."""
    for name in COMMANDS:
        answer = run(name, "--help")
        assert 0 == answer.exit_code, answer.output
        assert f"Usage: mainspring {name} " in answer.output


@pytest.mark.parametrize("arguments", [[], ["serve"], ["jobs", "add"], ["jobs", "update"]])
def test_examples_in_the_help_keep_their_lines(arguments: list[str]) -> None:
    """The mark that keeps line breaks is read by click, not shown."""
    said = run(*arguments, "--help").output

    assert "\\b" not in said
    examples = [line for line in said.splitlines() if line.lstrip().startswith("mainspring ")]
    assert all(line.count("mainspring ") == 1 for line in examples)


@pytest.mark.parametrize("verb", ["add", "update"])
def test_every_field_of_a_job_is_explained_in_the_words_that_are_typed(verb: str) -> None:
    """The choices are the words themselves, and each option has a sentence."""
    said = run("jobs", verb, "--help").output

    for choices in ("SKIP|RUN_ONCE|RUN_ALL", "next_valid|skip", "first|second|both"):
        assert f"[{choices}]" in said
    command = jobs_group.commands[verb]
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert len(options) >= len(FIELDS)
    assert [each.name for each in options if not each.help] == []


def test_serve_takes_the_port_that_the_hint_tells_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`MAINSPRING_PORT` is not overruled by the flag's default."""
    monkeypatch.setenv("MAINSPRING_PORT", "8123")

    assert 8123 == serve.make_context("serve", []).params["port"]


# Tables ----------------------------------------------------------------------------------------


def test_columns_are_aligned_and_numbers_stand_to_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_columns(("job", "runs", ""), [["every second", "78", "ok"], ["all", "20,000", "BROKEN"]])

    assert [
        "job             runs",
        "every second      78  ok",
        "all           20,000  BROKEN",
    ] == capsys.readouterr().out.splitlines()
