"""`mainspring api`: starts the API server, which is a package of its own, in this process."""

from __future__ import annotations

import os
import sys

import click

from mainspring.cli.database import DSN_VARIABLE, dsn_option, require_dsn
from mainspring.cli.output import json_option


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="0 takes a free one.  [default: 8080]")
@dsn_option
@json_option
def api(dsn: str | None, host: str | None, port: int | None, as_json: bool) -> None:  # noqa: ARG001
    """Serve the HTTP API until SIGTERM; prints one JSON line with its address when it listens."""
    environment = dict(os.environ)
    environment[DSN_VARIABLE] = require_dsn(dsn)
    if host is not None:
        environment["MAINSPRING_HOST"] = host
    if port is not None:
        environment["MAINSPRING_PORT"] = str(port)
    # The process becomes the server: one pid for signals, and no import of the package above.
    os.execve(  # noqa: S606  our own interpreter
        sys.executable, [sys.executable, "-m", "mainspring_api"], environment
    )
