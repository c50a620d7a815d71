"""The wheel at its limits: ring boundaries, long jumps, a million timers, misuse."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from mainspring.wheel import (
    DEFAULT_GEOMETRY,
    IMPLEMENTATION,
    TEXTBOOK_GEOMETRY,
    TICK_MAX,
    PureWheel,
    Wheel,
)

AnyWheel = type[Wheel] | type[PureWheel]

both = pytest.mark.parametrize("kind", [Wheel, PureWheel], ids=["wheel", "pure"])
geometries = pytest.mark.parametrize("geometry", [DEFAULT_GEOMETRY, TEXTBOOK_GEOMETRY, (2, 2)])

compiled_only = pytest.mark.skipif(IMPLEMENTATION == "pure", reason="the twin keeps no arena")

DAY = 86_400 * 20  # ticks of 50 ms


def column(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def boundary_delays(geometry: tuple[int, ...]) -> list[int]:
    spans = np.cumprod(geometry).tolist()
    return sorted({1, *(span + offset for span in spans for offset in (-1, 0, 1, 2))})


@both
@geometries
@pytest.mark.parametrize("offset", [-2, -1, 0, 1])
def test_timer_at_a_ring_boundary_fires_at_its_tick(
    kind: AnyWheel, geometry: tuple[int, ...], offset: int
) -> None:
    """One tick less or more than a ring spans, from any place in the ring, is not early or late."""
    start = int(np.prod(geometry)) * 3 + geometry[0] + offset
    for delay in boundary_delays(geometry):
        wheel = kind(start, geometry=geometry)
        wheel.insert(column(7), column(start + delay))
        before = wheel.advance(start + delay - 1)[0].tolist()
        at = wheel.advance(start + delay)
        assert ([], [7], [start + delay]) == (before, at[0].tolist(), at[1].tolist())


@both
@geometries
def test_boundary_timers_fire_in_order_in_one_jump(
    kind: AnyWheel, geometry: tuple[int, ...]
) -> None:
    """Timers of all rings come out by due tick, however they were cascaded."""
    start = 10**9
    due = np.array([start + delay for delay in boundary_delays(geometry)], np.int64)
    wheel = kind(start, geometry=geometry)
    wheel.insert(np.arange(len(due))[::-1].copy(), due[::-1].copy())
    ids, due_ticks = wheel.advance(start + 2 * int(due[-1] - start))
    assert (due.tolist(), list(range(len(due)))) == (due_ticks.tolist(), ids.tolist())


@both
@pytest.mark.parametrize("jump", [3600 * 20, DAY, 400 * DAY, 2**61])
def test_jump_costs_what_fires_not_what_passes(kind: AnyWheel, jump: int) -> None:
    """Jumping hours, days or 2**61 ticks over a few timers takes no walk over the ticks."""
    wheel = kind(0)
    due = column(1, 5, jump // 2, jump, jump + 1)
    wheel.insert(column(1, 2, 3, 4, 5), due)
    begin = time.thread_time()
    ids, due_ticks = wheel.advance(jump)
    assert time.thread_time() - begin < 0.5  # a walk over the ticks would take minutes
    assert ([1, 2, 3, 4], due[:4].tolist()) == (ids.tolist(), due_ticks.tolist())
    assert jump + 1 == wheel.next_due_tick()


@both
def test_overdue_timers_fire_at_the_next_advance_to_the_same_tick(kind: AnyWheel) -> None:
    """Due before or at now, back to the least int64, in order and before the others."""
    wheel = kind(1000)
    wheel.insert(column(1, 2, 3, 4, 5), column(1001, 1000, -(2**63), 999, -5))
    assert wheel.next_due_tick() == -(2**63)
    ids, due_ticks = wheel.advance(1000)
    assert ids.tolist() == [3, 5, 4, 2]
    assert due_ticks.tolist() == [-(2**63), -5, 999, 1000]
    assert wheel.next_due_tick() == 1001


@both
def test_last_tick_is_reachable(kind: AnyWheel) -> None:
    """A timer due at 2**62 fires there, and a wheel can start and stay there."""
    wheel = kind(TICK_MAX - 1)
    wheel.insert(column(-1), column(TICK_MAX))
    assert wheel.advance(TICK_MAX)[0].tolist() == [-1]
    wheel.insert(column(-2), column(TICK_MAX))
    assert wheel.advance(TICK_MAX)[0].tolist() == [-2]


@pytest.mark.slow
def test_million_timers_in_one_slot_fire_in_pieces() -> None:
    """A limit cuts the slot anywhere, and each timer comes out once."""
    count = 1_000_000
    wheel = Wheel(0)
    ids = np.arange(count, dtype=np.int64)
    wheel.insert(ids, np.full(count, 77, np.int64))
    pieces = []
    for limit in (1, 4095, 1_000, 500_001, 2**62):
        piece, due_ticks = wheel.advance(100, limit)
        assert (due_ticks == 77).all()
        pieces.append(piece)
    assert [1, 4095, 1_000, 500_001, count - 505_097] == [len(piece) for piece in pieces]
    assert (np.sort(np.concatenate(pieces)) == ids).all()
    assert len(wheel) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("geometry", "batch_size"), [(DEFAULT_GEOMETRY, 1_000_000), (TEXTBOOK_GEOMETRY, 3_333)]
)
def test_million_spread_timers_come_out_sorted_without_the_cancelled(
    geometry: tuple[int, ...], batch_size: int
) -> None:
    """Over all rings and beyond, in batches large and small, a third of them cancelled."""
    count = 1_000_000
    rng = np.random.default_rng(20260608)
    start = 3 * 10**9
    horizon = int(np.prod(geometry))
    due = start + np.where(
        rng.random(count) < 0.1,
        rng.integers(-100, horizon * 11 // 10, count),
        rng.integers(0, geometry[0] * 2, count),
    )
    ids = rng.permutation(count)
    wheel = Wheel(start, geometry=geometry)
    handles = np.concatenate(
        [
            wheel.insert(ids[at : at + batch_size], due[at : at + batch_size])
            for at in range(0, count, batch_size)
        ]
    )
    assert (np.diff(np.sort(handles)) != 0).all()
    cancelled = rng.random(count) < 1 / 3
    assert int(cancelled.sum()) == wheel.cancel(handles[cancelled])
    got_ids, got_due = wheel.advance(start + 2 * horizon)
    order = np.argsort(due[~cancelled], kind="stable")
    assert (got_due == due[~cancelled][order]).all()
    assert (np.sort(got_ids) == np.sort(ids[~cancelled])).all()
    back = np.empty(count, np.int64)
    back[ids] = due
    assert (back[got_ids] == got_due).all()
    assert wheel.cancel(handles) == 0
    assert (len(wheel), wheel.next_due_tick()) == (0, None)


@both
def test_stale_handle_never_cancels_its_successor(kind: AnyWheel) -> None:
    """However often numbers are used again, fired and cancelled handles stay stale."""
    wheel = kind(0)
    stale = np.empty(0, np.uint64)
    for round_number in range(1, 30):
        handles = wheel.insert(np.arange(700, dtype=np.int64), np.full(700, round_number, np.int64))
        assert wheel.cancel(stale) == 0
        assert len(wheel) == 700
        assert not np.isin(handles, stale).any()
        assert wheel.cancel(handles[::2].copy()) == 350
        assert wheel.cancel(handles[::2].copy()) == 0
        assert len(wheel.advance(round_number)[0]) == 350
        stale = np.concatenate([stale, handles])


@both
def test_handle_of_another_wheel_is_foreign(kind: AnyWheel) -> None:
    """A refill swaps a fresh wheel in; handles of the old one must not hit its timers."""
    for _ in range(50):
        old, new = kind(0), kind(0)
        due = np.full(600, 5, np.int64)
        handles = old.insert(due, due)
        new.insert(due, due)
        assert (new.cancel(handles), len(new)) == (0, 600)


@compiled_only
def test_memory_of_cancelled_timers_is_used_again() -> None:
    """A far timer that is armed anew again and again does not make the wheel grow."""
    wheel = Wheel(0)
    keep = wheel.insert(np.arange(20_000, dtype=np.int64), np.full(20_000, DAY, np.int64))
    far = np.arange(DAY, DAY + 20_000, dtype=np.int64)
    sizes = []
    for _ in range(40):
        handles = wheel.insert(far, far)
        sizes.append(wheel.nbytes())
        assert len(far) == wheel.cancel(handles)
    assert len(keep) == len(wheel)
    assert sizes[-1] < 2 * sizes[0]
    assert len(keep) == len(wheel.advance(2 * DAY)[0])


@compiled_only
def test_memory_goals() -> None:
    """167,000 timers over 10 minutes take less than 4 MB, large wheels 24 B a timer at most."""
    rng = np.random.default_rng(1)
    for count, bytes_max in ((167_000, 4_000_000), (1_000_000, 24_000_000)):
        wheel = Wheel(0)
        for _ in range(10):
            due = rng.integers(1, 12_000, count // 10)
            wheel.insert(due, due)
        assert bytes_max > wheel.nbytes()


@geometries
def test_early_cascade_leaves_nothing_for_the_tick_itself(geometry: tuple[int, ...]) -> None:
    """Called each tick, it has moved all that is due when a coarse slot begins, just before."""
    granule = geometry[0]
    begin = 1000 * granule
    wheel = Wheel(begin - granule - 1, geometry=geometry)
    due = np.full(10_000, begin, np.int64)
    wheel.insert(due, due)
    moved = 0
    for tick in range(begin - granule, begin):
        wheel.advance(tick)
        moved += wheel.cascade(max(1, 20_000 // granule))
        while tick == begin - 1 and (more := wheel.cascade(10_000)):
            moved += more
    assert len(due) == moved
    assert begin == wheel.next_due_tick()
    assert len(due) == len(wheel.advance(begin)[0])


@both
def test_early_cascade_moves_what_is_in_reach(kind: AnyWheel) -> None:
    """Half a slot ahead the timers in reach of ring 0 move, the others wait and fire on time."""
    wheel = kind(0, geometry=(64, 64))
    wheel.advance(70)  # so that 128..191 is one slot of ring 1, seen from 71
    due = np.arange(135, 192, dtype=np.int64)
    wheel.insert(due, due)
    assert wheel.next_due_tick() == 128
    assert wheel.cascade(1000) == 0
    wheel.advance(100)
    assert sum(wheel.cascade(7) for _ in range(20)) == 30
    wheel.advance(127)
    assert sum(wheel.cascade(7) for _ in range(20)) == 27
    assert wheel.next_due_tick() == 135
    for tick in range(128, 200):
        assert ([tick] if 135 <= tick < 192 else []) == wheel.advance(tick)[0].tolist()


@both
def test_coarse_timer_comes_before_a_later_one_of_ring_0(kind: AnyWheel) -> None:
    """A coarse slot that begins on the way of a jump cascades before ring 0 passes it."""
    wheel = kind(0, geometry=(64, 64))
    wheel.insert(column(1), column(100))  # ring 1, slot 64..127
    wheel.advance(50)
    wheel.insert(column(2), column(110))  # ring 0
    assert wheel.advance(200)[0].tolist() == [1, 2]


@both
def test_cancelling_what_an_early_cascade_has_looked_at(kind: AnyWheel) -> None:
    """Timers that had to stay can be cancelled, all of them; the others fire on time."""
    wheel = kind(0, geometry=(64, 64))
    wheel.advance(70)
    wheel.insert(np.arange(100), np.full(100, 140))
    far = wheel.insert(np.arange(10_000), np.full(10_000, 191))
    wheel.advance(100)
    assert wheel.cascade(10_000) <= 100
    assert wheel.cancel(far) == 10_000
    wheel.cascade(1_000)
    assert len(wheel.advance(129)[0]) == 0
    assert wheel.advance(400)[1].tolist() == [140] * 100


@both
def test_time_does_not_run_backwards(kind: AnyWheel) -> None:
    """An earlier tick is refused and changes nothing; the same tick is fine."""
    wheel = kind(50)
    wheel.insert(column(1), column(49))
    with pytest.raises(ValueError, match="time runs backwards: tick 49 is before 50"):
        wheel.advance(49)
    assert (wheel.now_tick, len(wheel)) == (50, 1)
    assert wheel.advance(50)[0].tolist() == [1]


@both
@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ((), "0 levels, not 1 to 8"),
        ((2,) * 9, "9 levels, not 1 to 8"),
        ((60, 1), r"level 1 of geometry \(60, 1\) has 1 slots, not 2 to 1048576"),
        ((2**20 + 1,), "1048577 slots"),
        ((-4, 8), "-4 slots"),
        ((2**16, 2**15), "spans 2147483648 ticks, not below 2147483648"),
    ],
)
def test_bad_geometry_is_refused(kind: AnyWheel, geometry: tuple[int, ...], message: str) -> None:
    """The message names the limit."""
    with pytest.raises(ValueError, match=message):
        kind(0, geometry=geometry)


@both
def test_bad_arguments_are_refused_and_change_nothing(kind: AnyWheel) -> None:
    """Ticks, limits and columns out of bounds raise, and the wheel stays as it was."""
    with pytest.raises(ValueError, match=r"tick -1 is not in 0\.\."):
        kind(-1)
    wheel = kind(5)
    good = column(1, 2, 3)
    bad_calls = [
        (TypeError, "ids must be a NumPy array, got list", lambda: wheel.insert([1], good)),  # type: ignore[arg-type]
        (ValueError, "contiguous int64", lambda: wheel.insert(good, good.astype(np.int32))),
        (ValueError, "contiguous int64", lambda: wheel.insert(good.astype(">i8"), good)),
        (ValueError, "contiguous int64", lambda: wheel.insert(column(*range(6))[::2], good)),
        (ValueError, "one dimension", lambda: wheel.insert(good.reshape(1, 3), good)),
        (ValueError, "3 ids but 2 due ticks", lambda: wheel.insert(good, good[:2])),
        (ValueError, "is beyond", lambda: wheel.insert(good, column(1, 2**62 + 1, 3))),
        (ValueError, "contiguous uint64", lambda: wheel.cancel(good)),
        (ValueError, "limit 0 is not positive", lambda: wheel.advance(6, 0)),
        (ValueError, "is not in 0..", lambda: wheel.advance(2**62 + 1)),
        (ValueError, "budget 0 is not positive", lambda: wheel.cascade(0)),
    ]
    for error, message, call in bad_calls:
        with pytest.raises(error, match=message):
            call()  # type: ignore[no-untyped-call]
    assert (wheel.now_tick, len(wheel), wheel.next_due_tick()) == (5, 0, None)


@both
def test_read_only_and_empty_columns_are_taken(kind: AnyWheel) -> None:
    """Columns are only read; a batch of nothing gives nothing."""
    wheel = kind(0)
    ids = column(1, 2)
    ids.flags.writeable = False
    handles = wheel.insert(ids, ids)
    handles.flags.writeable = False
    empty = wheel.insert(column(), column())
    assert (empty.shape, wheel.cancel(empty)) == ((0,), 0)
    assert wheel.cancel(handles) == 2


def test_results_belong_to_the_caller() -> None:
    """Arrays returned earlier do not change with later calls."""
    wheel = Wheel(0)
    results = []
    for tick in range(1, 20):
        wheel.insert(np.full(3_000, tick, np.int64), np.full(3_000, tick, np.int64))
        results.append((tick, *wheel.advance(tick)))
    for tick, ids, due_ticks in results:
        assert (len(ids), bool((ids == tick).all())) == (3_000, True)
        assert bool((due_ticks == tick).all())
    for (_, first, _), (_, second, _) in pairwise(results):
        assert not np.shares_memory(first, second)
