"""The API as a process: settings from the environment, a socket on loopback, uvicorn on it.

Prints one line of JSON on stdout, so that whoever started it need not guess:
`{"url": "http://127.0.0.1:8080", ...}` once it answers, with the port that port 0 became, or
`{"problem": ...}` if it cannot.  SIGTERM and SIGINT finish the requests under way and end it with
exit code 0.

There are no API keys yet, so it listens on loopback only and refuses anything else.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
import psycopg
import uvicorn
from psycopg.conninfo import conninfo_to_dict

from mainspring.config import ApiSettings, read_environment
from mainspring.errors import InvalidInput, MainspringError
from mainspring.loopback import require_loopback
from mainspring.metrics import ApiMetrics, serve_metrics
from mainspring.parent import die_with_parent
from mainspring.store.postgres import PostgresStore
from mainspring.store.protocol import Store
from mainspring_api.app import create_app
from mainspring_api.observer import ApiObserver, MetricsObserver

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_BAD_INPUT: Final = 2

BACKLOG: Final = 2_048
GRACE_S: Final = 10
"""How long a shutdown waits for requests under way; a store call ends within six seconds."""

KEEP_ALIVE_S: Final = 15

METRICS_HOST: Final = "127.0.0.1"

READINESS_SESSIONS: Final = 1
"""Beyond those of requests, so that /readyz does not wait for them."""


class Listening(msgspec.Struct, frozen=True):
    """The line on stdout once requests are answered."""

    url: str
    pid: int
    metrics_port: int


class Problem(msgspec.Struct, frozen=True):
    """The line on stdout if they never will be."""

    problem: str
    detail: str | None
    hint: str | None


class AnnouncingServer(uvicorn.Server):
    """A uvicorn server that says when it answers."""

    metrics_port = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as the base class does, then print the line."""
        await super().startup(sockets=sockets)
        if self.started and sockets:
            _print_line(Listening(url_of(sockets[0]), os.getpid(), self.metrics_port))


def main() -> int:
    """Run the API until a signal ends it.

    Returns
    -------
    int
        0 after a signal, 1 if it could not start, 2 if a setting is wrong.
    """
    try:
        die_with_parent(os.environ)
        settings = read_environment(ApiSettings, os.environ, {})
        dsn = read_dsn(os.environ)
        require_loopback(settings.host, "the API")
    except InvalidInput as error:
        return _complain(error, EXIT_BAD_INPUT)
    try:
        listener = listen(settings.host, settings.port)
        with listener:
            store = PostgresStore(
                dsn,
                application_name="mainspring api",
                pool_max=settings.pool_connections + READINESS_SESSIONS,
            )
            metrics = ApiMetrics()
            metrics_port, stop_metrics = serve_metrics(
                metrics.registry, METRICS_HOST, settings.metrics_port
            )
            try:
                serve(
                    store,
                    settings,
                    listener,
                    observer=MetricsObserver(metrics),
                    metrics_port=metrics_port,
                )
            finally:
                stop_metrics()
                store.close()
    except MainspringError as error:
        return _complain(error, EXIT_FAILED)
    return EXIT_DONE


def serve(
    store: Store,
    settings: ApiSettings,
    listener: socket.socket,
    *,
    observer: ApiObserver | None = None,
    metrics_port: int = 0,
) -> None:
    """Answer requests on a listening socket until SIGTERM or SIGINT; main thread only."""
    config = uvicorn.Config(
        create_app(store, settings, observer=observer),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    # uvicorn raises the signal again when it is done, for whatever handler was there before it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    server = AnnouncingServer(config)
    server.metrics_port = metrics_port
    server.run(sockets=[listener])


def read_dsn(environ: Mapping[str, str]) -> str:
    """Return the address of the database; raises `InvalidInput` for none, or one unreadable."""
    dsn = environ.get("MAINSPRING_DSN", "").strip()
    if not dsn:
        raise InvalidInput(
            "no database is named",
            hint="Set MAINSPRING_DSN, for instance to postgresql://user@host/database.",
        )
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # its text quotes the DSN, which may hold a password
        raise InvalidInput(
            "MAINSPRING_DSN cannot be read",
            hint="Write it as postgresql://user@host/database, or as host=... dbname=...",
        ) from None
    return dsn


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket; raises `MainspringError` if the address is taken."""
    address = "127.0.0.1" if host == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise MainspringError(
            f"cannot listen on {address} port {port}: {error.strerror or error}",
            hint="Choose another port with MAINSPRING_PORT; 0 takes a free one.",
        ) from error


def url_of(listener: socket.socket) -> str:
    """Return the address under which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _print_line(line: Listening | Problem) -> None:
    # Nobody may be there to read it, or not any more; that is no reason not to serve.
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            sys.stdout.write(msgspec.json.encode(line).decode("utf-8") + "\n")
            sys.stdout.flush()


def _complain(error: MainspringError, code: int) -> int:
    _print_line(Problem(error.message, error.detail, error.hint))
    sys.stderr.write(f"mainspring api: {error}\n")
    return code
