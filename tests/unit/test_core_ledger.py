"""What a leader has leased, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.ledger import Ledger
from unit.core_stage import EPOCH_US, MS, TICK_US, S, prepared


def test_a_frame_is_released_once_at_the_first_tick_at_or_after_its_time() -> None:
    ledger = Ledger(TICK_US, EPOCH_US)
    ledger.add([prepared(1, {1: 1}, due_us=EPOCH_US + 10 * MS), prepared(2, {2: 1})])

    assert [2] == [each.frame_no for each in ledger.release(EPOCH_US)]
    assert EPOCH_US + 50 * MS == ledger.next_release_us()
    assert [] == ledger.release(EPOCH_US + 50 * MS - 1)
    assert [1] == [each.frame_no for each in ledger.release(EPOCH_US + 50 * MS)]
    assert ledger.next_release_us() is None
    assert 2 == len(ledger)


def test_a_frame_number_comes_once() -> None:
    ledger = Ledger(TICK_US, EPOCH_US)
    ledger.add([prepared(1, {1: 1})])
    with pytest.raises(AssertionError, match="I8"):
        ledger.add([prepared(1, {2: 1})])


def test_a_lease_is_known_by_firing_and_fence() -> None:
    """An older lease of a firing does not hide that a newer one is in no frame."""
    ledger = Ledger(TICK_US, EPOCH_US)
    ledger.add([prepared(1, {1: 3, 2: 3})])

    assert [(1, 4), (3, 3)] == ledger.unknown(np.array([1, 1, 2, 3]), np.array([3, 4, 3, 3]))


def test_a_small_step_back_is_waited_for_without_a_busy_loop() -> None:
    ledger = Ledger(TICK_US, EPOCH_US)
    ledger.release(EPOCH_US + 1 * S)
    ledger.add([prepared(1, {1: 1})])
    low_us = EPOCH_US + 900 * MS

    assert [] == ledger.release(low_us)
    wake_us = ledger.next_release_us()
    assert wake_us is not None
    assert wake_us > low_us
    assert [1] == [each.frame_no for each in ledger.release(wake_us)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("aftx"), st.integers(1, 8), st.integers(0, 4))))
def test_its_count_is_that_of_the_leases_it_hands_back(steps: list[tuple[str, int, int]]) -> None:
    """Whatever is added, forgotten or taken out, also twice."""
    ledger = Ledger(TICK_US, EPOCH_US)
    model: dict[int, dict[int, int]] = {}
    for number, (what, frame_no, place) in enumerate(steps):
        match what:
            case "a" if frame_no not in model:
                model[frame_no] = {number * 10 + k: number for k in range(4)}
                ledger.add([prepared(frame_no, model[frame_no])])
            case "f":
                assert (frame_no in model) == (ledger.forget(frame_no) is not None)
                model.pop(frame_no, None)
            case "t":
                assert list(model.pop(frame_no, {}).items()) == ledger.take_out(frame_no)
            case "x":
                firings = model.get(frame_no, {})
                gone = list(firings)[:place]
                expected = [(each, firings.pop(each)) for each in gone]
                assert expected == ledger.take_out(frame_no, [*gone, 10**6])
            case _:
                pass
        assert sum(map(len, model.values())) == len(ledger)
    ids, fences = ledger.hand_back()
    held = sorted(lease for firings in model.values() for lease in firings.items())
    assert held == sorted(zip(ids.tolist(), fences.tolist(), strict=True))
    assert 0 == len(ledger)
    assert [] == ledger.release(EPOCH_US + 1 * S)
