"""A process that is to stay waits for a server that is there and slow, and for no other."""

from __future__ import annotations

import socket
import threading

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mainspring.cli import database
from mainspring.cli.database import open_store
from mainspring.devpg import DevPostgres
from mainspring.errors import StoreUnavailable
from postgres.proxy import Proxy

RESUME_S = 1.0
"""Within the time for one connection, 2 s: what is stalled by then is not forwarded later."""


@pytest.mark.slow
def test_a_server_that_does_not_answer_in_time_is_asked_again(
    proxy: Proxy, postgres_server: DevPostgres, dsn: str
) -> None:
    """It is stalled when the first connection comes, and lets a later one in."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    through = make_conninfo(
        postgres_server.dsn_of(name, tcp=True), host="127.0.0.1", port=proxy.port
    )
    proxy.stall()
    with pytest.raises(StoreUnavailable), open_store(through, "test"):
        pass
    resuming = threading.Timer(RESUME_S, proxy.resume)
    resuming.start()
    with open_store(through, "test", patience_s=60) as store:
        assert store.count_shards() == 0
    resuming.join()


@pytest.mark.slow
def test_patience_ends() -> None:
    """And without any the first failure is the answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d"
        for patience_s in (0.0, database.RETRY_S):
            with (
                pytest.raises(StoreUnavailable, match="cannot be reached"),
                open_store(dsn, "test", patience_s=patience_s),
            ):
                pass


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with (
        pytest.raises(StoreUnavailable),
        open_store(f"postgresql://u@127.0.0.1:{port}/d", "test", patience_s=3_600),
    ):
        pass
