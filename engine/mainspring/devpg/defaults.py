"""The server settings of an embedded Postgres, each with its reason.

They go on the command line, which outranks `postgresql.conf` and `ALTER SYSTEM`: what runs is what
is written here and in the caller's `settings`, whatever an earlier run left in the data folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mainspring.errors import DevPostgresError

# Ours to set: the DSN is made from them.
RESERVED = frozenset(
    {
        "data_directory",
        "external_pid_file",
        "hba_file",
        "listen_addresses",
        "logging_collector",  # would take the log away from the file we quote errors from
        "port",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

DEFAULTS: Mapping[str, str] = {
    # Acknowledged means on disk.  Without synchronous_commit a kill -9 of the server was seen to
    # lose acknowledged rows; without the other two a power cut can corrupt the whole folder.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # The hot table of a million firings and its index fit, and it stays modest on a laptop.
    "shared_buffers": "256MB",
    # A burst rewrites every row it fires several times.  At the stock 1 GB a checkpoint starts in
    # the middle of it and full page images multiply the WAL just then.
    "max_wal_size": "2GB",
    # Segments of the last burst are renamed for the next instead of being created under it.
    "min_wal_size": "256MB",
    # Scheduler, API and a few workers with a pool each, standbys that wait for a shard, and a
    # developer's psql: 100 is reached by accident.
    "max_connections": "200",
    # A frozen process must not hold its row locks, and hold back vacuum, for ever.  No transaction
    # of ours idles for longer than a round trip.
    "idle_in_transaction_session_timeout": "60s",
    # A deadlock rolls a statement back that is then repeated; half of the stock second suffices
    # and keeps the firings in it from being late by more.
    "deadlock_timeout": "500ms",
    # The hot table turns over within seconds; a look once a minute, the stock value, comes when it
    # has already grown.  Thresholds are per table, in the schema; only this is per server.
    "autovacuum_naptime": "10s",
    # Set-based statements over many rows look costly enough to the planner to compile them, which
    # takes longer than running them.
    "jit": "off",
    # One zone everywhere; `locale=C` comes from initdb.
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Instant, process, and who it works for: each session names its holder.
    "log_line_prefix": "%m [%p] %a ",
    # Lock waits are what makes firings late without any error.
    "log_lock_waits": "on",
}


def effective_settings(settings: Mapping[str, str] | None, *, has_lz4: bool) -> dict[str, str]:
    """Return our defaults, outranked by the caller's `settings`.

    Raises
    ------
    DevPostgresError
        A name is not one, or is one that only `DevPostgres` may set.
    """
    merged = dict(DEFAULTS)
    if has_lz4:
        # Full page images compress well and lz4 costs next to nothing.  Servers built without it
        # have only pglz, whose CPU time the workers on the same box can use better.
        merged["wal_compression"] = "lz4"
    for name, value in (settings or {}).items():
        key = name.lower()
        if _NAME.fullmatch(name) is None or "\0" in value:
            raise DevPostgresError(
                f"bad server setting {name!r}={value!r}",
                hint="Names are letters, digits, '_' and '.', as in `SHOW ALL`.",
            )
        if key in RESERVED:
            raise DevPostgresError(
                f"server setting {key!r} cannot be given",
                hint="Addresses, files and the log are chosen by DevPostgres; read its attributes.",
            )
        merged[key] = value
    return merged


def as_arguments(settings: Mapping[str, str]) -> list[str]:
    """Return the settings as `-c name=value` pairs."""
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
