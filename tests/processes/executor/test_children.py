"""Handlers in child processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.handlers import Context, Outcome
from processes.executor.field import (
    FAILED,
    SUCCESS,
    Ran,
    facts,
    is_alive,
    until,
)


def test_a_child_runs_what_the_worker_would(ran: Ran) -> None:
    """Same context, main thread, time that counts down, nothing left over from the run before."""
    first, second = (json.loads(str(ran.run("describe", [1]).output)) for _ in range(2))

    assert first.pop("pid") == second.pop("pid") != os.getpid()
    for seen in (first, second):
        assert 0 < seen.pop("remaining") < 30
        assert seen == {
            "payload": [1],
            "run_id": Context(facts("t")).run_id,
            "at": "2026-06-08 13:00:00+00:00",
            "leaked": 0,
            "main": True,
        }


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("raise", "ValueError: raised in the child\nat isolated_tasks.py:"),
        ("sys.exit", "SystemExit: 3"),
        ("os._exit", "its process ended with exit code 3"),
        ("fork", "its process ended with exit code 3"),  # the fork keeps the pipe open
        ("segfault", "its process was killed by SIGSEGV"),
        ("nonsense", "its process talks nonsense"),
    ],
)
def test_however_a_child_ends_its_run_fails_and_the_next_is_served(
    ran: Ran, payload: str, text: str
) -> None:
    """By a new child where the old one is of no more use."""
    outcome = ran.run("end", payload)

    assert outcome.kind is FAILED
    assert str(outcome.error).startswith(text)
    assert ran.run("end").kind is SUCCESS


@pytest.mark.slow
def test_a_child_that_hangs_is_killed_with_all_it_started(ran: Ran, tmp_path: Path) -> None:
    """At the time-out, though it blocks every signal that can be blocked; nothing is stuck."""
    told = tmp_path / "pids"
    outcome = ran.run("hang", str(told), timeout_s=3)
    pids = [int(text) for text in told.read_text().split()]

    assert outcome == Outcome(FAILED, "timed out after 3 s")
    until(lambda: not any(is_alive(pid) for pid in pids))
    assert ran.executor.stuck_count == 0
    assert ran.run("end").kind is SUCCESS


@pytest.mark.slow
def test_a_child_that_is_asked_to_stop_hears_it(ran: Ran, tmp_path: Path) -> None:
    """Its `ctx.cancelled` is set over the pipe, and its outcome counts."""
    told = tmp_path / "begun"
    key = ran.submit("wait_for_cancel", str(told))
    until(told.exists)
    ran.executor.cancel(key)

    assert ran.outcome(key) == Outcome(SUCCESS, output='"asked to stop"')


@pytest.mark.slow
def test_a_child_ends_with_its_worker(tmp_path: Path) -> None:
    """After kill -9 of the worker no child of it is left, though it is deaf."""
    told = tmp_path / "pids"
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from processes.executor.field import Ran\n"
        "Ran(children_max=1).submit('hang', sys.argv[2])\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parents[2]), str(told)],
        stdin=subprocess.PIPE,
    ) as worker:
        until(lambda: told.exists() and len(told.read_text().split()) == 2)
        pids = [int(text) for text in told.read_text().split()]
        worker.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(pids[0]), seconds=2)
