"""What the tests of embedded engines ask of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mainspring import Engine
from mainspring.clock import monotonic_s
from mainspring.config import WorkerSettings
from mainspring.shown import RunOut

T = TypeVar("T")
PAST = "2020-01-01T00:00:00Z"
FINAL = {"success", "dead"}
QUICK = WorkerSettings(drain_seconds=10, concurrency=20)


def run(
    main: Coroutine[Any, Any, T],
    timeout_s: float = 40.0,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> T:
    """Run a host to its end, within bounds."""

    async def bounded() -> T:
        async with asyncio.timeout(timeout_s):
            return await main

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(bounded())


async def until(what: str, probe: Callable[[], T], timeout_s: float = 20.0) -> T:
    """Return the first true answer, without blocking the loop."""
    end_s = monotonic_s() + timeout_s
    while not (answer := probe()):
        assert monotonic_s() < end_s, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.02)
    return answer


async def ended(engine: Engine, job_id: str, timeout_s: float = 20.0) -> list[RunOut]:
    """Wait for a run that ends its occurrence; returns the job's runs, oldest first."""
    end_s = monotonic_s() + timeout_s
    while True:
        runs = await engine.jobs.runs(job_id)
        if any(each.status in FINAL for each in runs):
            return runs[::-1]
        assert monotonic_s() < end_s, f"job {job_id} did not end within {timeout_s} s: {runs}"
        await asyncio.sleep(0.05)


def threads_of(name: str) -> list[str]:
    """Return the living threads of an engine, by its name."""
    return [each.name for each in threading.enumerate() if each.name.startswith(name)]
