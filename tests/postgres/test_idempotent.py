"""ctx.idempotent on a real server: what stands, what waits, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from mainspring.errors import EffectRefused, InvalidInput
from mainspring.handlers import Context, RunFacts
from postgres.field import wait_until_waiting

Connect = Callable[..., "psycopg.Connection[Any]"]


def context(key: str = "j_7:1", *, job: int = 7, attempt: int = 1) -> Context:
    facts = RunFacts(
        firing_id=job, fence=attempt, job=job, scheduled_us=1_780_923_600_000_000, attempt=attempt,
        task="t", queue="default", idempotency_key=key,
    )  # fmt: skip
    return Context(facts)


@pytest.fixture
def connect(dsn: str) -> Iterator[Connect]:
    """Open connections that the test need not close."""
    opened: list[psycopg.Connection[Any]] = []

    def open_one(**options: Any) -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(dsn, **options))
        return opened[-1]

    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("CREATE TABLE charges (what text)")
    yield open_one
    for connection in opened:
        connection.close()


def charge(connection: psycopg.Connection[Any], ctx: Context, effect: str = "") -> bool:
    """Make one effect; returns whether it was made now."""
    with ctx.idempotent(connection, effect) as first:
        if first:
            connection.execute("INSERT INTO charges VALUES (%s)", (effect,))
    return first


def fail(connection: psycopg.Connection[Any], ctx: Context) -> None:
    """Fail after the effect, within the block."""

    def handler() -> None:
        with ctx.idempotent(connection) as first:
            assert first
            connection.execute("INSERT INTO charges VALUES ('within')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handler()


async def charge_async(dsn: str, ctx: Context, *, autocommit: bool) -> bool:
    async with (
        await psycopg.AsyncConnection.connect(dsn, autocommit=autocommit) as connection,
        ctx.idempotent(connection) as first,
    ):
        if first:
            await connection.execute("INSERT INTO charges VALUES ('')")
    return first


def standing(connect: Connect) -> tuple[list[str], list[tuple[int, str, str]]]:
    """Return what any other session sees: effects, and keys."""
    other = connect(autocommit=True)
    effects = other.execute("SELECT what FROM charges ORDER BY what").fetchall()
    keys = other.execute("SELECT job_id, key, effect FROM idempotency_keys ORDER BY 1, 2, 3")
    return [what for (what,) in effects], keys.fetchall()


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_second_attempt_finds_the_effect(connect: Connect, autocommit: bool) -> None:
    """Without an open transaction the block is one: both stand when it ends."""
    connection = connect(autocommit=autocommit)
    assert charge(connection, context(attempt=1))
    assert ([""], [(7, "j_7:1", "")]) == standing(connect)
    assert not charge(connect(autocommit=autocommit), context(attempt=2))
    assert ([""], [(7, "j_7:1", "")]) == standing(connect)


@pytest.mark.parametrize("autocommit", [True, False])
def test_an_async_connection_does_the_same(connect: Connect, dsn: str, autocommit: bool) -> None:
    firsts = [
        asyncio.run(charge_async(dsn, context(attempt=attempt), autocommit=autocommit))
        for attempt in (1, 2)
    ]
    assert [True, False] == firsts
    assert ([""], [(7, "j_7:1", "")]) == standing(connect)


@pytest.mark.parametrize("autocommit", [True, False])
def test_an_exception_takes_key_and_effect_back(connect: Connect, autocommit: bool) -> None:
    connection = connect(autocommit=autocommit)
    fail(connection, context())
    assert ([], []) == standing(connect)
    assert charge(connection, context(attempt=2))


def test_an_exception_takes_key_and_effect_back_on_an_async_connection(
    connect: Connect, dsn: str
) -> None:
    """Also the cancellation at a run's timeout."""

    async def run_until(end: asyncio.Event) -> None:
        async with (
            await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection,
            context().idempotent(connection) as first,
        ):
            assert first
            await connection.execute("INSERT INTO charges VALUES ('')")
            end.set()
            await asyncio.sleep(60)

    async def cancel_it() -> None:
        end = asyncio.Event()
        task = asyncio.create_task(run_until(end))
        await end.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    assert ([], []) == standing(connect)
    assert asyncio.run(charge_async(dsn, context(attempt=2), autocommit=True))


def test_within_the_callers_transaction_all_stands_or_falls_with_it(connect: Connect) -> None:
    """The block is a savepoint: its failure leaves what came before it, and the caller commits."""
    connection = connect()
    connection.execute("INSERT INTO charges VALUES ('before')")
    fail(connection, context())
    assert charge(connection, context(), "after")
    assert ([], []) == standing(connect)
    connection.commit()
    assert (["after", "before"], [(7, "j_7:1", "after")]) == standing(connect)

    assert charge(connection, context("j_7:2"))
    with connection.transaction() as outer:
        assert charge(connection, context("j_7:3"))
        raise psycopg.Rollback(outer)
    assert charge(connection, context("j_7:3"))


def test_a_rollback_by_name_ends_the_block_quietly(connect: Connect) -> None:
    """`psycopg.Rollback` means to psycopg's own blocks: take it back and go on."""
    connection = connect()
    with context().idempotent(connection) as first:
        connection.execute("INSERT INTO charges VALUES ('')")
        raise psycopg.Rollback
    assert first  # type: ignore[unreachable]
    assert ([], []) == standing(connect)


def test_each_named_effect_of_a_run_is_made_once(connect: Connect) -> None:
    """A run that broke between two makes only the one that is missing."""
    connection = connect(autocommit=True)
    assert charge(connection, context(attempt=1), "invoice")
    names = ["", "invoice", "mail", "é 'quoted' \"%s\""]
    assert [True, False, True, True] == [charge(connection, context(attempt=2), n) for n in names]
    effects, keys = standing(connect)
    assert sorted(names) == sorted(effects) == sorted(effect for _, _, effect in keys)


def test_the_key_belongs_to_its_job(connect: Connect) -> None:
    """Two jobs may render the same key; a firing with another one has an effect of its own."""
    connection = connect(autocommit=True)
    assert charge(connection, context("report-2026-W24", job=7))
    assert charge(connection, context("report-2026-W24", job=2**62))
    assert charge(connection, context("report-2026-W25", job=7))
    assert not charge(connection, context("report-2026-W24", job=7))


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_attempt_beside_another_waits_for_its_end(
    connect: Connect, dsn: str, end: str, is_async: bool
) -> None:
    """Committed: the effect stands already.  Rolled back: it is made now."""
    slow = connect()
    slow.execute("SELECT 1")
    assert charge(slow, context(attempt=1))

    def successor() -> bool:
        if is_async:
            return asyncio.run(charge_async(dsn, context(attempt=2), autocommit=True))
        return charge(connect(autocommit=True), context(attempt=2))

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(successor)
        wait_until_waiting(dsn)
        assert not waiting.done()
        getattr(slow, end)()
        assert (end == "rollback") is waiting.result(timeout=30)
    assert ([""], [(7, "j_7:1", "")]) == standing(connect)


def test_an_attempt_whose_session_is_gone_is_not_waited_for(connect: Connect, dsn: str) -> None:
    """A killed worker's transaction is rolled back by the server."""
    killed = connect()
    killed.execute("SELECT 1")
    assert charge(killed, context(attempt=1))
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(charge, connect(autocommit=True), context(attempt=2))
        wait_until_waiting(dsn)
        connect(autocommit=True).execute(
            "SELECT pg_terminate_backend(%s)", (killed.info.backend_pid,)
        )
        assert waiting.result(timeout=30)
    assert ([""], [(7, "j_7:1", "")]) == standing(connect)


def test_many_attempts_at_once_make_one_effect(connect: Connect) -> None:
    connections = [connect(autocommit=True) for _ in range(12)]
    with ThreadPoolExecutor(len(connections)) as threads:
        for key in range(20):
            ctx = context(f"j_7:{key}")
            assert 1 == sum(threads.map(lambda each, c=ctx: charge(each, c), connections))
    assert 20 == len(standing(connect)[0])


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize("autocommit", [True, False])
def test_where_snapshots_are_frozen_a_key_behind_them_can_be_tried_again(
    connect: Connect, level: IsolationLevel, autocommit: bool
) -> None:
    """The database says so with SerializationFailure; the transaction's repeat finds the key."""
    connection = connect(autocommit=autocommit)
    connection.isolation_level = level

    def attempt() -> bool:
        with connection.transaction():
            connection.execute("SELECT count(*) FROM charges")  # takes the snapshot
            if tries == 1:
                assert charge(connect(autocommit=True), context(attempt=1))
            return charge(connection, context(attempt=2))

    tries = 1
    with pytest.raises(psycopg.errors.SerializationFailure):
        attempt()
    tries = 2
    assert not attempt()
    assert ([""], [(7, "j_7:1", "")]) == standing(connect)


def test_effects_taken_in_opposite_orders_end_as_a_deadlock_that_can_be_tried_again(
    connect: Connect,
) -> None:
    """The server rolls one of the two back; the other one has made both effects."""
    sessions = [connect(), connect()]
    for session, effect in zip(sessions, "ab", strict=True):
        session.execute("SET LOCAL deadlock_timeout = '100ms'")
        assert charge(session, context(), effect)

    def cross(index: int) -> str:
        try:
            charge(sessions[index], context(), "ba"[index])
        except psycopg.errors.DeadlockDetected:
            sessions[index].rollback()
            return "deadlock"
        sessions[index].commit()
        return "done"

    with ThreadPoolExecutor(2) as threads:
        assert ["deadlock", "done"] == sorted(threads.map(cross, range(2)))
    assert ["a", "b"] == standing(connect)[0]
    again = connect(autocommit=True)
    assert [False, False] == [charge(again, context(), effect) for effect in "ab"]


def test_the_callers_way_of_reading_does_not_matter(connect: Connect) -> None:
    """Other row and cursor factories, `$1` parameters, no prepared statements, ten times over."""
    connection: psycopg.Connection[Any] = connect(
        autocommit=True, row_factory=dict_row, cursor_factory=psycopg.RawCursor
    )
    connection.prepare_threshold = None
    for key in range(10):
        with context(f"j_7:{key}").idempotent(connection) as first:
            assert first
            connection.execute("INSERT INTO charges VALUES ($1)", [Jsonb(key)])
    assert 10 == len(standing(connect)[1])


def test_a_pipeline_is_refused_around_the_block_and_welcome_inside(connect: Connect) -> None:
    connection = connect(autocommit=True)
    with (
        connection.pipeline(),
        pytest.raises(InvalidInput, match="in pipeline mode") as refused,
        context().idempotent(connection),
    ):
        pass
    assert "inside the block" in str(refused.value.hint)
    with context().idempotent(connection) as first, connection.pipeline():
        assert first
        connection.execute("INSERT INTO charges VALUES ('')")
    assert ([""], [(7, "j_7:1", "")]) == standing(connect)


def test_a_database_without_the_table_says_what_to_do(connect: Connect) -> None:
    """And the caller's transaction goes on."""
    connection = connect()
    connection.execute("SET search_path = pg_catalog")
    with pytest.raises(EffectRefused, match="finds no table idempotency_keys") as refused:
        charge(connection, context())
    assert "search_path" in str(refused.value.hint)
    assert "docs/effects.md" in str(refused.value.hint)
    assert (1,) == connection.execute("SELECT 1").fetchone()


@pytest.mark.parametrize(
    "columns",
    [
        "id uuid, response text",
        "job_id bigint, key text, PRIMARY KEY (job_id, key)",
        "job_id bigint, key text, effect text",
        "job_id bigint, key text, effect text, PRIMARY KEY (job_id, key)",
        "job_id uuid, key text, effect text, PRIMARY KEY (job_id, key, effect)",
    ],
)
def test_another_table_of_that_name_is_refused(connect: Connect, columns: str) -> None:
    """Above all one without the unique index, in which no key would ever be found."""
    connection = connect(autocommit=True)
    connection.execute("CREATE SCHEMA mine")
    connection.execute(f"CREATE TABLE mine.idempotency_keys ({columns})")
    connection.execute("SET search_path = mine, public")
    with pytest.raises(EffectRefused, match="is not as it should be") as refused:
        charge(connection, context())
    assert "mainspring migrate" in str(refused.value.hint)
    connection.execute("SET search_path = public, mine")
    assert charge(connection, context())


def test_a_role_needs_insert_and_select_and_nothing_else(connect: Connect) -> None:
    connection = connect(autocommit=True)
    role = f"role_{connection.info.backend_pid}"
    connection.execute(f"CREATE ROLE {role}")
    try:
        connection.execute(f"GRANT INSERT ON charges TO {role}")
        connection.execute(f"SET ROLE {role}")
        with pytest.raises(EffectRefused, match="may not write to idempotency_keys") as refused:
            charge(connection, context())
        assert "GRANT SELECT, INSERT ON idempotency_keys" in str(refused.value.hint)
        connection.execute("RESET ROLE")
        connection.execute(f"GRANT SELECT, INSERT ON idempotency_keys TO {role}")
        connection.execute(f"SET ROLE {role}")
        assert [True, False] == [charge(connection, context()) for _ in range(2)]
    finally:
        connection.execute("RESET ROLE")
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


def test_what_else_the_database_says_passes_through(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        charge(connection, context())
    connection.rollback()
    connection.read_only = True
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        charge(connection, context())
    connection.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        charge(connection, context())
