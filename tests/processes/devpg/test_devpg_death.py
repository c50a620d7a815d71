"""No embedded Postgres outlives its owner, and a folder has one server at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from mainspring.devpg import DevPostgres, datafolder
from mainspring.devpg.runfolder import PREFIX
from mainspring.errors import DevPostgresError
from processes.devpg.stage import (
    FAST,
    Told,
    ask,
    eventually,
    finish,
    is_alive,
    is_dead,
    is_port_free,
    script,
)

pytestmark = pytest.mark.slow


def run_folder_of(dsn: str) -> Path:
    return Path(str(psycopg.conninfo.conninfo_to_dict(dsn)["host"])).parent


OWNERS = {
    "main thread": "pg = DevPostgres(Path(sys.argv[1]), settings=FAST).start()",
    "thread that ended": """
pg = DevPostgres(Path(sys.argv[1]), settings=FAST)
thread = threading.Thread(target=pg.start)
thread.start()
thread.join()""",
    "no prctl": """
child.DEATH_MODE = "pipe"
pg = DevPostgres(Path(sys.argv[1]), settings=FAST).start()""",
}


@pytest.mark.parametrize("start", OWNERS.values(), ids=OWNERS.keys())
def test_kill_9_of_the_owner_takes_server_and_backends_along(start: str, folder: Path) -> None:
    process = script(start + "\ntell(pg); sys.stdin.read()", str(folder))
    told = Told(process)
    run_folder = run_folder_of(told.dsn)
    with psycopg.connect(told.dsn, autocommit=True) as session:
        session.execute("DROP TABLE IF EXISTS acknowledged")
        session.execute("CREATE TABLE acknowledged AS SELECT 7 AS n")
        backend_pid = session.info.backend_pid
        children = session.execute("SELECT pid FROM pg_stat_activity").fetchall()
        assert is_alive(told.pid)
        process.kill()
        process.communicate()
        for pid in {told.pid, backend_pid, *(row[0] for row in children)}:
            assert eventually(partial(is_dead, pid))
    assert is_port_free(told.port)
    assert run_folder.name.startswith(PREFIX)
    assert run_folder.exists()
    with DevPostgres(folder, settings=FAST) as pg:
        assert ask(pg.dsn, "SELECT n FROM acknowledged") == 7
        assert not run_folder.exists()


def test_a_server_that_is_slow_to_die_keeps_its_run_folder_and_a_start_in_its_data_waits(
    folder: Path, own_folder: Path
) -> None:
    process = script(OWNERS["main thread"] + "\ntell(pg); sys.stdin.read()", str(folder))
    told = Told(process)
    os.kill(told.pid, signal.SIGSTOP)
    process.kill()
    process.communicate()
    with DevPostgres(own_folder, settings=FAST):
        assert run_folder_of(told.dsn).exists()
    wake = threading.Timer(0.3, os.kill, (told.pid, signal.SIGCONT))
    wake.start()
    with DevPostgres(folder, settings=FAST) as pg:
        assert is_dead(told.pid)
        assert ask(pg.dsn, "SELECT n FROM kept") == 42
    wake.join()


def test_the_watcher_leaves_with_a_server_that_was_stopped(folder: Path) -> None:
    body = """
child.DEATH_MODE = "pipe"
with DevPostgres(Path(sys.argv[1]), settings=FAST) as pg:
    tell(pg)
sys.stdin.read()"""
    process = script(body, str(folder))
    told = Told(process)

    def watchers() -> list[str]:
        lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        return [line for line in lines.stdout.splitlines() if f"launch.py {process.pid} " in line]

    assert eventually(lambda: not is_alive(told.pid))
    assert eventually(lambda: watchers() == [])
    finish(process)


def test_a_second_start_names_the_running_server_and_leaves_it_alone(folder: Path) -> None:
    with DevPostgres(folder, settings=FAST) as pg:
        with pytest.raises(DevPostgresError, match="was already started"):
            pg.start()
        with pytest.raises(DevPostgresError, match=f"server {pg.pid} is already running") as caught:
            DevPostgres(folder, settings=FAST).start()
        assert f"kill -INT {pg.pid}" in (caught.value.hint or "")
        other = script("DevPostgres(Path(sys.argv[1])).start()", str(folder))
        _, problem = other.communicate(timeout=60)
        assert other.returncode == 1
        assert f"server {pg.pid} is already running in {folder}" in problem
        assert ask(pg.dsn, "SELECT n FROM kept") == 42


def test_a_server_that_is_not_ours_is_named_and_not_touched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datafolder, "DYING_S", 0.1)
    with DevPostgres(folder, settings=FAST) as pg:
        assert pg._data is not None
        fd, pg._data._lock_fd = pg._data._lock_fd, os.open("/", os.O_RDONLY)
        os.close(fd)  # so that only the server's own pid file is left to tell
        with pytest.raises(DevPostgresError, match=f"server {pg.pid} is already running"):
            DevPostgres(folder, settings=FAST).start()
        assert ask(pg.dsn, "SELECT n FROM kept") == 42


@pytest.fixture
def bystander() -> Iterator[int]:
    """Process id of somebody else."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("state", ["dead", "reused", "empty"])
def test_a_stale_pid_file_is_recovered_from(state: str, folder: Path, bystander: int) -> None:
    with DevPostgres(folder, settings=FAST) as pg:
        text = (folder / "postmaster.pid").read_text()
        pg.stop("immediate")
    lines = text.splitlines()
    with subprocess.Popen(["true"]) as reaped:
        reaped.wait()
    lines[0] = str({"dead": reaped.pid, "reused": bystander, "empty": 0}[state])
    (folder / "postmaster.pid").write_text("" if state == "empty" else "\n".join(lines) + "\n")
    with DevPostgres(folder, settings=FAST) as pg:
        assert ask(pg.dsn, "SELECT n FROM kept") == 42
    assert is_alive(bystander)


def test_a_live_run_folder_is_not_swept_and_a_left_over_one_is(folder: Path) -> None:
    with DevPostgres(folder, settings=FAST) as pg:
        live = run_folder_of(pg.dsn)
        left = live.with_name(PREFIX + "leftover")
        (left / "data").mkdir(parents=True)
        stranger = live.with_name("mainspring-other")
        stranger.mkdir()
        try:
            with pytest.raises(DevPostgresError, match="already running"):
                DevPostgres(folder).start()
            assert (live.exists(), left.exists(), stranger.exists()) == (True, False, True)
        finally:
            stranger.rmdir()


def test_a_backend_that_outlives_its_postmaster_holds_up_no_new_server(own_folder: Path) -> None:
    """Frozen, as one that waits for a lock whose holder has gone; what was committed is there."""
    pg = DevPostgres(own_folder, settings=FAST).start()
    session = psycopg.connect(pg.dsn, autocommit=True)
    frozen_pid = session.info.backend_pid
    session.execute("INSERT INTO kept VALUES (43)")
    postmaster_pid = int((own_folder / "postmaster.pid").read_text().splitlines()[0])
    os.kill(frozen_pid, signal.SIGSTOP)
    os.kill(postmaster_pid, signal.SIGKILL)
    pg.stop("immediate")
    assert is_alive(frozen_pid)

    with DevPostgres(own_folder, settings=FAST) as again:
        assert ask(again.dsn, "SELECT sum(n) FROM kept") == 42 + 43
        assert eventually(lambda: is_dead(frozen_pid))
    session.close()
