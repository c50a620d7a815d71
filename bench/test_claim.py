"""What it costs to have a claim's rows in hand, beside psycopg's own way of reading rows.

The bytes are those that a real claim sent.  They are also loaded into a table, so that both sides
read the same rows.  `fetchall` ends with a tuple of Python objects a row; ours ends with
columns, which is what the wheel, the frames and the next occurrences are computed from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from bench.rows import Field
from mainspring import _claim_pure
from mainspring.claim import KINDS, ClaimBatch, ClaimRow
from mainspring.store.postgres.arrays import Instant
from mainspring.store.postgres.connection import Session, connect
from mainspring.store.postgres.copy import copy_out
from mainspring.store.statements import statement

TYPES = {
    "2": "smallint",
    "4": "integer",
    "8": "bigint",
    "t": "timestamptz",
    "b": "boolean",
    "c": "text",
    "p": "text",
}
COLUMNS = ", ".join(
    f"{name} {TYPES[kind]}" for name, kind in zip(ClaimRow._fields, KINDS, strict=True)
)
ROUNDS = 20


@dataclass(frozen=True)
class Claimed:
    """A claim's bytes, and a session that finds its rows in the table `claimed`."""

    data: bytes
    session: Session
    rows: int


@pytest.fixture(scope="module")
def claimed(field: Field, page_rows: int) -> Any:
    """Claim a page, keep what was sent, and take the claim back."""
    field.reset()
    rows = min(page_rows, field.rows)
    parameters = {
        "now": None,
        "shard": 0,
        "term": field.term,
        "holder": field.leader,
        "after_due_at": Instant(0),
        "after_id": 0,
        "until_at": Instant(field.now_us),
        "limit": rows,
    }
    with connect(field.dsn, "mainspring bench") as session:
        session.execute("BEGIN")
        data = copy_out(session, statement("claim_page"), parameters)
        session.execute("ROLLBACK")
        session.execute(f"CREATE TEMP TABLE claimed ({COLUMNS})".encode())
        with (
            session.cursor() as cursor,
            cursor.copy("COPY claimed FROM STDIN (FORMAT binary)") as copy,
        ):
            copy.write(data)
        yield Claimed(data, session, rows)


def read_all(session: Session) -> psycopg.Cursor[Any]:
    """Have all rows sent to this process, in binary; none is decoded yet."""
    cursor: psycopg.Cursor[Any] = psycopg.Cursor(session)
    cursor.execute(b"SELECT * FROM claimed", binary=True)
    return cursor


def test_decode_compiled(benchmark: Any, claimed: Claimed) -> None:
    """Bytes to columns."""
    benchmark.group = f"claim: decode {claimed.rows:,} rows"
    batch = benchmark.pedantic(ClaimBatch.decode, (claimed.data,), rounds=ROUNDS, warmup_rounds=1)
    assert len(batch) == claimed.rows


def test_decode_psycopg_fetchall(benchmark: Any, claimed: Claimed) -> None:
    """The result is here already; `fetchall` makes its rows."""
    benchmark.group = f"claim: decode {claimed.rows:,} rows"
    with read_all(claimed.session) as cursor:

        def fetch() -> list[Any]:
            cursor.scroll(0, "absolute")
            return cursor.fetchall()

        rows = benchmark.pedantic(fetch, rounds=ROUNDS, warmup_rounds=1)
    assert len(rows) == claimed.rows
    assert ClaimBatch.decode(claimed.data).firing_id.tolist() == [row[0] for row in rows]


def test_decode_twin_in_python(benchmark: Any, claimed: Claimed) -> None:
    """Our own twin, row by row in Python."""
    benchmark.group = f"claim: decode {claimed.rows:,} rows"
    columns = benchmark.pedantic(
        _claim_pure.decode_copy, (claimed.data, KINDS), rounds=3, warmup_rounds=1
    )
    assert len(columns[0]) == claimed.rows


def test_read_by_copy(benchmark: Any, claimed: Claimed) -> None:
    """Ask, receive and decode: a binary COPY into columns."""
    benchmark.group = f"claim: ask for {claimed.rows:,} rows and have them"

    def read() -> ClaimBatch:
        data = copy_out(claimed.session, b"COPY claimed TO STDOUT (FORMAT binary)", {})
        return ClaimBatch.decode(data)

    assert len(benchmark.pedantic(read, rounds=ROUNDS, warmup_rounds=1)) == claimed.rows


def test_read_by_psycopg_fetchall(benchmark: Any, claimed: Claimed) -> None:
    """Ask, receive and decode: a binary SELECT into tuples."""
    benchmark.group = f"claim: ask for {claimed.rows:,} rows and have them"

    def read() -> list[Any]:
        with read_all(claimed.session) as cursor:
            return cursor.fetchall()

    assert len(benchmark.pedantic(read, rounds=ROUNDS, warmup_rounds=1)) == claimed.rows
