"""Which database a command works on, and a store on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import psycopg

from mainspring.clock import monotonic_s, sleep_s
from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.logs import get_logger
from mainspring.store.migrate import require_current
from mainspring.store.outage import Outage
from mainspring.store.postgres import PostgresStore

log = get_logger("mainspring.cli")

DSN_VARIABLE = "MAINSPRING_DSN"
START_PATIENCE_S = 30.0
"""Of a process that is to stay: a machine that has just booted starts everything at once."""

RETRY_S = 0.5
_Command = TypeVar("_Command", bound=Callable[..., Any])


def dsn_option(command: _Command) -> _Command:
    """Add `--dsn`, which the environment may give."""
    option = click.option(
        "--dsn",
        envvar=DSN_VARIABLE,
        help="Postgres to use, as in postgresql://user@host/database.  [env: MAINSPRING_DSN]",
    )
    return option(command)


def require_dsn(dsn: str | None) -> str:
    """Return the DSN, or say how to give one."""
    if not dsn:
        raise InvalidInput(
            "no database was named",
            hint=f"Give --dsn or set {DSN_VARIABLE}; `mainspring serve` brings a Postgres of its "
            "own, and prints what to set.",
        )
    return dsn


@contextmanager
def open_store(
    dsn: str,
    kind: str,
    *,
    pool_max: int = 4,
    outage: Outage | None = None,
    patience_s: float = 0.0,
) -> Iterator[PostgresStore]:
    """Yield a store on a database whose schema is the one this release knows.

    Parameters
    ----------
    patience_s
        How long to try again where a server is there and does not let us in in time: it starts up,
        recovers, or has no time for us.  A server that is not there is an error at once.

    Raises
    ------
    StoreUnavailable
        There is no server, or none that lets us in.
    MigrationRefused
        The schema is another one.
    """
    until_s = monotonic_s() + patience_s
    while True:
        store = PostgresStore(
            dsn, application_name=f"mainspring {kind}", pool_max=pool_max, outage=outage
        )
        try:
            require_current(dsn)
            if patience_s:
                store.database_us()  # so that what follows has a session already
            break
        except StoreUnavailable as error:
            store.close()
            if not _is_slow(error) or monotonic_s() >= until_s:
                raise
            log.warning("the database does not let us in yet", reason=error.detail)
            sleep_s(RETRY_S)
        except BaseException:
            store.close()
            raise
    try:
        yield store
    finally:
        store.close()


def _is_slow(error: StoreUnavailable) -> bool:
    """Whether a server is there that has not answered in time, or that starts up."""
    return isinstance(
        error.__cause__, psycopg.errors.ConnectionTimeout | psycopg.errors.CannotConnectNow
    )
