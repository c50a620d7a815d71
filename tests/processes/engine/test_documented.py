"""The programs of docs/embedding.md, run as a new user would, beside a package called `api`."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import Context
from mainspring.engine import Options
from mainspring.engine.async_jobs import AsyncJobs
from mainspring.errors import StoreUnavailable
from mainspring.shown import RunOut
from mainspring.store.postgres import PostgresStore
from processes.cluster.stage import wait_for

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "embedding.md").read_text()
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.M | re.S)
PROGRAMS = {name: (body, said) for name, body, said in BLOCK.findall(TEXT)}
SERVE = {"service.py", "web.py", "wsgi.py"}
# Of the executor, or in docs/effects.md.
BESIDE_THE_POINT = {
    "facts",
    "deadline_us",
    "idempotent",
    "idempotency_headers",
}
NOT_PROGRAMS = {"conftest.py", "test_reports.py"}

# As `python NAME`, with a package of the user's own that must not be taken for ours.
RUN = """
import runpy, sys
import api
assert api.OWN, api.__file__
runpy.run_path(sys.argv[1], run_name="__main__")
assert sys.modules["api"] is api
"""


class Project:
    """A folder with every program of the page, and with `api/`."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        for name, (body, _) in PROGRAMS.items():
            (folder / name).write_text(body)
        (folder / "api").mkdir()
        (folder / "api" / "__init__.py").write_text("OWN = True\n")
        (folder / "run.py").write_text(RUN)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.environment = {**os.environ, "DATABASE_URL": dsn, "PORT": str(self.port)}
        self.environment.pop("PYTHONPATH", None)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / "stderr").open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def words(self) -> str:
        return (self.folder / "stderr").read_text()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


@pytest.fixture
def project(tmp_path: Path, dsn: str) -> Iterator[Project]:
    made = Project(tmp_path, dsn)
    try:
        yield made
    finally:
        made.stop()


def test_every_block_of_the_page_is_a_program_that_is_run_here() -> None:
    """None is left out, and none is there twice."""
    assert TEXT.count("```python") == len(PROGRAMS)
    assert SERVE | NOT_PROGRAMS < PROGRAMS.keys()


def test_the_tables_of_the_page_name_all_there_is() -> None:
    """Options, what a handler's context has, and the fields of a run."""
    options = TEXT.partition("## Options")[2].partition("## ")[0]
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", options, re.M)))
    context = TEXT.partition("`ctx` has ")[2].partition("[jobs.md]")[0]
    run = TEXT.partition("A run has `")[2].partition("`")[0]

    assert sorted(named) == sorted(Options.__annotations__)
    public = {name for name in vars(Context) if not name.startswith("_")} - BESIDE_THE_POINT
    assert public <= set(re.findall(r"\w+", context))
    assert set(run.split()) == set(RunOut.__struct_fields__)
    calls = TEXT.partition("`engine.jobs` has")[2].partition("A definition's")[0]
    assert {name for name in vars(AsyncJobs) if not name.startswith("_")} == set(
        re.findall(r"`(\w+)\(", calls)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - SERVE - NOT_PROGRAMS))
def test_a_program_prints_what_the_page_says(project: Project, name: str) -> None:
    """And ends by itself, without a warning."""
    process = project.start("run.py", name)
    said, _ = process.communicate(timeout=120)

    assert process.returncode == 0, project.words()
    if PROGRAMS[name][1]:
        assert said == PROGRAMS[name][1]
    else:
        assert sorted(said.splitlines()) == ["image cat.png", "mail to ann"]
    assert "Traceback" not in project.words()


@pytest.mark.slow
def test_the_service_ends_in_order_on_sigterm(project: Project) -> None:
    """It prints its greetings, drains, says so and ends with code 0."""
    process = project.start("run.py", "service.py")
    assert process.stdout is not None
    first, second, last = PROGRAMS["service.py"][1].splitlines(keepends=True)
    assert [process.stdout.readline(), process.stdout.readline()] == [first, second]
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)

    assert (process.returncode, rest.endswith(last)) == (0, True), project.words()


@pytest.mark.slow
def test_the_web_application_registers_and_shows(project: Project) -> None:
    """Over HTTP; uvicorn's own SIGTERM ends the engine with it."""
    process = project.start("run.py", "web.py")
    wait_for("the server", project.answers, 60)
    assert project.ask("GET", "/health") == (200, b'{"state":"running","database":"reached"}')
    body = {"when": "2026-01-01T00:00:00Z", "to": "ann"}
    status, text = project.ask("POST", "/mails", {"when": "0 25 * * *", "to": "ann"})
    assert (status, set(json.loads(text))) == (422, {"problem", "hint"})
    status, text = project.ask("POST", "/mails", body)
    assert status == 201
    path = f"/mails/{json.loads(text)['job_id']}"
    done = [{"status": "success", "output": '"sent to ann"'}]
    wait_for("the mail", lambda: json.loads(project.ask("GET", path)[1]) == done)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)

    assert process.returncode in {0, -signal.SIGTERM}, project.words()
    assert "Traceback" not in project.words()


@pytest.mark.slow
def test_a_host_that_is_killed_by_a_signal_leaves_nothing(project: Project, dsn: str) -> None:
    """No child, no session: SIGTERM without a handler is a crash."""
    process = project.start("run.py", "wsgi.py")
    store = PostgresStore(dsn, application_name="test", pool_max=1)
    try:
        wait_for("the server", project.answers, 60)
        status, job_id = project.ask("POST", "/")
        assert (status, job_id) == (201, b"j_1")
        wait_for("the run", lambda: [r.output for r in store.runs_of_job(1, limit=9)] == ["2"])
        children = children_of(process.pid)
        assert children, "no heartbeat"
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM
        wait_for("the end of its children", lambda: not any(map(is_alive, children)))
        wait_for("the end of its sessions", lambda: sessions(dsn) <= 1)
    finally:
        store.close()


@pytest.mark.slow
def test_the_documented_test_passes(project: Project) -> None:
    """With pytest, from an empty project, without a database."""
    project.environment.pop("DATABASE_URL")
    process = project.start("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_reports.py")
    said, _ = process.communicate(timeout=120)

    assert "1 passed" in said, said + project.words()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_programs_satisfy_a_strict_type_checker(project: Project) -> None:
    """Typed handlers, registration and jobs, as a user with mypy --strict sees them."""
    (project.folder / "checked.py").write_text(CHECKED)
    environment = {**project.environment, "MYPYPATH": f"{ROOT / 'engine'}"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"),
            *("--config-file=", f"--cache-dir={ROOT / '.mypy_cache'}", "checked.py"),
        ],
        cwd=project.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    found = re.findall(r"^checked.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.M)

    marked = [str(n) for n, line in enumerate(CHECKED.splitlines(), 1) if "# wrong" in line]

    assert found == list(
        zip(marked, ["arg-type", "call-arg", "arg-type", "call-arg", "assignment"], strict=True)
    ), done.stdout + done.stderr


CHECKED = """
import asyncio

import msgspec
from mainspring import Context, Engine, SyncEngine


class Report(msgspec.Struct):
    kind: str


engine = Engine("postgresql://x", shards=8, name="e")
sync = SyncEngine.embedded("folder", concurrency=3)


@engine.task("report")
async def report(ctx: Context, payload: Report) -> int:
    return len(payload.kind)


@sync.task(isolation="process")
def plain(ctx: Context, payload: list[int]) -> None:
    if ctx.catch_up and ctx.previous_scheduled_at is not None:
        print(ctx.scheduled_at - ctx.previous_scheduled_at)
    print(sync.jobs.pause(ctx.job_id).status, sync.jobs.update(ctx.job_id, task="x").rev)


async def main() -> str:
    async with engine:
        job = await engine.jobs.add(name="report", schedule="@daily", payload=Report("x"))
        await engine.jobs.add(name="report", schedule=5)  # wrong
        await engine.jobs.add(name="report")  # wrong
        await engine.jobs.add(
            name="report", schedule="@daily", missed_window="SKIP", dst_gap="skip"
        )
        changed = await engine.jobs.update(job.job_id, payload=Report("y"), max_missed=3)
        await engine.jobs.update(job.job_id, idempotency_key_template=None, task=None)
        await engine.jobs.update(job.job_id, if_rev=changed.rev, dst_overlap=2)  # wrong
        await engine.jobs.update(job.job_id, owner="x")  # wrong
        paused = await engine.jobs.pause(job.job_id, if_rev=changed.rev)
        next_run_at: str = (await engine.jobs.resume(paused.job_id)).next_run_at  # wrong
        print(next_run_at)
        runs = await engine.jobs.runs(job.job_id, limit=3)
        return runs[0].status


asyncio.run(main())
"""


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def sessions(dsn: str) -> int:
    """Count sessions of ours on the database, that of the test's own store included."""
    import psycopg  # noqa: PLC0415

    try:
        with psycopg.connect(dsn) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid()"
            ).fetchone()
    except psycopg.Error as error:
        raise StoreUnavailable(str(error)) from error
    assert row is not None
    return int(row[0])
