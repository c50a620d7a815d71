"""What handlers return and raise, on a real loop and in real threads."""

from __future__ import annotations

import json
import threading

import pytest

from mainspring.handlers import Context, Outcome, OutcomeKind
from processes.executor.field import (
    ECHOES,
    FAILED,
    FAILS,
    SUCCESS,
    Ran,
    begun,
    facts,
    release,
    until,
)


@pytest.mark.parametrize("task", [*ECHOES, "describe_async"])
def test_a_return_value_is_the_output(ran: Ran, task: str) -> None:
    """As JSON text, for every kind of handler."""
    output = ran.run(task, {"a": [1, "é"]}).output

    assert output is not None
    assert json.loads(output) == {"a": [1, "é"]} or json.loads(output)["payload"] == {"a": [1, "é"]}


@pytest.mark.parametrize("task", ECHOES)
def test_null_gives_no_output(ran: Ran, task: str) -> None:
    """None is a success without output."""
    assert ran.run(task) == Outcome(SUCCESS)


@pytest.mark.parametrize("task", FAILS)
@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("value", "ValueError: bad"),
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("generator", "GeneratorExit"),
        ("base", "BaseException: base"),
        ("cancelled", "CancelledError"),
        ("stop", "StopIteration"),
    ],
)
def test_whatever_is_raised_is_a_failure(ran: Ran, task: str, payload: str, text: str) -> None:
    """And the next run of the same kind is served as if nothing had been."""
    outcome = ran.run(task, payload)

    assert outcome.kind is FAILED
    assert text in str(outcome.error)
    assert ran.run(task) == Outcome(SUCCESS)
    assert ran.executor.stuck_count == 0


@pytest.mark.parametrize("task", [*FAILS, "end"])
def test_retry_and_dead_choose_what_follows(ran: Ran, task: str) -> None:
    """From every kind of handler, across the pipe of a child too."""
    assert ran.run(task, "retry") == Outcome(OutcomeKind.RETRY, "later", None, 7.0)
    assert ran.run(task, "dead") == Outcome(OutcomeKind.DEAD, "never")


def test_an_unknown_task_fails_with_its_name(ran: Ran) -> None:
    """At once, as an outcome and not as an exception."""
    outcome = ran.run("absent")

    assert outcome == Outcome(FAILED, "no handler is registered for task 'absent'")


@pytest.mark.parametrize("task", [*ECHOES, "describe"])
def test_a_payload_that_is_no_json_fails_the_run(ran: Ran, task: str) -> None:
    """It can only be our own mistake, and still is an outcome."""
    ran._key += 1
    ran.executor.submit(ran._key, task, Context(facts(task)), b"{", 30)

    assert "DecodeError" in str(ran.outcome(ran._key).error)


def test_a_key_in_flight_is_refused(ran: Ran) -> None:
    """A second submit under it is a bug of the caller's."""
    key = ran.submit("wait_on_loop")
    with pytest.raises(ValueError, match="in flight already"):
        ran.executor.submit(key, "echo", Context(facts("echo")), b"null", 1)
    release.set()
    ran.outcome(key)


@pytest.mark.parametrize("payload", ["now", "await"])
def test_a_handlers_cancel_of_its_own_task_ends_with_it(ran: Ran, payload: str) -> None:
    """Taken up by an await or not, it does not reach the runs after it."""
    first = ran.submit("wait_on_loop")  # so that the rest is queued behind it
    fillers = [ran.submit("wait_on_loop") for _ in range(3)]
    ran.submit("meddle", payload)
    keys = [ran.submit("echo_late", number) for number in range(50)]
    release.set()

    assert [ran.outcome(key).kind for key in (first, *fillers)] == [SUCCESS] * 4
    assert [ran.outcome(key).kind for key in keys] == [SUCCESS] * 50


def test_a_cancel_that_comes_after_its_run_costs_one_other_at_most(ran: Ran) -> None:
    """The runner lives on, idle or busy."""
    for wait_s in (0, 0.05):
        ran.run("meddle", "later")
        threading.Event().wait(wait_s)
        keys = [ran.submit("echo_late", number) for number in range(50)]
        assert [ran.outcome(key).kind for key in keys].count(FAILED) <= 1
    until(lambda: ran.executor.in_flight_count == 0)
    keys = [ran.submit("wait_on_loop") for _ in range(4)]
    for _ in keys:
        assert begun.acquire(timeout=10), "a runner was lost"
    release.set()
    assert [ran.outcome(key).kind for key in keys] == [SUCCESS] * 4


def test_timeouts_and_task_groups_work_in_a_handler(ran: Ran) -> None:
    """As in any task."""
    keys = [ran.submit("structured") for _ in range(20)]

    assert {ran.outcome(key).output for key in keys} == {"3"}


@pytest.mark.parametrize("task", ["leak", "leak_thread"])
def test_context_variables_do_not_leak_into_the_next_run(ran: Ran, task: str) -> None:
    """Each run starts from a fresh copy and keeps its own across awaits."""
    assert [ran.run(task).output for _ in range(10)] == ["0"] * 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_system_exit_in_a_task_of_a_handler_does_not_end_the_loop(ran: Ran) -> None:
    """Asyncio lets it through to the loop; the others run on."""
    assert ran.run("exit_from_a_task").output == '"still here"'
    assert ran.run("echo_late") == Outcome(SUCCESS)


def test_a_cancelled_future_is_a_failure_like_any_other(ran: Ran) -> None:
    """Nobody cancelled the run itself."""
    assert "CancelledError" in str(ran.run("inner_cancel").error)
    assert ran.run("echo") == Outcome(SUCCESS)


def test_a_plain_handler_that_returns_a_coroutine_fails(ran: Ran) -> None:
    """It would never run, so silence would be a lie."""
    assert "write it as async def" in str(ran.run("forgot_async").error)


def test_a_large_output_is_cut(ran: Ran) -> None:
    """Ten megabytes become `output_bytes_max`."""
    output = ran.run("large").output

    assert output is not None
    assert len(output) == 4096
    assert output.endswith(" [cut]")
