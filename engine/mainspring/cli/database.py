"""Which database a command works on, and a store on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from mainspring.errors import InvalidInput
from mainspring.store.migrate import require_current
from mainspring.store.outage import Outage
from mainspring.store.postgres import PostgresStore

DSN_VARIABLE = "MAINSPRING_DSN"
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
    dsn: str, kind: str, *, pool_max: int = 4, outage: Outage | None = None
) -> Iterator[PostgresStore]:
    """Yield a store on a database whose schema is the one this release knows."""
    require_current(dsn)
    store = PostgresStore(
        dsn, application_name=f"mainspring {kind}", pool_max=pool_max, outage=outage
    )
    try:
        yield store
    finally:
        store.close()
