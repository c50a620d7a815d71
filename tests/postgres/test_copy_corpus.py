"""Bytes of a real server's binary COPY decode to what the same server says in rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
import pytest

from mainspring import _claim, _claim_pure
from mainspring.claim import ClaimBatch

LIMITS = """
SELECT int2 '-32768', int4 '-2147483648', int8 '-9223372036854775808', true,
       timestamptz '1970-01-01 00:00:00.000001+00', 'déjà vu', 'payload'
UNION ALL
SELECT int2 '32767', int4 '2147483647', int8 '9223372036854775807', false,
       timestamptz 'infinity', NULL, ''
UNION ALL
SELECT int2 '0', int4 '0', int8 '0', true, timestamptz '-infinity', 'déjà vu', repeat('€', 5000)
UNION ALL
SELECT int2 '1', int4 '1', int8 '1', true, timestamptz '4713-01-01 00:00:00+00 BC', '', '{}'
"""
ROWS = """
SELECT i, i + 1, timestamptz 'epoch' + i * interval '1 s',
       timestamptz 'epoch' + i * interval '1 s', i + 2, i::int4, 1::int4, (i % 4)::int2,
       i % 2 = 0, 0::int2, i % 3 = 0, timestamptz 'epoch', timestamptz 'infinity',
       timestamptz 'epoch' - i * interval '1 s', 300::int4, 60::int4, 'task-' || i % 7, 'default',
       '0 9 * * 1', 'Europe/Berlin', 'next_valid', CASE WHEN i % 2 = 0 THEN 'first' ELSE 'both' END,
       CASE WHEN i % 5 = 0 THEN 'report-{{week}}' END, 'job-' || i, '{"n":' || i || '}'
FROM generate_series(int8 '1', 3000) AS i
"""


def copy_out(dsn: str, query: str) -> bytes:
    with (
        psycopg.connect(dsn) as connection,
        connection.cursor() as cursor,
        cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as copy,
    ):
        return b"".join(bytes(block) for block in copy)


@pytest.mark.parametrize("decode", [_claim.decode_copy, _claim_pure.decode_copy])
def test_every_kind_at_its_limits_comes_through(dsn: str, decode: Any) -> None:
    i2, i4, i8, flag, instant, text, blob = decode(copy_out(dsn, LIMITS), "248btcp")

    assert i2.tolist() == [-(2**15), 2**15 - 1, 0, 1]
    assert i4.tolist() == [-(2**31), 2**31 - 1, 0, 1]
    assert i8.tolist() == [-(2**63), 2**63 - 1, 0, 1]
    assert flag.tolist() == [1, 0, 1, 1]
    # Day 38 of the Julian count; 1970-01-01 is day 2,440,588.
    assert instant.tolist() == [1, 2**63 - 1, -(2**63), -210_863_520_000_000_000]
    assert (text[0].tolist(), text[1]) == ([0, -1, 0, 1], ["déjà vu", ""])
    ends = np.cumsum([0, 7, 0, 15_000, 2])
    assert blob[0].tolist() == ends.tolist()
    assert blob[1] == b"payload" + "€".encode() * 5_000 + b"{}"


def test_a_claim_of_the_server_decodes_to_the_rows_it_gives_one_by_one(dsn: str) -> None:
    batch = ClaimBatch.decode(copy_out(dsn, ROWS))

    assert len(batch) == 3_000
    assert batch.anchor_us.tolist() == [2**63 - 1] * 3_000
    with psycopg.connect(dsn) as connection:
        # Text of instants is not compared: datetime knows neither infinity nor BC.
        expected = connection.execute(ROWS.replace("timestamptz 'infinity'", "NULL")).fetchall()
    for index, cells in enumerate(expected):
        row = batch.row(index)
        assert (row.firing_id, row.job_id, row.fence) == (cells[0], cells[1], cells[4])
        assert row.due_us == int(cells[2].timestamp()) * 1_000_000
        assert row[5:11] == cells[5:11]
        assert row.previous_us == int(cells[13].timestamp()) * 1_000_000
        assert row[14:24] == cells[14:24]
        assert row.payload == cells[24].encode()


def test_an_empty_copy_of_the_server_is_an_empty_batch(dsn: str) -> None:
    batch = ClaimBatch.decode(copy_out(dsn, ROWS + " WHERE i < 0"))

    assert len(batch) == 0
    assert batch.task.values == ()
    assert batch.payload.joined == b""
