"""Handlers on an event loop that is the host's."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from mainspring.executor import LOOP_CLOSED, Executor, HostLoop
from mainspring.handlers import Context, Outcome, OutcomeKind, Tasks
from processes.executor.field import GRACE_S, facts, until

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")

tasks = Tasks()
seen: list[Any] = []


@tasks.task()
async def where(ctx: Context, payload: Any) -> Any:
    seen.append((asyncio.get_running_loop(), request_id.get()))
    request_id.set("changed by a handler")
    if payload:
        await asyncio.sleep(0.001)
    return payload


@tasks.task()
async def hang(ctx: Context, payload: Any) -> Any:
    seen.append("begun")
    await asyncio.sleep(3600)


@tasks.task()
async def spin(ctx: Context, payload: Any) -> Any:
    """What Ctrl-C hits when the host's thread is within a handler."""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(10**9):
        pass


class Hosted:
    """An executor on a loop that a test runs, and the ends it reported."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        seen.clear()
        self.ends: dict[int, Outcome] = {}
        self.executor = Executor(
            tasks,
            concurrency=4,
            on_end=self.ends.__setitem__,
            grace_s=GRACE_S,
            host=HostLoop(loop),
        )
        self.executor.start()

    def submit(self, key: int, task: str, payload: bytes = b"0", timeout_s: float = 30.0) -> None:
        self.executor.submit(key, task, Context(facts(task)), payload, timeout_s)

    async def ended(self, key: int) -> Outcome:
        for _ in range(5_000):
            if key in self.ends:
                return self.ends[key]
            await asyncio.sleep(0.001)
        raise AssertionError("no end came")


def run_on(make: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(main)


@pytest.mark.parametrize("make", LOOPS)
@pytest.mark.parametrize("payload", [b"0", b"1"])
def test_a_handler_runs_on_the_hosts_loop_with_its_context(make: Any, payload: bytes) -> None:
    """With or without a suspension; the variables are the host's, a change stays in its run."""

    async def main() -> None:
        request_id.set("of the host")
        hosted = Hosted(asyncio.get_running_loop())
        for key in range(100):
            hosted.submit(key, "where", payload)
        for key in range(100):
            assert (await hosted.ended(key)).kind is OutcomeKind.SUCCESS
        await asyncio.to_thread(hosted.executor.stop, 5)

        assert seen == [(asyncio.get_running_loop(), "of the host")] * 100
        assert request_id.get() == "of the host"
        assert asyncio.all_tasks() == {asyncio.current_task()}, "runners are left on the loop"

    run_on(make, main())


@pytest.mark.parametrize("make", LOOPS)
def test_a_time_out_cancels_on_the_hosts_loop(make: Any) -> None:
    """And the slot serves on, as does the loop."""

    async def main() -> None:
        hosted = Hosted(asyncio.get_running_loop())
        for key in range(8):
            hosted.submit(key, "hang", timeout_s=0.05)
        for key in range(8):
            assert "timed out after 0.05 s" in str((await hosted.ended(key)).error)
        for key in range(8, 16):
            hosted.submit(key, "where", b"1")
            assert (await hosted.ended(key)).kind is OutcomeKind.SUCCESS
        await asyncio.to_thread(hosted.executor.stop, 5)

    run_on(make, main())


@pytest.mark.parametrize("make", LOOPS)
def test_a_host_that_cancels_all_its_tasks_is_not_held_up(make: Any) -> None:
    """Idle runners and a running one end; what comes afterwards fails at once, with the reason."""
    kept: list[Hosted] = []

    async def main() -> None:
        hosted = Hosted(asyncio.get_running_loop())
        kept.append(hosted)
        hosted.submit(1, "where", b"1")
        await hosted.ended(1)
        hosted.submit(2, "hang")
        while "begun" not in seen:
            await asyncio.sleep(0.001)

    run_on(make, main())  # as asyncio.run ends: cancel everything, wait for everything
    (hosted,) = kept

    until(lambda: 2 in hosted.ends)
    assert hosted.ends[2].kind is OutcomeKind.FAILED
    hosted.submit(3, "where")
    assert hosted.ends[3].error == LOOP_CLOSED
    hosted.executor.stop(0)


def test_what_a_closed_loop_has_swallowed_is_given_up_when_it_is_cancelled() -> None:
    """A loop that was closed under its handlers never ends them; nobody waits for their grace."""
    loop = asyncio.new_event_loop()
    hosted = Hosted(loop)
    hosted.submit(1, "hang")
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    assert seen == ["begun"]
    (task,) = asyncio.all_tasks(loop)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()

    hosted.executor.cancel_all("the host is gone")
    until(lambda: 1 in hosted.ends, GRACE_S / 2)

    assert str(hosted.ends[1].error).startswith("the host is gone")
    hosted.executor.stop(0)


def test_ctrl_c_within_a_handler_is_the_hosts() -> None:
    """It ends the run as failed and goes on to whoever runs the loop."""
    assert threading.current_thread() is threading.main_thread()
    loop = asyncio.new_event_loop()
    hosted = Hosted(loop)
    hosted.submit(1, "spin")
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.call_later(0.01, loop.stop)
    loop.run_forever()

    assert "KeyboardInterrupt" in str(hosted.ends[1].error)
    stopper = threading.Thread(target=hosted.executor.stop, args=(0,))
    stopper.start()
    while stopper.is_alive():
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
    loop.close()
