"""How failures are said in the log, and how few of them in a storm."""

from __future__ import annotations

import json
import logging

import pytest

from mainspring.errors import Dead, Retry
from mainspring.executor.outcomes import TRACE_BYTES_MAX, failed, outcome_of_error
from mainspring.handlers import Context, Outcome, OutcomeKind, RunFacts
from mainspring.ration import Ration
from mainspring.worker.failures import FailureLog


def context_of(task: str) -> Context:
    return Context(
        RunFacts(
            firing_id=9,
            fence=4,
            job=7,
            scheduled_us=0,
            attempt=1,
            task=task,
            queue="q",
            idempotency_key="k",
        )
    )


def traced(error: BaseException, cause: BaseException | None = None) -> Outcome:
    try:
        raise error from cause  # noqa: TRY301
    except BaseException as caught:  # noqa: BLE001
        return outcome_of_error(caught, is_traced=True)


def test_a_ration_lets_some_through_and_counts_the_others() -> None:
    """In each second of each key; what was kept back is told once, when its second is over."""
    now_us = 0
    ration = Ration(2, lambda: now_us)

    assert [ration.take("a") for _ in range(5)] == [True, True, False, False, False]
    assert ration.take("b")
    now_us = 999_999
    assert not ration.take("a")
    assert ration.kept_back() == []
    now_us = 1_000_000
    assert ration.take("a")
    now_us = 2_000_000
    assert ration.kept_back() == [("a", 4)]
    assert ration.kept_back() == ration.all_kept_back() == []
    assert [ration.take("a") for _ in range(3)] == [True, True, False]
    assert ration.all_kept_back() == [("a", 1)]


def test_a_storm_of_failures_makes_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Ten of each task and kind, and one with how many more; other tasks are not silenced."""
    told = FailureLog()
    for _ in range(500):
        told.on_run_ended(context_of("storm"), failed("x"))
        told.on_dead_letter(context_of("storm"), "x\nat y")
    told.on_run_ended(context_of("calm"), failed("x"))
    told.tell_rest(is_end=True)
    lines = [record.getMessage() for record in caplog.records]

    assert len([line for line in lines if line.startswith("run failed task=storm ")]) == 10
    assert len([line for line in lines if line.startswith("dead letter task=storm ")]) == 10
    assert [record.getMessage() for record in caplog.records[-3:]] == [
        "run failed task=calm job_id=j_7 run_id=r_9_4 attempt=1 error=x",
        "more runs failed task=storm count=490",
        "more dead letters task=storm count=490",
    ]
    assert caplog.records[-1].levelno == logging.ERROR


def test_a_traceback_is_the_end_of_it_and_short() -> None:
    """Whatever the message is made of, and it never gets into the stored error."""
    outcome = traced(ValueError("\0\ud800é" + "é" * 20_000 + "the end"))

    assert outcome.trace is not None
    assert outcome.trace.startswith("[cut] ")
    assert outcome.trace.endswith("éthe end")
    assert len(outcome.trace.encode()) <= TRACE_BYTES_MAX + len("[cut] ")
    assert "Traceback" not in str(outcome.error)
    short = traced(ValueError("\0\ud800"))
    assert str(short.trace).endswith("ValueError: \N{REPLACEMENT CHARACTER}\\ud800")


def test_a_retry_or_a_dead_has_a_traceback_only_for_its_cause() -> None:
    """By itself it says all there is to say."""
    for error, kind in ((Retry("later"), OutcomeKind.RETRY), (Dead("never"), OutcomeKind.DEAD)):
        assert traced(error).trace is None
        outcome = traced(error, KeyError("the cause"))
        assert outcome.kind is kind
        assert "KeyError: 'the cause'" in str(outcome.trace)


def test_a_process_of_ours_writes_the_traceback_as_a_field(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In JSON, on the line of its failure."""
    import structlog  # noqa: PLC0415

    from mainspring.logs import Log, configure  # noqa: PLC0415

    configure("worker", is_terminal=False)
    try:
        FailureLog().on_run_ended(context_of("t"), traced(ValueError("bad")))
    finally:
        Log.is_process_ours = False
        structlog.reset_defaults()
    line = json.loads(capsys.readouterr().err)

    assert line["event"] == "run failed"
    assert line["level"] == "warning"
    assert line["exception"].startswith("Traceback")
