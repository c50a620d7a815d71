"""What insert and expiry of many timers cost, in one slot and spread over the horizon."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest

from bench.rows import ticks_of
from mainspring.wheel import Wheel

SPREADS = {"one slot": 1, "ten minutes": 12_000}


@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS.keys())
def test_wheel(benchmark: Any, size: int, spread: int) -> None:
    """All timers in, all timers out, by two calls."""
    ids, ticks = np.arange(size, dtype=np.int64), ticks_of(size, spread=spread)

    def life() -> int:
        wheel = Wheel(0)
        wheel.insert(ids, ticks)
        return len(wheel.advance(20_000)[0])

    assert benchmark(life) == size


@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS.keys())
def test_heapq(benchmark: Any, size: int, spread: int) -> None:
    """The rival: push and pop one by one."""
    pairs = list(zip(ticks_of(size, spread=spread).tolist(), range(size), strict=True))

    def life() -> int:
        heap: list[tuple[int, int]] = []
        for pair in pairs:
            heapq.heappush(heap, pair)
        return sum(1 for _ in iter(lambda: heapq.heappop(heap) if heap else None, None))

    assert benchmark.pedantic(life, rounds=3) == size
