"""The wake-up call of the queue sockets, rung by a signal handler in the middle of a clear."""

from __future__ import annotations

import select
import sys
import threading
from types import CodeType, FrameType
from typing import Any

import pytest

from mainspring.queue.wake import WakeUp

CLEAR: CodeType = WakeUp.clear.__code__
STEPS = 8


def is_ringing(wake: WakeUp) -> bool:
    poll = select.poll()
    poll.register(wake.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def clear_interrupted(wake: WakeUp, step: int) -> None:
    """Clear, and ring before its line number `step`, as a signal handler of this thread would."""
    seen = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal seen
        if event == "line" and frame.f_code is CLEAR:
            seen += 1
            if seen == step:
                wake.set()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        wake.clear()
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("step", range(1, STEPS))
@pytest.mark.parametrize("was_set", [False, True])
def test_a_signal_handler_may_ring_at_any_step_of_a_clear(step: int, *, was_set: bool) -> None:
    """Nothing hangs, a later ring is heard, and silence after it is silence."""
    wake = WakeUp()
    if was_set:
        wake.set()
    thread = threading.Thread(target=clear_interrupted, args=(wake, step), daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive(), "the clear waits for itself"
    wake.clear()

    assert not is_ringing(wake)
    wake.set()
    assert is_ringing(wake)
    wake.clear()
    assert not is_ringing(wake)
    wake.close()


def test_a_ring_at_any_step_of_a_clear_leaves_no_poll_that_returns_for_ever() -> None:
    """What the next clear does not take back would be a busy loop."""
    for step in range(1, STEPS):
        wake = WakeUp()
        clear_interrupted(wake, step)
        rounds = 0
        while is_ringing(wake):
            wake.clear()
            rounds += 1
            assert rounds <= 1
        wake.close()
