"""What timers cost, in one slot and spread over ten minutes, beside a heap.

All benchmarks of a group do the same to the same timers.  Those of the wheel take and give arrays;
the heap gets its tuples ready-made, which favours it.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest

from bench.rows import ticks_of
from mainspring.wheel import Wheel

SPREADS = {"one slot": 1, "ten minutes": 12_000}
BATCH = 256
END = 20_000
ROUNDS = 5

spread_over = pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS.keys())

Pair = tuple[int, int]


def group(benchmark: Any, what: str, spread: int, size: int) -> None:
    """Name the table that a figure stands in."""
    place = next(name for name, value in SPREADS.items() if value == spread)
    benchmark.group = f"wheel: {what}, {place}, {size:,} timers"


def columns_of(size: int, spread: int) -> tuple[Any, Any]:
    """Return ids and due ticks."""
    return np.arange(size, dtype=np.int64), ticks_of(size, spread=spread)


def pairs_of(size: int, spread: int) -> list[Pair]:
    """Return (due tick, id) of the same timers."""
    return list(zip(ticks_of(size, spread=spread).tolist(), range(size), strict=True))


def full_wheel(size: int, spread: int) -> tuple[Wheel, Any]:
    """Return a wheel with all timers, and their handles."""
    wheel = Wheel(0)
    return wheel, wheel.insert(*columns_of(size, spread))


@spread_over
def test_insert_wheel(benchmark: Any, size: int, spread: int) -> None:
    """One call for all, as a refill does it."""
    group(benchmark, "insert all at once", spread, size)
    columns = columns_of(size, spread)
    wheel = benchmark.pedantic(filled, columns, rounds=ROUNDS, warmup_rounds=1)
    assert len(wheel) == size


def filled(ids: Any, ticks: Any) -> Wheel:
    """Return a new wheel with these timers."""
    wheel = Wheel(0)
    wheel.insert(ids, ticks)
    return wheel


@spread_over
def test_insert_heapify(benchmark: Any, size: int, spread: int) -> None:
    """The heap's own way for many at once."""
    group(benchmark, "insert all at once", spread, size)
    pairs = pairs_of(size, spread)

    def heapify() -> list[Pair]:
        heap = pairs.copy()
        heapq.heapify(heap)
        return heap

    assert len(benchmark.pedantic(heapify, rounds=ROUNDS, warmup_rounds=1)) == size


@spread_over
def test_insert_in_batches_wheel(benchmark: Any, size: int, spread: int) -> None:
    """A call for each few hundred, as hints and retries come."""
    group(benchmark, f"insert in batches of {BATCH}", spread, size)
    ids, ticks = columns_of(size, spread)
    batches = [(ids[i : i + BATCH], ticks[i : i + BATCH]) for i in range(0, size, BATCH)]

    def insert() -> Wheel:
        wheel = Wheel(0)
        for batch in batches:
            wheel.insert(*batch)
        return wheel

    assert len(benchmark.pedantic(insert, rounds=ROUNDS, warmup_rounds=1)) == size


@spread_over
def test_insert_in_batches_heappush(benchmark: Any, size: int, spread: int) -> None:
    """The heap takes one at a time, whatever came together."""
    group(benchmark, f"insert in batches of {BATCH}", spread, size)
    pairs = pairs_of(size, spread)

    def push() -> list[Pair]:
        heap: list[Pair] = []
        for pair in pairs:
            heapq.heappush(heap, pair)
        return heap

    assert len(benchmark.pedantic(push, rounds=ROUNDS, warmup_rounds=1)) == size


@spread_over
def test_expire_wheel(benchmark: Any, size: int, spread: int) -> None:
    """All out, by one call."""
    group(benchmark, "expire", spread, size)

    def setup() -> tuple[tuple[Wheel], dict[str, Any]]:
        return (full_wheel(size, spread)[0],), {}

    ids, _ = benchmark.pedantic(lambda wheel: wheel.advance(END)[:2], setup=setup, rounds=ROUNDS)
    assert len(ids) == size


@spread_over
def test_expire_heappop(benchmark: Any, size: int, spread: int) -> None:
    """All out, one by one, into a list."""
    group(benchmark, "expire", spread, size)

    def setup() -> tuple[tuple[list[Pair]], dict[str, Any]]:
        heap = pairs_of(size, spread)
        heapq.heapify(heap)
        return (heap,), {}

    def expire(heap: list[Pair]) -> list[int]:
        due = []
        while heap and heap[0][0] <= END:
            due.append(heapq.heappop(heap)[1])
        return due

    assert len(benchmark.pedantic(expire, setup=setup, rounds=ROUNDS)) == size


@spread_over
def test_cancel_wheel(benchmark: Any, size: int, spread: int) -> None:
    """Every second timer cancelled by its handle, then the others out."""
    group(benchmark, "cancel half, expire the rest", spread, size)

    def setup() -> tuple[tuple[Wheel, Any], dict[str, Any]]:
        wheel, handles = full_wheel(size, spread)
        return (wheel, np.ascontiguousarray(handles[::2])), {}

    def life(wheel: Wheel, handles: Any) -> int:
        assert wheel.cancel(handles) == len(handles)
        return len(wheel.advance(END)[0])

    assert benchmark.pedantic(life, setup=setup, rounds=ROUNDS) == size - (size + 1) // 2


@spread_over
def test_cancel_heap_with_a_set(benchmark: Any, size: int, spread: int) -> None:
    """A heap cannot take anything out of its middle: it is remembered and skipped when popped."""
    group(benchmark, "cancel half, expire the rest", spread, size)
    cancelled = list(range(0, size, 2))

    def setup() -> tuple[tuple[list[Pair]], dict[str, Any]]:
        heap = pairs_of(size, spread)
        heapq.heapify(heap)
        return (heap,), {}

    def life(heap: list[Pair]) -> int:
        gone = set(cancelled)
        due = []
        while heap and heap[0][0] <= END:
            name = heapq.heappop(heap)[1]
            if name not in gone:
                due.append(name)
        return len(due)

    assert benchmark.pedantic(life, setup=setup, rounds=ROUNDS) == size - (size + 1) // 2
