"""The proxy keeps back the answer that it was armed for, once the server has committed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from faults.wire_proxy import WireProxy, take_messages
from mainspring.devpg import DevPostgres
from mainspring.errors import StoreUnavailable
from mainspring.store.postgres import PostgresStore


@pytest.fixture
def proxy(postgres_server: DevPostgres) -> Iterator[WireProxy]:
    made = WireProxy("127.0.0.1", postgres_server.port)
    yield made
    made.close()


@pytest.fixture
def far_store(dsn: str, postgres_server: DevPostgres, proxy: WireProxy) -> Iterator[PostgresStore]:
    name = str(conninfo_to_dict(dsn)["dbname"])
    through = make_conninfo(
        postgres_server.dsn_of(name, tcp=True),
        port=proxy.port,
        sslmode="disable",
        gssencmode="disable",
    )
    store = PostgresStore(through, application_name="far")
    yield store
    store.close()


def test_only_the_answer_of_the_named_statement_is_kept_back(
    far_store: PostgresStore, proxy: WireProxy
) -> None:
    """Ids that were drawn and never told are not drawn again: the statement had been committed."""
    [before] = far_store.take_ids(1)
    proxy.arm("take_ids")
    assert far_store.database_us() > 0  # another statement passes
    with pytest.raises(StoreUnavailable):
        far_store.take_ids(3)
    cut = proxy.wait_cut(5)

    assert ("SELECT 3", "take_ids", 3) == (cut.tag, cut.statement, cut.row_count)
    assert [before + 4] == far_store.take_ids(1)


def test_the_answer_to_the_commit_is_the_one_of_a_transaction(
    far_store: PostgresStore, proxy: WireProxy
) -> None:
    """Statements of the transaction are answered; what is not known is whether it stands."""
    assert far_store.count_shards() == 0
    proxy.arm("make_shard_leases")
    with pytest.raises(StoreUnavailable):
        far_store.make_shards(2)

    assert "COMMIT" == proxy.wait_cut(5).tag
    assert 2 == far_store.count_shards()


def test_a_message_in_pieces_waits_for_its_end() -> None:
    whole = b"C\x00\x00\x00\x0dSELECT 3\x00Z\x00\x00\x00\x05I"
    buffer = bytearray()
    taken = []
    for byte in whole:
        buffer.append(byte)
        taken += take_messages(buffer)

    assert [(b"C", b"SELECT 3\x00"), (b"Z", b"I")] == taken
