"""What a wheel accepts: limits and argument checks, one set for the compiled wheel and its twin."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np

DEFAULT_GEOMETRY = (12288, 64, 64)
"""50 ms ticks: ring 0 holds 10.24 minutes, ring 1 10.9 hours, ring 2 29 days."""

TEXTBOOK_GEOMETRY = (60, 60, 24)
"""One-second ticks: a minute, an hour, a day."""

TICK_MAX = 2**62
LEVELS_MAX = 8
SLOTS_MAX = 2**20
HORIZON_MAX = 2**31
"""A ring entry keeps 32 bits of its due tick."""


def checked_geometry(geometry: Iterable[int]) -> tuple[int, ...]:
    """Return `geometry` as a tuple, or raise ValueError naming the limit it breaks."""
    slots = tuple(index(count) for count in geometry)
    if not 1 <= len(slots) <= LEVELS_MAX:
        raise ValueError(f"geometry {slots} has {len(slots)} levels, not 1 to {LEVELS_MAX}")
    horizon = 1
    for level, count in enumerate(slots):
        if not 2 <= count <= SLOTS_MAX:
            raise ValueError(
                f"level {level} of geometry {slots} has {count} slots, not 2 to {SLOTS_MAX}"
            )
        horizon *= count
    if horizon >= HORIZON_MAX:
        raise ValueError(f"geometry {slots} spans {horizon} ticks, not below {HORIZON_MAX}")
    return slots


def checked_column(name: str, value: Any, dtype: type[np.generic]) -> Any:
    """Return `value` if it is a one-dimensional C-contiguous array of exactly `dtype`.

    Raises
    ------
    TypeError
        Not a NumPy array: a list would be copied item by item, which is what batches avoid.
    ValueError
        Another dtype, number of dimensions or memory order.
    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, got {type(value).__name__}")
    if value.dtype != dtype or value.ndim != 1 or not value.flags.c_contiguous:
        raise ValueError(
            f"{name} must be a contiguous {np.dtype(dtype)} array of one dimension, "
            f"got {value.dtype} of shape {value.shape} and strides {value.strides}"
        )
    return value


def checked_timers(ids: Any, due_ticks: Any) -> None:
    """Raise TypeError or ValueError unless these are columns that `insert` can take."""
    checked_column("ids", ids, np.int64)
    checked_column("due_ticks", due_ticks, np.int64)
    if len(ids) != len(due_ticks):
        raise ValueError(f"{len(ids)} ids but {len(due_ticks)} due ticks")
    if len(ids) and due_ticks.max() > TICK_MAX:
        raise ValueError(f"due tick {due_ticks.max()} is beyond {TICK_MAX}")


def checked_start(now_tick: int) -> int:
    """Return `now_tick` if a wheel can stand there, 0 to TICK_MAX."""
    if not 0 <= now_tick <= TICK_MAX:
        raise ValueError(f"tick {now_tick} is not in 0..{TICK_MAX}")
    return index(now_tick)


def checked_target(now_tick: int, target: int) -> int:
    """Return `target` if a wheel at `now_tick` can move there."""
    if target < now_tick:
        raise ValueError(f"time runs backwards: tick {target} is before {now_tick}")
    return checked_start(target)


def checked_count(name: str, count: int) -> int:
    """Return `count`, capped at TICK_MAX, if it is positive."""
    if count < 1:
        raise ValueError(f"{name} {count} is not positive")
    return min(index(count), TICK_MAX)
