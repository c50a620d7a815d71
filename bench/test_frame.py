"""What a frame costs on both sides, beside one msgspec struct per firing."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from bench.rows import batch_of
from mainspring import frame
from mainspring.claim import ClaimRow

FIRINGS = 256


def encode_all(batch: Any, next_us: Any) -> bytes:
    """Encode one frame."""
    return frame.encode(
        leader=1, frame_no=1, shard=0, term=1, queue="default", task="report", batch=batch,
        indices=np.arange(FIRINGS, dtype=np.int64), next_us=next_us,
    )  # fmt: skip


def test_frame(benchmark: Any) -> None:
    """A frame there and back."""
    batch = batch_of(FIRINGS)
    next_us = batch.due_us + 1

    decoded = benchmark(lambda: frame.decode(encode_all(batch, next_us)))
    assert len(decoded) == FIRINGS


def test_msgspec_per_firing(benchmark: Any) -> None:
    """The rival: a list of structs, which also has to be taken out of the batch."""
    batch = batch_of(FIRINGS)
    decoder = msgspec.msgpack.Decoder(list[ClaimRow])

    def there_and_back() -> int:
        rows = [batch.row(i) for i in range(FIRINGS)]
        return len(decoder.decode(msgspec.msgpack.encode(rows)))

    assert benchmark(there_and_back) == FIRINGS
