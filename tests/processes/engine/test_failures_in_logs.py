"""What a host's log says of handlers that fail."""

from __future__ import annotations

import logging

import pytest

from mainspring import SyncEngine
from processes.cluster.stage import wait_for
from processes.engine.stage import PAST
from processes.engine.tasks_apart import failing


def test_a_failed_attempt_and_a_dead_letter_are_logged(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On the loop, in a thread and in a child: traceback, names, and nothing of the payload."""
    engine = SyncEngine(dsn, shards=1, tasks=failing)

    def said(level: int, event: str) -> dict[str, list[str]]:
        lines: dict[str, list[str]] = {}
        for record in caplog.records:
            text = record.getMessage()
            if record.levelno == level and text.startswith(event):
                task = text.partition("task=")[2].split()[0]
                lines.setdefault(task, []).append(text)
        return lines

    with engine:
        jobs = {
            name: engine.jobs.add(
                name=name,
                schedule=PAST,
                payload={"card": "4242424242424242"},
                max_retries=2,
                retry_backoff="fixed",
                retry_base_seconds=1,
            ).job_id
            for name in failing.names
        }
        wait_for("three letters", lambda: len(engine.jobs.dead_letters()) == 3)
        wait_for("their lines", lambda: len(said(logging.ERROR, "dead letter ")) == 3)
        runs = {name: engine.jobs.runs(job_id)[::-1] for name, job_id in jobs.items()}

    warned, died = said(logging.WARNING, "run failed "), said(logging.ERROR, "dead letter ")
    for name, job_id in jobs.items():
        assert len(warned[name]) == 2
        for attempt, (text, run) in enumerate(zip(warned[name], runs[name], strict=True), 1):
            first, _, trace = text.partition("\n")
            assert first == (
                f"run failed task={name} job_id={job_id} run_id={run.run_id} attempt={attempt} "
                "error=ValueError: no paper for 16 digits"
            )
            assert trace.startswith("Traceback (most recent call last):\n")
            assert f"in fail_{name.replace('-', '_')}\n    burn(payload)" in trace
            assert trace.endswith("in burn\n    " + RAISE + "\nValueError: no paper for 16 digits")
            assert run.error is not None
            assert "Traceback" not in run.error
        (line,) = died[name]
        assert line == (
            f"dead letter task={name} job_id={job_id} run_id={runs[name][-1].run_id} attempt=2 "
            "error=ValueError: no paper for 16 digits"
        )
    assert "4242" not in caplog.text


RAISE = 'raise ValueError(f"no paper for {len(secret)} digits")'
