"""An engine with a clock that a test moves."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from mainspring import Context, Dead, Engine, Retry, SyncEngine, Worker
from mainspring.errors import Conflict, InvalidInput, MainspringError
from mainspring.jobs import Jobs
from mainspring.shown import RunOut
from mainspring.testing import DrivenEngine, driven_engine

__all__ = ["driven_engine"]  # the fixture, as pytest_plugins would bring it

NIGHT = "2026-03-08T00:00:00Z"  # of the change to summer time in New York, at 07:00Z


def times(runs: list[RunOut]) -> list[str]:
    return [str(each.scheduled_at) for each in runs]


def worker_of(**handlers: Any) -> Worker:
    worker = Worker()
    for name, handler in handlers.items():
        worker.task(name)(handler)
    return worker


def noop(ctx: Context, payload: Any) -> Any:
    return payload


@pytest.mark.slow
def test_a_day_of_a_minutely_job(driven_engine: Any) -> None:
    """1,440 runs, each at its minute, without a thread and in no time."""
    threads = threading.active_count()
    driven = driven_engine(worker_of(noop=noop), now=NIGHT)
    job = driven.jobs.add(name="noop", schedule="* * * * *", payload=7)
    begun_s = time.process_time()
    runs = driven.advance(days=1)

    assert time.process_time() - begun_s < 10  # one on a quiet machine
    assert threading.active_count() == threads
    first = datetime(2026, 3, 8, 0, 1, tzinfo=UTC)
    assert times(runs) == [
        f"{first + timedelta(minutes=i):%Y-%m-%dT%H:%M:%SZ}" for i in range(1_440)
    ]
    assert {each.status for each in runs} == {"success"}
    assert all(each.started_at == each.finished_at == each.scheduled_at for each in runs)
    assert driven.now == datetime(2026, 3, 9, tzinfo=UTC)
    assert (driven.runs(job.job_id)[0].status, len(driven.runs(job.job_id))) == ("pending", 500)


@pytest.mark.parametrize(
    ("schedule", "now", "expected"),
    [
        # The clock goes from 02:00 to 03:00; 02:30 is not there, so the first instant after it.
        ("30 2 * * *", NIGHT, ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]),
        # It goes from 02:00 back to 01:00: once, at the first pass.
        ("30 1 * * *", "2026-11-01T00:00:00Z", ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]),
        # A cadence keeps its real time: both passes.
        (
            "30 * * * *",
            "2026-11-01T04:00:00Z",
            [f"2026-11-01T{hour:02d}:30:00Z" for hour in range(4, 24)]
            + [f"2026-11-02T{hour:02d}:30:00Z" for hour in range(4)],
        ),
    ],
)
def test_a_night_in_which_the_clock_is_changed(
    driven_engine: Any, schedule: str, now: str, expected: list[str]
) -> None:
    """Local times in a gap and in an overlap fire as the documents say."""
    driven = driven_engine(worker_of(noop=noop), now=now)
    driven.jobs.add(name="noop", schedule=schedule, timezone="America/New_York")
    runs = driven.advance(days=2 if len(expected) == 2 else 1)

    assert times(runs) == expected


def test_retries_back_off_in_virtual_time_and_end_as_a_dead_letter(driven_engine: Any) -> None:
    """Delays are the job's; the letter is redriven and the key stays the same."""
    keys: list[str] = []
    is_open = False

    def flaky(ctx: Context, payload: Any) -> str:
        keys.append(ctx.idempotency_key)
        if not is_open:
            raise ValueError("shut")
        return "open"

    driven = driven_engine(worker_of(flaky=flaky), now=NIGHT)
    job = driven.jobs.add(
        name="flaky",
        schedule="2026-03-08T09:00:00Z",
        max_retries=4,
        retry_backoff="linear",
        retry_base_seconds=60,
    )
    assert driven.advance(hours=9) == driven.runs(job.job_id)[1:]
    runs = driven.advance(hours=1)
    (letter,) = driven.dead_letters()
    is_open = True
    driven.jobs.redrive(letter.run_id)
    (last,) = driven.advance()

    assert [each.started_at for each in runs] == [
        f"2026-03-08T09:{minute:02d}:00Z" for minute in (1, 3, 6)
    ]
    assert [each.status for each in runs] == ["failed", "failed", "dead"]
    assert letter.attempts == 4
    assert (last.status, last.attempt, last.started_at) == ("success", 5, "2026-03-08T10:00:00Z")
    assert len(set(keys)) == 1
    assert driven.dead_letters() == []


def test_retry_and_dead_choose_what_follows(driven_engine: Any) -> None:
    """As in a worker."""

    def chooses(ctx: Context, payload: Any) -> None:
        if ctx.attempt == 1:
            raise Retry("later", after_seconds=90)
        raise Dead("never")

    driven = driven_engine(worker_of(chooses=chooses), now=NIGHT)
    driven.jobs.add(name="chooses", schedule="2026-03-08T09:00:00Z")
    runs = driven.advance(days=1)

    assert [(each.status, each.started_at) for each in runs] == [
        ("failed", "2026-03-08T09:00:00Z"),
        ("dead", "2026-03-08T09:01:30Z"),
    ]


@pytest.mark.parametrize("payload", [None, 5, "text", [1.5, True], {"a": {"b": []}}])
def test_a_payload_is_shown_as_it_was_given(driven_engine: Any, payload: Any) -> None:
    """As a value in Python, as the text that was registered to who writes JSON."""
    driven = driven_engine(worker_of(noop=noop), now=NIGHT)
    job = driven.jobs.add(name="noop", schedule="@daily", payload=payload)

    assert driven.jobs.get(job.job_id).payload == payload
    assert [each.payload for each in driven.jobs.list()] == [payload]
    written = Jobs(driven._drive.store, are_payloads_text=True).get(job.job_id)
    assert msgspec.json.decode(msgspec.json.encode(written))["payload"] == payload
    assert isinstance(written.payload, msgspec.Raw)


def test_a_one_off_in_the_past_is_no_catch_up(driven_engine: Any) -> None:
    """It runs at once, as it was meant to; nothing was missed."""
    driven = driven_engine(worker_of(noop=noop), now=NIGHT)
    job = driven.jobs.add(name="noop", schedule="2020-01-01T00:00:00Z")
    driven.advance()

    assert [(each.status, each.catch_up) for each in driven.runs(job.job_id)] == [
        ("success", False)
    ]


def test_jitter_repeats_with_its_seed() -> None:
    """The same calls give the same runs, to the microsecond; another seed gives others."""

    def shut(ctx: Context, payload: Any) -> None:
        raise ValueError

    def play(seed: int) -> list[RunOut]:
        with DrivenEngine(worker_of(shut=shut), now=NIGHT, seed=seed) as driven:
            driven.jobs.add(name="shut", schedule="@hourly", max_retries=6)
            return driven.advance(hours=3)

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_async_handlers_sleep_while_others_run(driven_engine: Any) -> None:
    """Half an hour takes no time, and what falls due meanwhile fires at its minute."""
    order: list[tuple[str, str]] = []

    async def slow(ctx: Context, payload: Any) -> float:
        await asyncio.sleep(1_800)
        order.append(("slow", f"{driven.now:%H:%M:%S}"))
        return ctx.remaining_seconds()

    def quick(ctx: Context, payload: Any) -> None:
        order.append(("quick", f"{driven.now:%H:%M:%S}"))

    driven = driven_engine(worker_of(slow=slow, quick=quick), now=NIGHT)
    job = driven.jobs.add(name="slow", schedule="2026-03-08T01:00:00Z", timeout_seconds=3600)
    driven.jobs.add(name="quick", schedule="*/20 * * * *")
    driven.advance_to("2026-03-08T01:10:00Z")
    assert driven.runs(job.job_id)[0].status == "running"
    driven.advance_to("2026-03-08T01:40:00Z")

    assert order == [
        ("quick", "00:20:00"),
        ("quick", "00:40:00"),
        ("quick", "01:00:00"),
        ("quick", "01:20:00"),
        ("slow", "01:30:00"),
        ("quick", "01:40:00"),
    ]
    assert driven.runs(job.job_id)[0].output == "1800.0"


def test_a_time_out_is_in_virtual_time(driven_engine: Any) -> None:
    """The handler is cancelled and the attempt has failed; one that swallows it has, too."""
    cancelled: list[bool] = []

    async def hang(ctx: Context, payload: Any) -> None:
        try:
            await asyncio.sleep(10**6)
        except asyncio.CancelledError:
            cancelled.append(bool(ctx.cancelled))
            if payload == "swallow":
                await asyncio.sleep(10**6)
            raise

    driven = driven_engine(worker_of(hang=hang), now=NIGHT)
    for payload in ("obey", "swallow"):
        driven.jobs.add(
            name="hang",
            schedule="2026-03-08T01:00:00Z",
            timeout_seconds=300,
            max_retries=1,
            payload=payload,
        )
    runs = driven.advance(hours=2)

    assert [(each.status, each.finished_at, each.error) for each in runs] == [
        ("dead", "2026-03-08T01:05:00Z", "timed out after 300 s")
    ] * 2
    assert cancelled == [True, True]


def test_task_groups_and_timeouts_work_in_a_handler(driven_engine: Any) -> None:
    """With the loop's own clock, also a year after the start."""

    async def structured(ctx: Context, payload: Any) -> list[str]:
        done = []
        try:
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        except TimeoutError:
            done.append("timeout")
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(5))
            group.create_task(asyncio.sleep(7))
        return [*done, f"{driven.now:%H:%M:%S.%f}"]

    driven = driven_engine(worker_of(structured=structured), now=NIGHT)
    driven.jobs.add(name="structured", schedule="0 12 8 3 *")
    runs = driven.advance(days=366)

    assert [each.output for each in runs] == ['["timeout","12:01:07.000000"]'] * 2


class Report(msgspec.Struct):
    kind: str


@pytest.mark.parametrize("kind", [Engine, SyncEngine])
def test_the_jobs_of_an_engine_answer_from_the_driven_one(kind: Any) -> None:
    """So a handler that registers a job through its engine needs no database."""
    engine = kind("postgresql://nobody@127.0.0.1:1/nowhere")
    seen: list[tuple[str, str]] = []

    @engine.task("second")
    def second(ctx: Context, payload: Report) -> None:
        seen.append((payload.kind, f"{ctx.scheduled_at:%H:%M}"))

    if kind is Engine:

        @engine.task("first")
        async def first(ctx: Context, payload: Any) -> None:
            await engine.jobs.add(
                name="second", schedule="2026-03-08T10:00:00Z", payload=Report("follow-up")
            )

    else:

        @engine.task("first")
        def first_plain(ctx: Context, payload: Any) -> None:
            engine.jobs.add(
                name="second", schedule="2026-03-08T10:00:00Z", payload=Report("follow-up")
            )

    with DrivenEngine(engine, now=NIGHT) as driven:
        with pytest.raises(Conflict, match="in use already"):
            DrivenEngine(engine)
        driven.jobs.add(name="first", schedule="2026-03-08T09:00:00Z")
        with pytest.raises(InvalidInput, match="payload is not Report"):
            driven.jobs.add(name="second", schedule="@daily", payload={"kind": 1})
        driven.advance(hours=12)

    assert seen == [("follow-up", "10:00")]
    with DrivenEngine(engine, now=NIGHT) as driven:
        assert driven.advance(days=1) == []


def test_what_nobody_knows_or_takes_waits(driven_engine: Any) -> None:
    """A job for another task, or on another queue, stays pending; one on ours is run."""
    worker = Worker(queues=["ours"])
    worker.task("noop")(noop)
    driven = driven_engine(worker, now=NIGHT, allow_unknown_tasks=True)
    waiting = [
        driven.jobs.add(name="unknown", queue="ours", schedule=NIGHT),
        driven.jobs.add(name="noop", schedule=NIGHT),
    ]
    driven.jobs.add(name="noop", queue="ours", schedule=NIGHT)

    assert len(driven.advance(days=1)) == 1
    assert [driven.runs(job.job_id)[0].status for job in waiting] == ["pending", "pending"]


def test_a_job_for_a_task_without_a_handler_is_refused(driven_engine: Any) -> None:
    """With the field that named it and the name that was meant, also in a batch."""
    driven = driven_engine(worker_of(report=noop, mail=noop), now=NIGHT)
    with pytest.raises(InvalidInput, match="no handler is registered for task 'rport'") as by_name:
        driven.jobs.add(name="rport", schedule=NIGHT)
    with pytest.raises(InvalidInput, match="for task 'xyz'") as by_task:
        driven.jobs.add(name="report", task="xyz", schedule=NIGHT)
    with pytest.raises(InvalidInput, match="job 1: no handler") as in_batch:
        driven.jobs.add_many({"name": name, "schedule": NIGHT} for name in ("mail", "mial"))

    assert by_name.value.pointer == "/name"
    assert "Did you mean 'report'?" in str(by_name.value.hint)
    assert by_task.value.pointer == "/task"
    assert "Did you mean" not in str(by_task.value.hint)
    assert "allow_unknown_tasks=True" in str(by_task.value.hint)
    assert in_batch.value.pointer == "/1/name"
    assert driven.jobs.list() == []


def test_a_deleted_job_fires_no_more(driven_engine: Any) -> None:
    """Also when it is deleted and registered by a handler."""

    def deletes(ctx: Context, payload: Any) -> None:
        driven.jobs.delete(ctx.job_id)

    driven = driven_engine(worker_of(deletes=deletes, noop=noop), now=NIGHT)
    driven.jobs.add(name="deletes", schedule="@hourly")
    job = driven.jobs.add(name="noop", schedule="@hourly")
    driven.advance(hours=2)
    driven.jobs.delete(job.job_id)

    assert driven.advance(days=10) == []
    assert len(driven.runs(job.job_id)) == 2


def test_years_pass_in_an_instant(driven_engine: Any) -> None:
    """Beyond every wheel and horizon."""
    driven = driven_engine(worker_of(noop=noop), now=datetime(2026, 1, 1, tzinfo=UTC))
    driven.jobs.add(name="noop", schedule="0 0 29 2 *")

    assert times(driven.advance_to("2041-01-01T00:00:00Z")) == [
        f"{year}-02-29T00:00:00Z" for year in (2028, 2032, 2036, 2040)
    ]


def test_the_clock_goes_forward_only(driven_engine: Any) -> None:
    """And is not moved from within an event loop that the handlers' loop cannot share."""

    async def nap(ctx: Context, payload: Any) -> None:
        await asyncio.sleep(1)

    driven = driven_engine(worker_of(nap=nap), now=NIGHT)
    with pytest.raises(InvalidInput, match="cannot be moved there"):
        driven.advance_to("2026-03-07T00:00:00Z")
    with pytest.raises(InvalidInput, match="carries no zone"):
        driven.advance_to(datetime(2027, 1, 1))  # noqa: DTZ001

    async def within() -> list[RunOut]:
        with pytest.raises(Conflict, match="from within an event loop"):
            driven.advance(seconds=5)  # although nothing is due
        driven.jobs.add(name="nap", schedule=NIGHT)
        with pytest.raises(Conflict, match="from within an event loop"):
            driven.advance(seconds=5)
        return await asyncio.to_thread(driven.advance, seconds=5)

    assert len(asyncio.run(within())) == 1


@pytest.mark.parametrize("is_used", [True, False])
def test_an_async_test_closes_it_within_its_own_loop(
    is_used: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that still waits is cancelled and cleans up; nothing is destroyed or left over."""
    ends: list[str] = []

    async def waits(ctx: Context, payload: Any) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0)
            ends.append(f"cleaned up at {driven.now:%H:%M}")

    async def within() -> None:
        nonlocal driven
        with DrivenEngine(worker_of(waits=waits), now=NIGHT) as driven:
            if is_used:
                driven.jobs.add(name="waits", schedule=NIGHT, timeout_seconds=7_200)
                assert await asyncio.to_thread(driven.advance, minutes=10) == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    driven: DrivenEngine
    asyncio.run(within())
    gc.collect()

    assert ends == (["cleaned up at 00:10"] if is_used else [])
    assert caplog.records == []


def test_a_handler_that_goes_round_in_circles_is_told(
    driven_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time would stand still for ever."""
    monkeypatch.setattr("mainspring.testing.drive.STEPS_AT_ONCE_MAX", 500)

    def again(ctx: Context, payload: Any) -> None:
        driven.jobs.add(name="again", schedule=NIGHT)

    driven = driven_engine(worker_of(again=again), now=NIGHT)
    driven.jobs.add(name="again", schedule=NIGHT)
    with pytest.raises(MainspringError, match="time stands still"):
        driven.advance(seconds=1)


def test_an_answer_from_a_thread_can_be_waited_for() -> None:
    """With `io_wait_s`; without it time passes at once, and the attempt times out."""

    async def asks(ctx: Context, payload: Any) -> str:
        return await asyncio.to_thread(lambda: threading.Event().wait(0.05) or "answered")

    found = []
    for io_wait_s in (20.0, 0.0):
        with DrivenEngine(worker_of(asks=asks), now=NIGHT, io_wait_s=io_wait_s) as driven:
            driven.jobs.add(name="asks", schedule=NIGHT, max_retries=1)
            (run,) = driven.advance(hours=1)
            found.append((run.status, run.output))

    assert found == [("success", '"answered"'), ("dead", None)]


def test_the_library_brings_neither_pytest_nor_a_database_driver() -> None:
    """`import mainspring` stays cheap; the testing package is imported by its users only."""
    code = (
        "import sys, mainspring; "
        "print([m for m in ('pytest', 'numpy', 'psycopg', 'zmq', 'mainspring.testing') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip() == "[]"
