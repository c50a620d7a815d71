"""Tests of your own handlers and schedules: an engine with a clock that you move.

`DrivenEngine` runs the jobs of an engine in virtual time, in one thread, without a database and
without waiting: what is due fires in order, by the decisions of the real scheduler and worker
(`core`) on a store in memory.  With pytest, `pytest_plugins = ["mainspring.testing"]` in your
`conftest.py` brings the fixture `driven_engine`.

**What is real.**  Schedules, zones, missed windows, retries and their delays, timeouts, dead
letters, idempotency keys, payloads and their types, what ends up in the history.

**What is not.**  Processes, sockets, leases that run out, a second worker: handlers run in the
thread that moves the clock, also those with `isolation="process"`.  The simulator in our own tests
looks after those; it shares the cores with this module, and not the driver: all that it does is to
put a delay, a loss or a crash between any two steps that are one step here.
"""

from __future__ import annotations

from contextlib import suppress

from mainspring.testing.driven import DrivenEngine

with suppress(ImportError):  # without pytest there is no fixture, and everything else
    from mainspring.testing.fixtures import driven_engine

__all__ = ["DrivenEngine", "driven_engine"]
