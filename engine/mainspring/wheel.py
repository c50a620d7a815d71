"""Face of the timing wheel: `Wheel`, compiled or, with MAINSPRING_PURE=1, its twin in Python.

The wheel knows ticks only, no clock and no tick length.  It is a cache of *when*: it can be thrown
away at any moment and filled again.  Not thread safe, and the compiled one releases the GIL inside:
one thread at a time may use a wheel.

Timers due in fewer ticks than ring 0 has slots get the slot of their tick; a slot of a coarser
ring spans the whole finer ring and *cascades* into it when it begins.  The ring is chosen by delay,
not by the highest digit in which now and due differ, so that it has no edges at round ticks.

Source: Varghese & Lauck 1987, section 6.2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from mainspring import _wheel_contract as contract
from mainspring._wheel_contract import DEFAULT_GEOMETRY, TEXTBOOK_GEOMETRY, TICK_MAX

__all__ = [
    "DEFAULT_GEOMETRY",
    "IMPLEMENTATION",
    "TEXTBOOK_GEOMETRY",
    "TICK_MAX",
    "PureWheel",
    "Wheel",
]

_handles = count(1)
"""Of all wheels of the process, so that a handle never means something to another one."""


class PureWheel:
    """Timing wheel over plain integer ticks, in batches.

    Parameters
    ----------
    now_tick
        Where the wheel stands at first, 0 to 2**62.
    geometry
        Slots per ring, finest first: 1 to 8 rings of 2 to 2**20 slots, spanning less than 2**31
        ticks in all.  Timers beyond the last ring are held too, at O(log n) each.

    Raises
    ------
    ValueError
        A limit of `now_tick` or `geometry` is broken.
    """

    def __init__(self, now_tick: int, *, geometry: tuple[int, ...] = DEFAULT_GEOMETRY) -> None:
        self.geometry = contract.checked_geometry(geometry)
        self._now = contract.checked_start(now_tick)
        self._cursor = now_tick + 1  # first tick not fired
        self._timers: dict[int, tuple[int, int]] = {}  # handle -> (id, due tick); armed ones
        self._rings: list[_Ring] = []
        span = 1
        for slot_count in self.geometry:
            self._rings.append(_Ring(span))
            span *= slot_count
            self._rings[-1].reach = span
        self._heap: list[tuple[int, int]] = []  # (due tick, handle) of what no ring can hold

    @property
    def now_tick(self) -> int:
        """The tick of the last `advance`, or that of the start."""
        return self._now

    def __len__(self) -> int:
        """Armed timers."""
        return len(self._timers)

    def insert(self, ids: NDArray[np.int64], due_ticks: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Arm one timer per item; equal ids are different timers.

        Parameters
        ----------
        ids
            In.  int64, shape (n,), C-contiguous.  Any values.
        due_ticks
            In.  int64, shape (n,), C-contiguous, at most 2**62.  What is not after `now_tick`
            expires at the next `advance`, also one to the same tick.

        Returns
        -------
        NDArray[np.uint64]
            Shape (n,).  Handles for `cancel`, none of them 0.

        Raises
        ------
        TypeError, ValueError
            Not such columns, or of different lengths.  Nothing was armed.
        MemoryError
            Nothing was armed.

        Notes
        -----
        The compiled wheel takes O(n), at most 24 bytes a timer (large wheels; slack of part-filled
        chunks dominates below 10 timers a slot), and 24 bytes for each of up to 65,536 timers
        while it runs.  In order of `due_ticks` is fastest.
        """
        contract.checked_timers(ids, due_ticks)
        handles = np.fromiter(_handles, np.uint64, len(ids))
        for handle, timer_id, due in zip(
            handles.tolist(), ids.tolist(), due_ticks.tolist(), strict=True
        ):
            self._timers[handle] = (timer_id, due)
            self._file(handle, due)
        return handles

    def cancel(self, handles: NDArray[np.uint64]) -> int:
        """Disarm timers and return how many of them were armed.

        Parameters
        ----------
        handles
            In.  uint64, shape (n,), C-contiguous.  Stale ones (fired, cancelled), those of another
            wheel and repeated ones are ignored: a handle never cancels a timer that it was not
            returned for.

        Raises
        ------
        TypeError, ValueError
            Not such a column.  Nothing was cancelled.

        Notes
        -----
        O(1) a handle.  The compiled wheel keeps a cancelled timer's memory until its slot comes up
        or a third of all entries are such, then it sweeps them all in the call that made it so.
        """
        contract.checked_column("handles", handles, np.uint64)
        return sum(self._timers.pop(handle, None) is not None for handle in handles.tolist())

    def advance(
        self, now_tick: int, limit: int = TICK_MAX
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Move to `now_tick` and take out the timers due at or before it.

        Parameters
        ----------
        now_tick
            Not before the wheel's own.
        limit
            Take at most so many, at least 1.

        Returns
        -------
        ids, due_ticks
            int64, shape (k,) each, k <= limit, owned by the caller.  In order of due ticks; the
            order inside one tick is not defined.  Exactly `limit` means more may be due: call
            again with the same `now_tick`, before or after further inserts.

        Raises
        ------
        ValueError
            Time runs backwards, or `limit` is not positive.
        MemoryError
            Nothing was taken.  Where memory runs out later, what was taken is returned and the
            rest stays due: `next_due_tick` shows it.

        Notes
        -----
        Releases the GIL.  O(occupied slots passed + timers fired + timers cascaded), however far
        the jump; a timer cascades at most once per coarser ring.
        """
        contract.checked_target(self._now, now_tick)
        limit = contract.checked_count("limit", limit)
        self._now = now_tick
        fired = [timer for _, timer in zip(range(limit), self._expire(now_tick), strict=False)]
        ids = np.array([timer_id for timer_id, _ in fired], np.int64)
        return ids, np.array([due for _, due in fired], np.int64)

    def next_due_tick(self) -> int | None:
        """Return the earliest tick at which something may be due, None if nothing is armed.

        Never later than the earliest due tick.  Timers in ring 0, already due, or beyond all rings
        count with their own tick, timers in a coarser ring with the first tick of their slot:
        whoever sleeps until then wakes early, finds nothing, and asks again after `advance`.
        Not after `now_tick`: something is due, or the last `advance` was cut short by its limit.
        """
        self._prune_heap()
        ticks = [ring.first_tick(self._timers) for ring in self._rings]
        ticks.append(self._heap[0][0] if self._heap else None)
        return min((tick for tick in ticks if tick is not None), default=None)

    def cascade(self, budget: int) -> int:
        """Move timers of coarser rings that are needed soon down early; return how many moved.

        To be called in spare time, so that the tick at which a coarse slot begins, often a round
        and busy one, finds little to cascade.  Only timers in reach of the finer ring can move,
        and only in the second half of the time before their slot begins.  Nothing but the cost of
        later `advance` calls depends on it.

        Parameters
        ----------
        budget
            Look at no more than so many timers, at least 1.

        Returns
        -------
        int
            0 to `budget`.  0 does not mean that nothing is left: those looked at may have to stay.
        """
        left = contract.checked_count("budget", budget)
        moved = 0
        for ring in self._rings[1:]:
            if (tick := ring.first_tick(self._timers)) is None:
                continue
            if tick - self._cursor > ring.span // 2:
                continue
            handles = ring.slots[tick // ring.span]
            looked_at, handles[:] = handles[:left], handles[left:]
            left -= len(looked_at)
            for handle in looked_at:
                if handle not in self._timers:
                    continue
                if (due := self._timers[handle][1]) < self._cursor + ring.span:
                    self._file(handle, due)
                    moved += 1
                else:
                    handles.append(handle)
        return moved

    def nbytes(self) -> int:
        """Memory held, in bytes: that of the arrays, or of this twin's objects, roughly."""
        slots = sum(ring.nbytes() for ring in self._rings)
        return sys.getsizeof(self._timers) + sys.getsizeof(self._heap) + slots

    def _file(self, handle: int, due: int) -> None:
        delay = due - self._cursor
        for ring in self._rings:
            if 0 <= delay < ring.reach:
                ring.add(due, handle)
                return
        heappush(self._heap, (due, handle))

    def _expire(self, now_tick: int) -> Iterator[tuple[int, int]]:
        """Take the due timers out one by one, cascading coarse slots that begin on the way."""
        while True:
            self._prune_heap()
            tick = self.next_due_tick()
            if tick is None or tick > now_tick:
                self._cursor = max(self._cursor, now_tick + 1)
                return
            if self._heap and self._heap[0][0] == tick:
                yield self._timers.pop(heappop(self._heap)[1])
                continue
            self._cursor = tick
            for ring in self._rings[:0:-1]:
                if ring.first_tick(self._timers) == tick:
                    for handle in ring.take(tick):
                        if handle in self._timers:
                            self._file(handle, self._timers[handle][1])
            slot = self._rings[0].slots.get(tick, [])
            while slot:
                timer = self._timers.pop(slot.pop(), None)
                if timer is not None:
                    yield timer

    def _prune_heap(self) -> None:
        while self._heap and self._heap[0][1] not in self._timers:
            heappop(self._heap)


class _Ring:
    """One ring: the occupied slots, by number since tick 0, and a heap to find the next."""

    def __init__(self, span: int) -> None:
        self.span = span  # ticks of one slot
        self.reach = 0  # ticks of all slots
        self.slots: dict[int, list[int]] = {}  # slot number -> handles, also cancelled ones
        self._numbers: list[int] = []

    def add(self, due: int, handle: int) -> None:
        number = due // self.span
        if number not in self.slots:
            self.slots[number] = []
            heappush(self._numbers, number)
        self.slots[number].append(handle)

    def take(self, tick: int) -> list[int]:
        """Remove the slot that begins at `tick`, which is the first one; return its handles."""
        number = heappop(self._numbers)
        assert number == tick // self.span
        return self.slots.pop(number)

    def first_tick(self, armed: dict[int, tuple[int, int]]) -> int | None:
        """First tick of the next slot that holds something armed; drops those before it."""
        while self._numbers:
            handles = self.slots[self._numbers[0]]
            while handles and handles[-1] not in armed:
                handles.pop()
            if handles:
                return self._numbers[0] * self.span
            self.take(self._numbers[0] * self.span)
        return None

    def nbytes(self) -> int:
        return sum(sys.getsizeof(handles) for handles in self.slots.values())


IMPLEMENTATION: Literal["release", "debug", "pure"]

if TYPE_CHECKING:
    from mainspring._wheel import Wheel
elif os.environ.get("MAINSPRING_PURE") == "1":
    Wheel = PureWheel
    IMPLEMENTATION = "pure"
else:
    try:
        from mainspring._wheel import BUILD, Wheel
    except ImportError as error:
        raise ImportError(
            "mainspring._wheel is not compiled: run `make ext` in the source tree, "
            "or set MAINSPRING_PURE=1 to use the slow twin"
        ) from error
    IMPLEMENTATION = BUILD
