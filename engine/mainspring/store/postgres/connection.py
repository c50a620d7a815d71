"""Opens sessions that fail within seconds instead of hanging, and refuses transaction poolers.

A session ends one of three ways when the other side falls silent.  A peer whose kernel is gone is
noticed by `tcp_user_timeout` while data is under way and by keepalives while none is; each alone
leaves the other case hanging for a quarter of an hour.  A peer whose kernel still answers but whose
process does not (a stopped server, a stuck proxy) is noticed by our own limit on silence.  On the
server's side the same settings free the locks of a client that is gone.

Statements rely on the settings below: each names the index that serves it, and a plan by sequential
scan or hash join on a table whose statistics are stale is the classic way for a queue to stop.

Source: PostgreSQL manual, "Database Connection Control Functions" and "Client Connection
Defaults"; tcp(7).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Protocol, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from mainspring.clock import monotonic_s
from mainspring.errors import InvalidInput, PoolerDetected
from mainspring.store.postgres.arrays import register_arrays
from mainspring.store.postgres.failures import translated

Answer = TypeVar("Answer")

SILENCE_S_MAX: Final = 6.0
"""Longest time without a byte from the server; above `statement_timeout`, which should win."""

PREPARE_AFTER: Final = 2
"""Executions of one statement before it is prepared.  There are some thirty texts in all."""

CONNECTION_DEFAULTS: Final[dict[str, str]] = {
    "connect_timeout": "2",  # libpq's least
    "tcp_user_timeout": "2000",
    "keepalives": "1",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "client_encoding": "UTF8",
}
"""What the DSN may overrule."""

SESSION_SETTINGS: Final[dict[str, str]] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "default_transaction_isolation": "read\\ committed",
    "synchronous_commit": "on",  # off was measured to lose acknowledged rows after kill -9
    "statement_timeout": "5s",
    "lock_timeout": "1500ms",  # above deadlock_timeout, so that a deadlock is told as one
    "idle_in_transaction_session_timeout": "2s",  # below the TTL of a term
    "client_connection_check_interval": "1s",
    "tcp_user_timeout": "3s",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "plan_cache_mode": "force_custom_plan",  # arrays of 1 and of 5,000 want their own plans
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "random_page_cost": "1.1",  # at 4 a page of due firings is read as a bitmap of all of them
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}


class Session(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose waits end after `silence_s_max` without a byte from the server.

    When the limit passes the socket is closed, since what the server does with the statement is
    unknown, and `psycopg.OperationalError` is raised.
    """

    silence_s_max: float = SILENCE_S_MAX

    def wait(self, gen: Any, *arguments: Any, **keywords: Any) -> Any:
        """Drive a psycopg generator as the base class does, within the limit."""
        return super().wait(self._limited(gen), *arguments, **keywords)

    def _limited(self, gen: Generator[Any, Any, Answer]) -> Generator[Any, Any, Answer]:
        try:
            wanted = next(gen)
            deadline_s = monotonic_s() + self.silence_s_max
            while True:
                ready = yield wanted
                if ready:
                    deadline_s = monotonic_s() + self.silence_s_max
                elif monotonic_s() > deadline_s:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"no answer from the server for {self.silence_s_max} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def connect(dsn: str, application_name: str, **overrides: str) -> Session:
    """Open an autocommitting session with the settings of this module.

    Parameters
    ----------
    application_name
        Kind and holder of this process, as in `mainspring scheduler h_7`: a successor finds the
        sessions of a frozen predecessor by it.
    overrides
        Session settings that replace those of SESSION_SETTINGS.

    Raises
    ------
    StoreUnavailable
        The server does not answer or does not let us in.
    PoolerDetected
        A pooler sits between us and the server and does not keep sessions.
    """
    session = open_session(dsn, application_name, **overrides)
    try:
        with translated():
            if not is_direct(session):
                refuse_pooler(session, lambda: open_session(dsn, application_name, **overrides))
    except BaseException:
        session.close()
        raise
    return session


def open_session(dsn: str, application_name: str, **overrides: str) -> Session:
    """Open a session without looking for a pooler; `InvalidInput` for an unreadable DSN."""
    wanted: dict[str, Any] = CONNECTION_DEFAULTS | _read_dsn(dsn)
    ours = " ".join(f"-c {name}={value}" for name, value in (SESSION_SETTINGS | overrides).items())
    wanted["options"] = f"{ours} {wanted.get('options', '')}".strip()
    wanted["application_name"] = application_name
    with translated():
        session = Session.connect("", autocommit=True, prepare_threshold=PREPARE_AFTER, **wanted)
    register_arrays(session)
    return session


def _read_dsn(dsn: str) -> dict[str, str]:
    """Take a connection string apart; it holds a password, so no message shows it."""
    try:
        found = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise InvalidInput(
            "the connection string cannot be read",
            hint="Write postgresql://user@host:5432/database, or host=... dbname=... as for libpq.",
        ) from None
    return {key: str(value) for key, value in found.items() if value is not None}


class Backend(Protocol):
    """The little of a session that the search for a pooler needs."""

    def execute(self, query: Any) -> Any:
        """Execute a statement, with a `fetchone` on what it returns."""

    def close(self) -> None:
        """Close the session."""


def is_direct(session: Session) -> bool:
    """Return whether the process that greeted us is the one that answers.

    A pooler greets with a number of its own, in every mode.
    """
    return session.info.backend_pid == backend_pid(session)


def backend_pid(session: Backend) -> int:
    """Ask who answers."""
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0])


def refuse_pooler(session: Backend, open_other: Any) -> None:
    """Raise `PoolerDetected` if the server process behind a session changes between transactions.

    An idle pooler gives the same process again, so a second session takes that one into an open
    transaction first; in session mode it cannot, in transaction mode the first session must then be
    answered by another.

    Parameters
    ----------
    open_other
        Opens another session through the same address.
    """
    before_pid = backend_pid(session)
    other = open_other()
    try:
        other.execute("BEGIN")
        other_pid = backend_pid(other)
        after_pid = backend_pid(session)
        other.execute("ROLLBACK")
    finally:
        other.close()
    if other_pid == before_pid or after_pid != before_pid:
        raise PoolerDetected(
            "the server process changes between transactions",
            detail=f"process {before_pid} answered first, then {after_pid}",
            hint="Leases of shards and hints need sessions: connect to the server itself, or use a "
            "pool in session mode.",
        )
