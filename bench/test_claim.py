"""What decoding a claim costs, payload and texts included."""

from __future__ import annotations

from typing import Any

from bench.rows import copy_bytes
from mainspring import _claim_pure
from mainspring.claim import KINDS, ClaimBatch


def test_compiled(benchmark: Any, size: int) -> None:
    """Bytes to a struct of arrays."""
    data = copy_bytes(size // 10)

    assert len(benchmark(ClaimBatch.decode, data)) == size // 10


def test_twin_in_python(benchmark: Any, size: int) -> None:
    """The rival: the same, row by row in Python."""
    data = copy_bytes(size // 100)

    columns = benchmark.pedantic(lambda: _claim_pure.decode_copy(data, KINDS), rounds=3)
    assert len(columns[0]) == size // 100
