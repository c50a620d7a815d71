"""What a frame costs on both sides, beside msgspec with one struct per firing.

msgspec is the fastest codec of Python objects there is; what a frame saves is the objects.  The
structs hold the same fields.  `rows at hand` gives msgspec its structs ready-made, as a scheduler
would have them that thinks in rows; `rows taken out` makes them from the claim's columns first.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from bench.rows import TASK, batch_of
from mainspring import frame
from mainspring.claim import ClaimBatch

FIRINGS = 256
ENCODE = f"frame: encode {FIRINGS} firings"
DECODE = f"frame: decode {FIRINGS} firings"
READ = f"frame: decode {FIRINGS} firings and read each"


class Row(msgspec.Struct, array_like=True, gc=False):
    """One firing of a frame."""

    firing_id: int
    job_id: int
    fence: int
    scheduled_us: int
    due_us: int
    next_us: int
    rev: int
    attempt: int
    timeout_s: int
    flags: int
    key: str
    payload: bytes


class Message(msgspec.Struct, array_like=True, gc=False):
    """The rival's frame."""

    leader: int
    frame_no: int
    shard: int
    term: int
    queue: str
    task: str
    rows: list[Row]


ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(Message)


def encode_frame(batch: ClaimBatch, next_us: Any) -> bytes:
    """Encode ours."""
    return frame.encode(
        leader=1, frame_no=1, shard=0, term=1, queue="default", task=TASK, batch=batch,
        indices=np.arange(FIRINGS, dtype=np.int64), next_us=next_us,
    )  # fmt: skip


def rows_of(batch: ClaimBatch, next_us: Any) -> list[Row]:
    """Take rows out of columns, a whole column at a time."""
    columns = (
        batch.firing_id, batch.job_id, batch.fence, batch.scheduled_us, batch.due_us, next_us,
        batch.rev, batch.attempt, batch.timeout_s, batch.trigger,
    )  # fmt: skip
    lists = [column.tolist() for column in columns]
    payloads = [batch.payload[index] for index in range(len(batch))]
    return [Row(*row, "", payload) for *row, payload in zip(*lists, payloads, strict=True)]


def encode_rows(rows: list[Row]) -> bytes:
    """Encode the rival's."""
    return ENCODER.encode(Message(1, 1, 0, 1, "default", TASK, rows))


def test_encode_frame(benchmark: Any) -> None:
    """Columns to bytes."""
    benchmark.group = ENCODE
    batch = batch_of(FIRINGS)
    data = benchmark(encode_frame, batch, batch.due_us + 1)
    assert len(frame.decode(data)) == FIRINGS


def test_encode_msgspec_rows_taken_out(benchmark: Any) -> None:
    """Columns to structs to bytes."""
    benchmark.group = ENCODE
    batch = batch_of(FIRINGS)
    data = benchmark(lambda: encode_rows(rows_of(batch, batch.due_us + 1)))
    assert len(DECODER.decode(data).rows) == FIRINGS


def test_encode_msgspec_rows_at_hand(benchmark: Any) -> None:
    """Structs to bytes."""
    benchmark.group = ENCODE
    batch = batch_of(FIRINGS)
    data = benchmark(encode_rows, rows_of(batch, batch.due_us + 1))
    assert DECODER.decode(data).rows == rows_of(batch, batch.due_us + 1)


def test_decode_frame(benchmark: Any) -> None:
    """Bytes to columns."""
    benchmark.group = DECODE
    batch = batch_of(FIRINGS)
    decoded = benchmark(frame.decode, encode_frame(batch, batch.due_us + 1))
    assert decoded.payload(FIRINGS - 1) == batch.payload[FIRINGS - 1]


def test_decode_msgspec(benchmark: Any) -> None:
    """Bytes to structs."""
    benchmark.group = DECODE
    batch = batch_of(FIRINGS)
    decoded = benchmark(DECODER.decode, encode_rows(rows_of(batch, batch.due_us + 1)))
    assert decoded.rows[-1].payload == batch.payload[FIRINGS - 1]


def test_decode_and_read_frame(benchmark: Any) -> None:
    """Bytes to columns, then four fields of each firing as Python objects, as a worker reads."""
    benchmark.group = READ
    batch = batch_of(FIRINGS)
    data = encode_frame(batch, batch.due_us + 1)

    def read() -> int:
        decoded = frame.decode(data)
        ids, fences = decoded.firing_id.tolist(), decoded.fence.tolist()
        return sum(
            len(decoded.payload(index)) + ids[index] + fences[index] + len(decoded.key(index))
            for index in range(FIRINGS)
        )

    assert benchmark(read) == expected_sum(batch)


def test_decode_and_read_msgspec(benchmark: Any) -> None:
    """Bytes to structs, whose fields are Python objects already."""
    benchmark.group = READ
    batch = batch_of(FIRINGS)
    data = encode_rows(rows_of(batch, batch.due_us + 1))

    def read() -> int:
        return sum(
            len(row.payload) + row.firing_id + row.fence + len(row.key)
            for row in DECODER.decode(data).rows
        )

    assert benchmark(read) == expected_sum(batch)


def expected_sum(batch: ClaimBatch) -> int:
    """Return what reading each firing adds up to."""
    return len(batch.payload.joined) + int(batch.firing_id.sum()) + int(batch.fence.sum())
