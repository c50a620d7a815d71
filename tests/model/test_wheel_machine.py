"""Any sequence of wheel operations does what a dict of timers would do."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from mainspring.wheel import (
    DEFAULT_GEOMETRY,
    TEXTBOOK_GEOMETRY,
    TICK_MAX,
    PureWheel,
    Wheel,
)

GEOMETRIES = [
    (2,),
    (2, 2),
    (2, 3, 2),
    (3, 5, 7),
    (64, 64),
    (100, 2, 2, 2, 2, 2, 2, 2),
    TEXTBOOK_GEOMETRY,
    DEFAULT_GEOMETRY,
]

INT64 = st.integers(-(2**63), 2**63 - 1)


def horizons(geometry: tuple[int, ...]) -> list[int]:
    """Ticks that the first, the first two, ... rings span."""
    spans = [1]
    for slot_count in geometry:
        spans.append(spans[-1] * slot_count)
    return spans


def ticks_near_boundaries(geometry: tuple[int, ...]) -> st.SearchStrategy[int]:
    """Ticks a little before or after multiples of a ring's span: where slots of it begin."""
    return st.builds(
        lambda span, factor, offset: max(0, span * factor + offset),
        st.sampled_from(horizons(geometry)),
        st.sampled_from([0, 1, 2, 63, 64, 1000, 2**20]),
        st.integers(-3, 3),
    )


def delays(geometry: tuple[int, ...]) -> st.SearchStrategy[int]:
    """From due already to beyond the last ring, often next to the edge of a ring."""
    near_edges = st.builds(
        lambda span, offset: span + offset,
        st.sampled_from(horizons(geometry)),
        st.integers(-3, 3),
    )
    return st.one_of(
        st.integers(-3, 12),
        near_edges,
        st.integers(0, 3 * horizons(geometry)[-1]),
        st.integers(-(2**62), 2**60),
    )


class WheelMachine(RuleBasedStateMachine):
    """Both wheels side by side with a dict from serial number to (id, due tick)."""

    serials = Bundle("serials")

    @initialize(data=st.data(), geometry=st.sampled_from(GEOMETRIES))
    def start(self, data: st.DataObject, geometry: tuple[int, ...]) -> None:
        self.geometry = geometry
        self.now = data.draw(ticks_near_boundaries(geometry))
        self.wheels = [
            Wheel(self.now, geometry=geometry),
            PureWheel(self.now, geometry=geometry),
        ]
        self.armed: dict[int, tuple[int, int]] = {}
        self.is_cut_short = False  # the last advance stopped at its limit
        self.handles: list[list[int]] = [[], []]  # by wheel, by serial

    @rule(target=serials, data=st.data(), size=st.sampled_from([0, 1, 2, 3, 5, 9, 40]))
    def insert(self, data: st.DataObject, size: int) -> object:
        due_list = [
            min(self.now + delay, TICK_MAX)
            for delay in data.draw(st.lists(delays(self.geometry), min_size=size, max_size=size))
        ]
        return self.insert_timers(
            data.draw(st.lists(INT64, min_size=size, max_size=size)), due_list
        )

    @rule(target=serials, data=st.data(), copies=st.integers(5, 300), first_id=INT64)
    def insert_many_at_one_tick(self, data: st.DataObject, copies: int, first_id: int) -> object:
        due = min(self.now + data.draw(delays(self.geometry)), TICK_MAX)
        return self.insert_timers([first_id] * copies, [due] * copies)

    def insert_timers(self, ids: list[int], due_list: list[int]) -> object:
        begin = len(self.handles[0])
        for wheel, handles in zip(self.wheels, self.handles, strict=True):
            got = wheel.insert(np.array(ids, np.int64), np.array(due_list, np.int64))
            assert (np.uint64, (len(ids),)) == (got.dtype, got.shape)
            handles.extend(got.tolist())
        for serial, timer in enumerate(zip(ids, due_list, strict=True), begin):
            self.armed[serial] = timer
        return multiple(*range(begin, begin + len(ids)))

    @rule(chosen=st.lists(serials, max_size=20), repeats=st.integers(1, 2))
    def cancel(self, chosen: list[int], repeats: int) -> None:
        expected = len(self.armed.keys() & set(chosen))
        for wheel, handles in zip(self.wheels, self.handles, strict=True):
            column = np.array([handles[serial] for serial in chosen] * repeats, np.uint64)
            assert expected == wheel.cancel(column)
        for serial in chosen:
            self.armed.pop(serial, None)

    @rule(share=st.floats(0.5, 1.0), data=st.data())
    def cancel_most(self, share: float, data: st.DataObject) -> None:
        chosen = list(self.armed)[: int(len(self.armed) * share)]
        self.cancel(data.draw(st.permutations(chosen)), 1)

    @rule(handles=st.lists(st.integers(0, 2**64 - 1), max_size=5), flip=st.integers(0, 63))
    def cancel_foreign(self, handles: list[int], flip: int) -> None:
        """Handles that were never given out, some of them one bit away from an armed one."""
        for wheel, known in zip(self.wheels, self.handles, strict=True):
            near = [known[serial] ^ 1 << flip for serial in list(self.armed)[:3]]
            foreign = [handle for handle in near + handles if handle not in known]
            assert wheel.cancel(np.array(foreign, np.uint64)) == 0

    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        step = data.draw(
            st.one_of(
                st.integers(0, 3),
                st.sampled_from(horizons(self.geometry)),
                st.integers(0, 4 * horizons(self.geometry)[-1]),
                st.just(2**61),
            )
        )
        self.move_to(min(self.now + step, TICK_MAX))

    @rule(offset=st.integers(-1, 1), data=st.data())
    def advance_close_to_a_due_tick(self, offset: int, data: st.DataObject) -> None:
        if self.armed:
            tick = data.draw(st.sampled_from(sorted({due for _, due in self.armed.values()})))
            self.move_to(min(max(tick + offset, self.now), TICK_MAX))

    def move_to(self, tick: int) -> None:
        self.now = tick
        self.is_cut_short = False
        due = {serial: timer for serial, timer in self.armed.items() if timer[1] <= tick}
        for wheel in self.wheels:
            ids, due_ticks = wheel.advance(tick)
            assert (np.int64, np.int64) == (ids.dtype, due_ticks.dtype)
            fired = list(zip(ids.tolist(), due_ticks.tolist(), strict=True))
            assert Counter(due.values()) == Counter(fired)
            assert sorted(due_ticks.tolist()) == due_ticks.tolist()
        for serial in due:
            del self.armed[serial]

    @rule(step=st.integers(0, 300), limits=st.lists(st.integers(1, 60), min_size=1, max_size=5))
    def advance_in_pieces(self, step: int, limits: list[int]) -> None:
        """Each call gives the earliest that are left; the last one without limit the rest."""
        self.is_cut_short = False
        self.now = min(self.now + step, TICK_MAX)
        due = Counter(timer for timer in self.armed.values() if timer[1] <= self.now)
        for wheel in self.wheels:
            left = due.copy()
            for limit in [*limits, TICK_MAX]:
                ids, due_ticks = wheel.advance(self.now, limit)
                assert min(limit, left.total()) == len(ids)
                earliest = sorted(due for _, due in left.elements())[: len(ids)]
                assert earliest == due_ticks.tolist()
                fired = Counter(zip(ids.tolist(), due_ticks.tolist(), strict=True))
                assert fired <= left
                left -= fired
        self.armed = {s: timer for s, timer in self.armed.items() if timer[1] > self.now}

    @rule(step=st.integers(0, 300), limit=st.integers(1, 20))
    def leave_due_timers_behind(self, step: int, limit: int) -> None:
        """What a limited call leaves stays due while other operations come in between."""
        self.is_cut_short = True
        self.now = min(self.now + step, TICK_MAX)
        by_handle = []
        for wheel, handles in zip(self.wheels, self.handles, strict=True):
            ids, due_ticks = wheel.advance(self.now, limit)
            # Which of equal ticks came out is free: ask the handles, and cancel what differs.
            fired = Counter(zip(ids.tolist(), due_ticks.tolist(), strict=True))
            candidates = [s for s, timer in self.armed.items() if timer in fired]
            by_handle.append(candidates)
            count = wheel.cancel(np.array([handles[s] for s in candidates], np.uint64))
            assert len(candidates) - fired.total() == count
            last = max(due_ticks.tolist(), default=None)
            due = [timer[1] for timer in self.armed.values() if timer[1] <= self.now]
            assert min(limit, len(due)) == len(ids)
            assert last == max(sorted(due)[:limit], default=None)
        for wheel, handles in zip(self.wheels, self.handles, strict=True):
            both = {s for candidates in by_handle for s in candidates}
            wheel.cancel(np.array([handles[s] for s in both], np.uint64))
        for candidates in by_handle:
            for serial in candidates:
                self.armed.pop(serial, None)

    @rule(budget=st.integers(1, 50), calls=st.integers(1, 4))
    def cascade(self, budget: int, calls: int) -> None:
        for wheel in self.wheels:
            for _ in range(calls):
                assert 0 <= wheel.cascade(budget) <= budget

    @rule()
    def sleep_until_next(self) -> None:
        """Sleeping from one next_due_tick to the next, as often as it takes, is never late."""
        earliest = min((due for _, due in self.armed.values()), default=None)
        if earliest is None or earliest <= self.now:
            return
        due = Counter(timer for timer in self.armed.values() if timer[1] == earliest)
        for wheel in self.wheels:
            ids, due_ticks = np.empty(0, np.int64), np.empty(0, np.int64)
            wakes = 0
            while not len(ids):
                tick = wheel.next_due_tick()
                assert tick is not None
                # After an advance that its limit cut short the tick may be in the past.
                ids, due_ticks = wheel.advance(max(tick, wheel.now_tick))
                wakes += 1
            assert due == Counter(zip(ids.tolist(), due_ticks.tolist(), strict=True))
            assert earliest == wheel.now_tick
            assert wakes <= len(self.geometry) + self.is_cut_short
        self.now = earliest
        self.is_cut_short = False
        self.armed = {s: timer for s, timer in self.armed.items() if timer[1] != earliest}

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "armed"):
            return
        earliest = min((due for _, due in self.armed.values()), default=None)
        for wheel in self.wheels:
            assert len(self.armed) == len(wheel)
            assert self.now == wheel.now_tick
            assert self.geometry == wheel.geometry
            tick = wheel.next_due_tick()
            if earliest is None:
                assert tick is None
            else:
                assert tick is not None
                assert tick <= earliest
                if not self.is_cut_short:
                    assert (tick <= self.now) == (earliest <= self.now)


TestWheelMachine = WheelMachine.TestCase
TestWheelMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
