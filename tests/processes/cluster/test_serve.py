"""Commands that bring a Postgres of their own: what they tell, and that nothing of them stays."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from mainspring.cli.children import Child
from mainspring.devpg import DevPostgres
from mainspring.errors import InvalidInput
from processes.cluster.stage import HANDLERS, HERE, decode_line, wait_for

COMMAND = [sys.executable, "-m", "mainspring.cli"]
READY_S = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, for sockets; it must be empty of everything else at the end."""
    with tempfile.TemporaryDirectory(prefix="ms-") as name:
        yield Path(name)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "MAINSPRING_DSN"}
    return {
        **kept,
        "PYTHONPATH": str(HERE.parent.parent),
        "MAINSPRING_TEST_LOG_DIR": str(folder),
        "TMPDIR": str(folder),
    }


def serve_arguments(folder: Path, target: str = HANDLERS) -> list[str]:
    return ["serve", "--data-dir", str(folder / "pg"), "--port", "0", "--worker", target]


def list_jobs(folder: Path, dsn: str) -> tuple[int, Any]:
    done = subprocess.run(
        [*COMMAND, "jobs", "list", "--json", "--dsn", dsn],
        env=environment(folder), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, decode_line(done.stdout)


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def read_until(lines: IO[str], word: str) -> list[str]:
    seen = []
    for line in lines:
        seen.append(line.rstrip("\n"))
        if word in line:
            return seen
    raise AssertionError(f"ended without {word!r}: {seen}")


def test_serve_tells_the_database_that_other_commands_need(folder: Path) -> None:
    """The printed line, put into a shell, lets `jobs list` work; Ctrl-C ends it with code 0."""
    served = subprocess.Popen(
        [*COMMAND, *serve_arguments(folder)],
        env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    with served:
        assert served.stdout is not None
        try:
            lines = read_until(served.stdout, "Ctrl-C ends it")
            (export,) = [line for line in lines if "export MAINSPRING_DSN=" in line]
            dsn = shlex.split(export)[1].partition("=")[2]
            listed = list_jobs(folder, dsn)
        finally:
            os.killpg(served.pid, signal.SIGINT)  # as a terminal does: the children get it too
        code = served.wait(60)

    assert (0, []) == listed
    assert 0 == code
    assert "figures of each process:" in lines


def test_nothing_outlives_a_killed_serve(folder: Path) -> None:
    """After kill -9 the API is gone, and so is the Postgres."""
    served = Child(
        "serve",
        ["mainspring.cli", *serve_arguments(folder), "--json"],
        environment=environment(folder),
        log_path=folder / "serve.stderr",
    )
    try:
        answer = served.wait_ready(READY_S)
        assert (0, []) == list_jobs(folder, answer["dsn"])
    finally:
        os.kill(served.pid, signal.SIGKILL)
        served.wait()

    wait_for("the end of the API", lambda: has_ended(answer["processes"]["api"]["pid"]))
    wait_for("the end of Postgres", lambda: list_jobs(folder, answer["dsn"])[0] == 1)


def test_serve_with_a_worker_that_cannot_be_imported_is_bad_input(folder: Path) -> None:
    """It says which worker and why, and leaves no process behind."""
    served = Child(
        "serve",
        ["mainspring.cli", *serve_arguments(folder, "no_such_module:worker"), "--json"],
        environment=environment(folder),
        log_path=folder / "serve.stderr",
    )

    with pytest.raises(InvalidInput, match="worker 1: cannot import 'no_such_module'"):
        served.wait_ready(READY_S)

    assert 2 == served.wait()


def test_a_demo_that_is_told_to_end_cleans_up(folder: Path) -> None:
    """SIGTERM: no process, no logs and no Postgres stay in the temporary folder."""
    shown = subprocess.Popen(
        [*COMMAND, "demo", "--jobs", "1"],
        env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with shown:
        assert shown.stdout is not None
        read_until(shown.stdout, "starting scheduler")
        assert list(folder.glob("mainspring-demo-*"))
        shown.terminate()
        code = shown.wait(60)

    assert 1 == code
    assert [] == list(folder.glob("mainspring-*"))


def test_migrate_names_what_it_applied(postgres_server: DevPostgres, folder: Path) -> None:
    """One short line for each migration, and a word when there is none."""
    dsn = postgres_server.create_database("migrate_by_command")
    said = [
        subprocess.run(
            [*COMMAND, "migrate", "--dsn", dsn],
            env=environment(folder), capture_output=True, text=True, timeout=60, check=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    postgres_server.drop_database("migrate_by_command")

    assert "applied 0001_pre_create_tables" == said[0].splitlines()[0]
    assert max(map(len, said[0].splitlines())) < 80
    assert "the schema is current\n" == said[1]
