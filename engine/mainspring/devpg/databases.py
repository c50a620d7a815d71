"""Creates and drops databases in an embedded Postgres.

Source: PostgreSQL manual, CREATE DATABASE and DROP DATABASE.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from mainspring.errors import DevPostgresError

# NAMEDATALEN - 1: the server cuts longer names, so that two could become one.
NAME_BYTES_MAX = 63

# STRATEGY came with this release; before it there is only the file copy.
STRATEGY_VERSION_MIN = 15

_CONNECT_S = 30


def create_database(dsn: str, name: str, template: str | None, *, strategy: str | None) -> None:
    """Create a database as a copy of `template`, or of the server's default template.

    Parameters
    ----------
    strategy
        `wal_log`, `file_copy`, or None before Postgres 15, which knows only the latter.

    Raises
    ------
    DevPostgresError
        The name is too long or taken, there is no such template, or somebody is connected to it.
    """
    _check(name)
    statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
    if template is not None:
        _check(template)
        statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
    if strategy is not None:
        statement += sql.SQL(" STRATEGY {}").format(sql.Identifier(strategy))
    with _session(dsn, f"cannot create database {name!r}") as connection:
        connection.execute(statement)


def drop_database(dsn: str, name: str) -> None:
    """Drop a database if it is there, ending the sessions in it.

    Raises
    ------
    DevPostgresError
        The server refused, as for the database this statement itself is sent from.
    """
    _check(name)
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with _session(dsn, f"cannot drop database {name!r}") as connection:
        connection.execute(statement)


def _check(name: str) -> None:
    if not name or "\0" in name or len(name.encode()) > NAME_BYTES_MAX:
        raise DevPostgresError(
            f"bad database name {name!r}",
            hint=f"Names have 1 to {NAME_BYTES_MAX} bytes and no NUL.",
        )


@contextmanager
def _session(dsn: str, attempted: str) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(
            dsn, autocommit=True, connect_timeout=_CONNECT_S, application_name="devpg"
        ) as connection:
            # Said by DROP .. IF EXISTS of a database that is gone, which is what was wanted.
            connection.execute("SET client_min_messages = warning")
            yield connection
    except psycopg.Error as problem:
        raise DevPostgresError(attempted, detail=str(problem).strip()) from problem
