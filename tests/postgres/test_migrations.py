"""store.migrate: forward only, once each, by one process at a time."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from mainspring.errors import MigrationRefused, StatementRetry
from mainspring.store import migrate as runner
from mainspring.store.migrate import Migration, migrate, plan, read_migrations, require_current
from postgres.schema import describe_schema

GOLDEN = Path(__file__).with_name("schema.json")

ONE = Migration(1, "pre_create_a", "CREATE TABLE a (x integer);")
TWO = Migration(2, "pre_create_b", "CREATE TABLE b (x integer); INSERT INTO b VALUES (1);")
THREE = Migration(3, "post_drop_a", "DROP TABLE a;")


def applied(dsn: str) -> list[tuple[int, str]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT version, name FROM schema_migrations ORDER BY version"
        ).fetchall()


def tables(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
    return {name for (name,) in rows} - {"schema_migrations"}


def test_all_migrations_from_zero_make_the_golden_schema(empty_dsn: str) -> None:
    """Set MAINSPRING_REWRITE=1 to write the golden anew, then review the difference."""
    assert migrate(empty_dsn)
    described = describe_schema(empty_dsn)
    if os.environ.get("MAINSPRING_REWRITE") == "1":
        GOLDEN.write_text(json.dumps(described, indent=1) + "\n")
    assert json.loads(GOLDEN.read_text()) == described


def test_missing_files_are_applied_in_order_and_only_once(empty_dsn: str) -> None:
    assert migrate(empty_dsn, [ONE]) == [ONE]
    assert plan(empty_dsn, [ONE, TWO, THREE]) == [TWO, THREE]
    assert migrate(empty_dsn, [ONE, TWO, THREE]) == [TWO, THREE]
    assert migrate(empty_dsn, [ONE, TWO, THREE]) == []
    assert tables(empty_dsn) == {"b"}
    assert applied(empty_dsn) == [(1, ONE.name), (2, TWO.name), (3, THREE.name)]


def test_a_plan_changes_nothing(empty_dsn: str) -> None:
    assert plan(empty_dsn, [ONE]) == [ONE]
    with psycopg.connect(empty_dsn) as connection:
        row = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    assert row == (None,)


def test_twenty_that_start_at_once_apply_each_file_once(empty_dsn: str) -> None:
    start = threading.Barrier(20)

    def one(_: int) -> list[Migration]:
        start.wait()
        return migrate(empty_dsn)

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(one, range(20)))
    own = list(runner.own_migrations())
    assert sorted(len(answer) for answer in answers) == [0] * 19 + [len(own)]
    assert [version for version, _ in applied(empty_dsn)] == [each.version for each in own]


def test_a_file_that_fails_leaves_nothing_of_itself(empty_dsn: str) -> None:
    broken = Migration(2, "pre_create_b", "CREATE TABLE b (x integer); SELECT 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty_dsn, [ONE, broken])
    assert tables(empty_dsn) == {"a"}
    assert applied(empty_dsn) == [(1, ONE.name)]
    assert migrate(empty_dsn, [ONE, TWO]) == [TWO]


def test_a_changed_file_is_refused(empty_dsn: str) -> None:
    migrate(empty_dsn, [ONE])
    changed = Migration(1, ONE.name, ONE.text + " ")
    for call in (migrate, plan, require_current):
        with pytest.raises(MigrationRefused, match="0001_pre_create_a was changed"):
            call(empty_dsn, [changed, TWO])
    assert tables(empty_dsn) == {"a"}


def test_a_database_newer_than_the_release_is_refused(empty_dsn: str) -> None:
    migrate(empty_dsn, [ONE, TWO])
    for call in (migrate, plan, require_current):
        with pytest.raises(MigrationRefused, match="newer than this release") as refused:
            call(empty_dsn, [ONE])
        assert refused.value.hint


def test_a_gap_in_what_was_applied_is_refused(empty_dsn: str) -> None:
    migrate(empty_dsn, [ONE, TWO, THREE])
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("DELETE FROM schema_migrations WHERE version = 2")
    with pytest.raises(MigrationRefused, match="migration 2 was never applied but 3 was"):
        migrate(empty_dsn, [ONE, TWO, THREE])


def test_a_process_that_must_not_migrate_waits_for_pre_files_only(empty_dsn: str) -> None:
    with pytest.raises(MigrationRefused, match="lacks migration 0001_pre_create_a") as refused:
        require_current(empty_dsn, [ONE, TWO, THREE])
    assert "mainspring migrate" in str(refused.value.hint)
    migrate(empty_dsn, [ONE, TWO])
    require_current(empty_dsn, [ONE, TWO, THREE])


def test_a_file_may_run_outside_a_transaction(empty_dsn: str) -> None:
    outside = Migration(
        2,
        "post_index_a",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS a_x ON a (x);",
    )
    assert migrate(empty_dsn, [ONE, outside]) == [outside] or tables(empty_dsn) == {"a"}
    with psycopg.connect(empty_dsn) as connection:
        row = connection.execute("SELECT to_regclass('a_x') IS NOT NULL").fetchone()
    assert row == (True,)


def test_ddl_gives_way_to_a_long_reader_and_goes_on_when_it_ends(empty_dsn: str) -> None:
    """A waiting ALTER would stop every claim behind it, so it waits 200 ms at a time."""
    migrate(empty_dsn, [ONE])
    alter = Migration(2, "pre_alter_a", "ALTER TABLE a ADD COLUMN y integer;")
    with psycopg.connect(empty_dsn) as reader, ThreadPoolExecutor(1) as thread:
        reader.execute("SELECT x FROM a")  # holds its lock until the transaction ends
        migrating = thread.submit(migrate, empty_dsn, [ONE, alter])
        with psycopg.connect(empty_dsn, autocommit=True) as other:
            _wait_for_a_waiting_lock(other)
            other.execute("SET statement_timeout = '3s'")
            other.execute("SELECT x FROM a")  # let through within the lock time-out
        assert not migrating.done()
        reader.rollback()
        assert migrating.result(timeout=30) == [alter]


def _wait_for_a_waiting_lock(connection: psycopg.Connection) -> None:
    for _ in range(10_000):
        rows = connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall()
        if rows:
            return
    raise AssertionError("nobody waits for a lock")


def test_a_table_that_stays_locked_is_told(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(empty_dsn, [ONE])
    monkeypatch.setattr(runner, "DDL_TRIES_MAX", 2)
    with psycopg.connect(empty_dsn) as reader:
        reader.execute("SELECT x FROM a")
        with pytest.raises(StatementRetry, match="0002_post_drop_a found its tables locked"):
            migrate(empty_dsn, [ONE, Migration(2, "post_drop_a", "DROP TABLE a;")])
    assert applied(empty_dsn) == [(1, ONE.name)]


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["0001_pre_a_b.sql", "0003_pre_c_d.sql"], "migration 3 follows 1"),
        (["0001_pre_a_b.sql", "0001_pre_c_d.sql"], "migration 1 follows 1"),
        (["0002_pre_a_b.sql"], "migration 2 follows 0"),
        (["0001_mid_a_b.sql"], "is not named"),
        (["1_pre_a_b.sql"], "is not named"),
    ],
)
def test_files_are_numbered_without_gaps(names: list[str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_migrations(dict.fromkeys(names, "SELECT 1;"))
