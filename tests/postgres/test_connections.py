"""Sessions fail within seconds, come back by themselves, and are refused behind some poolers."""

from __future__ import annotations

import itertools
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mainspring.devpg import DevPostgres
from mainspring.errors import (
    InvalidInput,
    MigrationRefused,
    PoolerDetected,
    StatementRetry,
    StoreUnavailable,
)
from mainspring.store.migrate import migrate
from mainspring.store.postgres import PostgresStore, pool
from mainspring.store.postgres.connection import (
    CONNECTION_DEFAULTS,
    Session,
    connect,
    refuse_pooler,
)
from postgres.field import Field, new_job, wait_until_waiting
from postgres.proxy import Proxy


@pytest.fixture
def tcp_dsn(postgres_server: DevPostgres, dsn: str) -> str:
    return postgres_server.dsn_of(str(conninfo_to_dict(dsn)["dbname"]), tcp=True)


@pytest.fixture
def open_store() -> Iterator[Callable[..., PostgresStore]]:
    stores = []

    def make(dsn: str, **options: Any) -> PostgresStore:
        stores.append(PostgresStore(dsn, application_name="mainspring test", **options))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def through(proxy: Proxy, tcp_dsn: str) -> str:
    return make_conninfo(tcp_dsn, host="127.0.0.1", port=proxy.port)


def seconds_until_unavailable(call: Callable[[], object]) -> float:
    begin = time.monotonic()
    with pytest.raises(StoreUnavailable):
        call()
    return time.monotonic() - begin


def end_session(dsn: str, application_name: str = "mainspring test") -> int:
    with psycopg.connect(dsn, autocommit=True) as other:
        rows = other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            (application_name,),
        ).fetchall()
    return len(rows)


def test_a_peer_that_falls_silent_fails_the_call_within_the_limit_and_the_next_one_connects(
    proxy: Proxy, tcp_dsn: str, open_store: Callable[..., PostgresStore]
) -> None:
    """The peer's kernel still acknowledges here, so no setting of TCP would ever notice."""
    store = open_store(through(proxy, tcp_dsn))
    assert store.database_us() > 0
    proxy.stall()
    assert seconds_until_unavailable(store.database_us) < 10
    assert seconds_until_unavailable(store.database_us) < 10  # connecting anew


def test_a_peer_whose_kernel_is_gone_is_noticed_by_both_settings_of_tcp(tcp_dsn: str) -> None:
    """Either alone leaves one case hanging: data under way, or none."""
    with connect(tcp_dsn, "mainspring test") as session:
        ours = socket.socket(fileno=socket.dup(session.fileno()))
        with ours:
            tcp = socket.IPPROTO_TCP
            assert ours.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 2_000
            assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert ours.getsockopt(tcp, socket.TCP_KEEPIDLE) == 1
            assert ours.getsockopt(tcp, socket.TCP_KEEPINTVL) == 1
            assert ours.getsockopt(tcp, socket.TCP_KEEPCNT) == 2
        theirs = [
            session.execute(f"SHOW {name}".encode()).fetchone()
            for name in ("tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_count")
        ]
        assert theirs == [("3000",), ("2",), ("3",)]


def test_what_the_dsn_says_wins_over_our_defaults(tcp_dsn: str) -> None:
    assert CONNECTION_DEFAULTS["keepalives_idle"] == "1"
    dsn = make_conninfo(tcp_dsn, keepalives_idle=7, options="-c lock_timeout=3s")
    with connect(dsn, "x") as session:
        assert "keepalives_idle=7" in session.info.dsn
        assert session.execute("SHOW lock_timeout").fetchone() == ("3s",)
        assert session.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_connection_string_that_cannot_be_read_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidInput, match="connection string") as refused:
        connect("postgresql://user:secret@host/name and more", "x")
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_an_address_that_accepts_and_never_answers_fails_within_seconds(
    open_store: Callable[..., PostgresStore],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        store = open_store(f"host=127.0.0.1 port={listener.getsockname()[1]} dbname=x user=x")
        assert seconds_until_unavailable(store.database_us) < 4


def test_an_address_where_nobody_listens_fails_at_once(
    open_store: Callable[..., PostgresStore],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    store = open_store(f"host=127.0.0.1 port={port} dbname=x user=x")
    assert seconds_until_unavailable(store.database_us) < 2


def test_after_a_restart_of_the_server_the_next_call_works(
    open_store: Callable[..., PostgresStore],
) -> None:
    with DevPostgres(settings={"fsync": "off"}) as server:
        migrate(server.dsn)
        store = open_store(server.dsn)
        store.make_shards(1)
        server.restart()
        assert store.count_shards() == 1


def test_a_session_ended_while_idle_costs_no_error(
    dsn: str, open_store: Callable[..., PostgresStore]
) -> None:
    store = open_store(dsn)
    store.database_us()
    assert end_session(dsn) == 1
    assert store.database_us() > 0


def test_a_session_ended_while_it_works_is_unavailable_and_the_next_call_works(
    field: Field,
) -> None:
    """The claim waits for a lock on the term when its session is ended: nothing was leased."""
    field.store.add_jobs([new_job(field.now_us)])
    with psycopg.connect(field.dsn) as other, ThreadPoolExecutor(1) as thread:
        other.execute("SELECT FROM shards FOR UPDATE")
        claiming = thread.submit(claim, field)
        wait_until_waiting(field.dsn)
        assert end_session(field.dsn) >= 1
        with pytest.raises(StoreUnavailable):
            claiming.result(timeout=10)
    assert claim(field) == 1


def claim(field: Field) -> int:
    return len(
        field.store.claim_page(
            0, field.terms[0], field.leader, after=(0, 0), until_us=field.now_us, limit=10
        )
    )


def test_a_lock_that_stays_taken_is_told_as_a_retry_after_bounded_repeats(field: Field) -> None:
    with psycopg.connect(field.dsn) as other:
        other.execute("SELECT FROM shards FOR UPDATE")
        with pytest.raises(StatementRetry):
            field.store.take_term(0, field.leader)
    assert field.store.take_term(0, field.leader) == field.terms[0] + 1


def test_a_deadlock_is_repeated_and_both_sides_succeed(field: Field) -> None:
    """Another program locks a firing, then its job; deletion locks the job, then the firing."""
    (job_id,) = field.store.add_jobs([new_job(field.now_us)])
    with (
        psycopg.connect(field.dsn) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        other.execute("SET deadlock_timeout = '1min'")  # let the store be the one to notice
        other.execute("SELECT FROM firings WHERE firing_id = %s FOR UPDATE", (job_id,))
        deleting = thread.submit(field.store.delete_job, job_id)
        wait_until_waiting(field.dsn)
        other.execute("SELECT FROM jobs WHERE job_id = %s FOR UPDATE", (job_id,))
        other.rollback()
        assert deleting.result(timeout=20) is True


def test_when_all_sessions_stay_in_use_the_caller_is_told(
    dsn: str, open_store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "LEND_S_MAX", 0.05)
    store = open_store(dsn, pool_max=1)
    entered, leave = threading.Event(), threading.Event()

    def hold(_: Session) -> None:
        entered.set()
        leave.wait(20)

    with ThreadPoolExecutor(1) as thread:
        holding = thread.submit(store._database.repeat, hold)
        entered.wait(20)
        with pytest.raises(StoreUnavailable, match="all 1 database sessions"):
            store.database_us()
        leave.set()
        holding.result()
    assert store.database_us() > 0


def test_a_closed_store_says_so(dsn: str, open_store: Callable[..., PostgresStore]) -> None:
    store = open_store(dsn)
    store.database_us()
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="the store is closed"):
        store.database_us()
    with pytest.raises(StoreUnavailable, match="the store is closed"):
        list(store.hints(0))


def test_a_database_without_our_schema_is_refused_with_a_hint(
    empty_dsn: str, open_store: Callable[..., PostgresStore]
) -> None:
    with pytest.raises(MigrationRefused) as refused:
        open_store(empty_dsn).count_shards()
    assert "mainspring migrate" in str(refused.value.hint)


class PoolerInTransactionMode:
    """Hands each transaction the server process that was given back last, as pgbouncer does."""

    def __init__(self, dsn: str, size: int) -> None:
        self.idle = [psycopg.connect(dsn, autocommit=True) for _ in range(size)]

    def open_session(self) -> PooledSession:
        return PooledSession(self)

    def close(self) -> None:
        for backend in self.idle:
            backend.close()


class PooledSession:
    """A session behind the pooler."""

    def __init__(self, pooler: PoolerInTransactionMode) -> None:
        self._pooler = pooler
        self._backend: psycopg.Connection | None = None

    def execute(self, query: str) -> Any:
        backend = self._backend or self._pooler.idle.pop()
        answer = backend.execute(query.encode())
        in_transaction = backend.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        self._backend = backend if in_transaction else None
        if not in_transaction:
            self._pooler.idle.append(backend)
        return answer

    def close(self) -> None:
        assert self._backend is None


def test_a_pooler_in_transaction_mode_is_refused(dsn: str) -> None:
    pooler = PoolerInTransactionMode(dsn, 3)
    try:
        first = pooler.open_session()
        with pytest.raises(PoolerDetected, match="changes between transactions") as refused:
            refuse_pooler(first, pooler.open_session)
        assert "session mode" in str(refused.value.hint)
    finally:
        pooler.close()


def test_a_pooler_in_session_mode_is_let_through(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as first:
        refuse_pooler(first, lambda: psycopg.connect(dsn, autocommit=True))


def test_an_answering_process_other_than_the_greeting_one_is_looked_into(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler the numbers differ; a direct connection costs no second session."""
    opened = itertools.count()
    original = Session.connect.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Session], *arguments: Any, **keywords: Any) -> Session:
        next(opened)
        session: Session = original(cls, *arguments, **keywords)
        return session

    monkeypatch.setattr(Session, "connect", classmethod(counted))
    connect(dsn, "x").close()
    assert next(opened) == 1
    monkeypatch.setattr("mainspring.store.postgres.connection.is_direct", lambda _: False)
    connect(dsn, "x").close()
    assert next(opened) == 4  # the session and the one that looks; the two reads count as well


def test_hints_arrive_and_foreign_notices_are_passed_over(field: Field) -> None:
    list(field.store.hints(0))  # listens from now on
    with psycopg.connect(field.dsn, autocommit=True) as other:
        other.execute("SELECT pg_notify('mainspring_due', 'nonsense')")
    (job_id,) = field.open_store().add_jobs([new_job(field.now_us + 5)])
    hints = field.store.hints(20)
    assert next(hints) == (0, field.now_us + 5, job_id)
    hints.close()  # type: ignore[attr-defined]


def test_one_hint_a_shard_names_the_earliest_of_a_batch(make_field: Callable[[int], Field]) -> None:
    field = make_field(2)
    list(field.store.hints(0))
    field.store.add_jobs([new_job(field.now_us + 100 - place) for place in range(40)])
    shards = {job.shard for job in field.store.list_jobs(limit=100)}
    assert shards == {0, 1}
    jobs = field.store.list_jobs(limit=100)
    earliest = {
        shard: min(job.next_us or math.inf for job in jobs if job.shard == shard)
        for shard in shards
    }
    hints = list(itertools.islice(field.store.hints(20), 2))
    assert {hint.shard: hint.due_us for hint in hints} == earliest
    assert {hint.firing_id for hint in hints} == {0}


def test_a_lost_listening_session_is_told_and_the_next_call_listens_again(field: Field) -> None:
    list(field.store.hints(0))
    end_session(field.dsn)
    with pytest.raises(StoreUnavailable):
        list(field.store.hints(5))
    assert list(field.store.hints(0)) == []
    (job_id,) = field.store.add_jobs([new_job(field.now_us)])
    assert next(iter(field.store.hints(20))).firing_id == job_id


def test_closing_the_store_ends_a_thread_that_waits_for_hints(field: Field) -> None:
    store = field.open_store()
    list(store.hints(0))
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(list, store.hints(60))
        store.close()
        assert waiting.result(timeout=10) == []
