"""Slots, time-outs, cancels and the end of an executor."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mainspring.clock import monotonic_s
from mainspring.executor import Executor
from mainspring.handlers import Outcome
from processes.executor.field import (
    ECHOES,
    FAILED,
    FAILS,
    GRACE_S,
    SUCCESS,
    Ran,
    begun,
    noted,
    release,
    tasks,
    until,
)


def test_a_coroutine_is_cancelled_at_its_time_out(ran: Ran) -> None:
    """It fails as timed out, nothing is stuck, and its slot serves the next run."""
    outcome = ran.run("wait_on_loop", timeout_s=0.1)

    assert outcome == Outcome(FAILED, "timed out after 0.1 s")
    assert ran.executor.stuck_count == 0
    assert ran.run("echo_late") == Outcome(SUCCESS)


@pytest.mark.parametrize("task", ["swallow", "block_loop"])
def test_a_coroutine_that_cannot_be_cancelled_is_given_up(ran: Ran, task: str) -> None:
    """After the grace it has failed and its slot is stuck, until the handler ends by itself."""
    begun_s = monotonic_s()
    outcome = ran.run(task, timeout_s=0.1)
    took_s = monotonic_s() - begun_s

    assert outcome.kind is FAILED
    assert str(outcome.error).startswith("timed out after 0.1 s; its handler could not be stopped")
    assert took_s >= 0.1 + GRACE_S
    assert ran.executor.stuck_count == 1
    release.set()
    until(lambda: ran.executor.stuck_count == 0)
    assert ran.run("echo") == Outcome(SUCCESS)


def test_a_thread_is_given_up_at_its_time_out(ran: Ran) -> None:
    """Without a grace; others run on; its slot comes back when it ends."""
    outcome = ran.run("block_thread", timeout_s=0.1)

    assert str(outcome.error).startswith("timed out after 0.1 s; its handler could not be stopped")
    assert ran.executor.stuck_count == 1
    assert ran.run("echo_thread") == Outcome(SUCCESS)
    release.set()
    until(lambda: ran.executor.stuck_count == 0)


def test_the_flag_is_set_at_the_time_out(ran: Ran) -> None:
    """So that a thread which looks at it can end; its run has failed all the same."""
    outcome = ran.run("obey", timeout_s=0.1)

    assert outcome.kind is FAILED
    until(lambda: ran.executor.stuck_count == 0)


@pytest.mark.parametrize(
    ("task", "next_task"), [("block_thread", "note_thread"), ("swallow", "note")]
)
def test_a_run_that_waits_too_long_for_a_slot_times_out(
    ran: Ran, task: str, next_task: str
) -> None:
    """With all slots stuck it says so, and it never begins."""
    noted.clear()
    stuck = [ran.submit(task, timeout_s=0.1) for _ in range(4)]
    waiting = ran.submit(next_task, "never", timeout_s=0.6)
    for key in stuck:
        ran.outcome(key)
    outcome = ran.outcome(waiting)

    assert outcome == Outcome(
        FAILED, "timed out after 0.6 s while it waited for a free slot (4 stuck)"
    )
    release.set()
    assert ran.run(next_task, "next") == Outcome(SUCCESS)
    assert noted == ["next"]


def test_a_stuck_handler_that_ends_in_the_stop_gives_its_slot_back(ran: Ran) -> None:
    """The loop's own end cancels it once more; what it held is counted back all the same."""
    for key in [ran.submit("swallow", timeout_s=0.1) for _ in range(4)]:
        ran.outcome(key)
    release.set()
    ran.executor.stop(5)

    assert ran.executor.stuck_count == 0


@pytest.mark.parametrize("task", ["wait_on_loop", "block_thread"])
def test_no_more_than_the_concurrency_run_at_a_time(ran: Ran, task: str) -> None:
    """Four begin; the others follow as slots come free, and all end."""
    keys = [ran.submit(task) for _ in range(12)]
    for _ in range(4):
        assert begun.acquire(timeout=10)

    assert not begun.acquire(timeout=0.1)
    release.set()
    for key in keys:
        assert ran.outcome(key).kind is SUCCESS


def test_a_cancelled_coroutine_fails_with_the_reason(ran: Ran) -> None:
    """Within the grace, and nothing is stuck."""
    key = ran.submit("wait_on_loop")
    assert begun.acquire(timeout=10)

    assert ran.executor.cancel(key, "cancelled by the user")
    assert ran.outcome(key) == Outcome(FAILED, "cancelled by the user")
    assert not ran.executor.cancel(key)
    assert ran.executor.stuck_count == 0


def test_a_cancelled_thread_that_obeys_keeps_its_outcome(ran: Ran) -> None:
    """What it did is done, so its success counts."""
    key = ran.submit("obey")
    assert begun.acquire(timeout=10)
    ran.executor.cancel(key)

    assert ran.outcome(key) == Outcome(SUCCESS, output='"asked to stop"')


def test_a_cancelled_run_that_waits_ends_at_once(ran: Ran) -> None:
    """And never begins."""
    keys = [ran.submit("block_thread") for _ in range(4)]
    waiting = ran.submit("echo_thread", "never")
    ran.executor.cancel(waiting)

    assert str(ran.outcome(waiting).error).startswith("cancelled while it waited")
    release.set()
    assert [ran.outcome(key).kind for key in keys] == [SUCCESS] * 4


def test_cancel_all_asks_each_run_once(ran: Ran) -> None:
    """The count is of those that had not been asked yet."""
    keys = [ran.submit("wait_on_loop") for _ in range(3)]
    for _ in keys:
        assert begun.acquire(timeout=10)
    ran.executor.cancel(keys[0])
    ran.outcome(keys[0])

    assert ran.executor.cancel_all() == 2
    assert [ran.outcome(key).kind for key in keys] == [FAILED] * 3
    assert ran.executor.cancel_all() == 0


@pytest.mark.slow
def test_thousands_of_runs_of_all_kinds_end_once_each(ran: Ran) -> None:
    """Success, failure, suspension and time-outs mixed; the count is checked at the end."""
    keys = [
        ran.submit((*ECHOES, *FAILS)[number % 6], "value", timeout_s=60) for number in range(6_000)
    ]
    kinds = [ran.outcome(key, 60).kind for key in keys]

    assert kinds == [SUCCESS if number % 6 < 3 else FAILED for number in range(6_000)]
    assert ran.executor.in_flight_count == 0


def test_stop_waits_for_what_runs() -> None:
    """A handler that ends within the drain keeps its outcome; later submits fail at once."""
    ran = Ran()
    release.clear()
    keys = [ran.submit("wait_on_loop"), ran.submit("block_thread")]
    threading.Timer(0.2, release.set).start()
    ran.executor.stop(10)

    assert [ran.outcome(key, 0).kind for key in keys] == [SUCCESS, SUCCESS]
    assert ran.run("echo") == Outcome(FAILED, "cancelled: the worker has stopped")
    assert len(ran.ends) == 3


@pytest.mark.slow
def test_stop_ends_every_run_in_bounded_time(tmp_path: Path) -> None:
    """Obedient, deaf, blocked and waiting ones, in threads, on the loop and in a process."""
    ran = Ran(concurrency=3, children_max=1)
    release.clear()
    names = ["obey", *["block_thread"] * 4, "wait_on_loop", *["swallow"] * 3]
    keys = [ran.submit(name) for name in names] + [ran.submit("hang", str(tmp_path / "pids"))]
    until((tmp_path / "pids").exists)
    begun_s = monotonic_s()
    ran.executor.stop(0.1)
    took_s = monotonic_s() - begun_s
    release.set()

    assert took_s < 5
    assert sorted(key for key, _ in ran.ends) == keys


def test_a_stop_without_a_start_returns() -> None:
    """A worker that fails while it starts can still clean up."""
    executor = Executor(tasks, concurrency=1, on_end=lambda key, outcome: None)
    executor.stop(1)
    executor.stop(1)


def test_time_is_not_read_per_run_but_watched(ran: Ran) -> None:
    """A long time-out submitted first does not delay the notice of a short one after it."""
    long = ran.submit("wait_on_loop", timeout_s=3_000)
    begun_s = monotonic_s()
    short = ran.submit("wait_on_loop", timeout_s=0.1)

    assert ran.outcome(short).kind is FAILED
    assert monotonic_s() - begun_s < 5
    release.set()
    assert ran.outcome(long).kind is SUCCESS
