"""Registrations that arrive together share a commit, and fail alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from mainspring.errors import InvalidInput, StatementRetry, StoreUnavailable
from mainspring.model import Definition, JobId, NewJob
from mainspring_api.calls import BoundedCalls
from mainspring_api.database_time import REFRESH_US, DatabaseTime
from mainspring_api.registrar import BATCH_JOBS_MAX, Registrar

WAIT_S = 20.0


def job(name: str) -> NewJob:
    definition = Definition(name=name, task=name, schedule="* * * * *")
    return NewJob(definition=definition, first_us=60_000_000, anchor_us=0, is_once=False)


class Ledger:
    """A store that takes jobs unless a name is `bad`, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.loop_thread = threading.current_thread()

    def add_jobs(self, jobs: list[NewJob]) -> list[JobId]:
        assert threading.current_thread() is not self.loop_thread
        names = [each.definition.name for each in jobs]
        self.batches.append(names)
        assert self.gate.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        if "bad" in names:
            raise InvalidInput("a value does not fit")
        return [JobId(int(name)) for name in names]


def run(scenario: Callable[[Ledger, Registrar], Coroutine[Any, Any, None]]) -> Ledger:
    ledger = Ledger()

    async def whole() -> None:
        registrar = Registrar(ledger, BoundedCalls(2))  # type: ignore[arg-type]
        await asyncio.wait_for(scenario(ledger, registrar), WAIT_S)
        await registrar.close()

    asyncio.run(whole())
    return ledger


async def begun(ledger: Ledger, count: int) -> None:
    while len(ledger.batches) < count:
        await asyncio.sleep(0)


def tasks_of(registrar: Registrar, names: list[str]) -> list[asyncio.Task[JobId]]:
    return [asyncio.create_task(registrar.add(job(name))) for name in names]


def test_a_lone_registration_is_committed_alone_and_at_once() -> None:
    async def scenario(ledger: Ledger, registrar: Registrar) -> None:
        assert await registrar.add(job("7")) == 7

    assert run(scenario).batches == [["7"]]


def test_what_arrives_during_a_commit_becomes_the_next_one() -> None:
    async def scenario(ledger: Ledger, registrar: Registrar) -> None:
        ledger.gate.clear()
        first = tasks_of(registrar, ["1"])
        await begun(ledger, 1)
        rest = tasks_of(registrar, ["2", "3", "4"])
        await asyncio.sleep(0.01)
        assert [task for task in first + rest if task.done()] == []  # none before its commit
        ledger.gate.set()
        assert await asyncio.gather(*first, *rest) == [1, 2, 3, 4]

    assert run(scenario).batches == [["1"], ["2", "3", "4"]]


def test_a_batch_has_a_limit_and_order_is_kept() -> None:
    names = [str(number) for number in range(1, 2 * BATCH_JOBS_MAX + 2)]

    async def scenario(ledger: Ledger, registrar: Registrar) -> None:
        answers = await asyncio.gather(*tasks_of(registrar, names))
        assert answers == [int(name) for name in names]

    ledger = run(scenario)
    assert [len(batch) for batch in ledger.batches] == [BATCH_JOBS_MAX, BATCH_JOBS_MAX, 1]
    assert [name for batch in ledger.batches for name in batch] == names


def test_one_bad_row_fails_alone() -> None:
    async def scenario(ledger: Ledger, registrar: Registrar) -> None:
        tasks = tasks_of(registrar, ["1", "bad", "3"])
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[::2] == [1, 3]
        assert isinstance(answers[1], InvalidInput)
        assert await registrar.add(job("4")) == 4

    assert run(scenario).batches == [["1", "bad", "3"], ["1"], ["bad"], ["3"], ["4"]]


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), StatementRetry("busy")])
def test_an_unknown_outcome_is_told_to_all_and_never_repeated(error: Exception) -> None:
    async def scenario(ledger: Ledger, registrar: Registrar) -> None:
        ledger.error = error
        answers = await asyncio.gather(*tasks_of(registrar, ["1", "2"]), return_exceptions=True)
        assert answers == [error, error]
        ledger.error = None
        assert await registrar.add(job("3")) == 3  # and the next one is tried as ever

    assert run(scenario).batches == [["1", "2"], ["3"]]


def test_a_cancelled_request_takes_no_neighbour_along() -> None:
    async def scenario(ledger: Ledger, registrar: Registrar) -> None:
        ledger.gate.clear()
        one, two = tasks_of(registrar, ["1", "2"])
        await begun(ledger, 1)
        one.cancel()
        await asyncio.sleep(0)
        ledger.gate.set()
        assert await two == 2
        assert one.cancelled()

    assert run(scenario).batches == [["1", "2"]]


def test_closing_waits_for_what_was_taken() -> None:
    async def scenario(ledger: Ledger, registrar: Registrar) -> None:
        ledger.gate.clear()
        (task,) = tasks_of(registrar, ["1"])
        await begun(ledger, 1)
        closing = asyncio.create_task(registrar.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        ledger.gate.set()
        await closing
        assert await task == 1

    run(scenario)


def test_committed_batches_are_counted_and_failed_ones_are_not() -> None:
    counted: list[int] = []

    async def whole() -> None:
        registrar = Registrar(Ledger(), BoundedCalls(2), registered=counted.append)  # type: ignore[arg-type]
        await asyncio.gather(*tasks_of(registrar, ["1", "2"]))
        await asyncio.gather(*tasks_of(registrar, ["bad", "3"]), return_exceptions=True)

    asyncio.run(whole())
    assert counted == [2, 1]


class HandTime:
    """A monotonic clock and a database clock that are moved by hand."""

    def __init__(self) -> None:
        self.monotonic = 0
        self.database = 1_000_000_000
        self.reads = 0

    def monotonic_us(self) -> int:
        return self.monotonic

    def sleep_us(self, duration_us: int) -> None:
        raise AssertionError

    def database_us(self) -> int:
        self.reads += 1
        self.monotonic += 100  # the round trip
        return self.database


def timed(scenario: Callable[[HandTime, DatabaseTime], Awaitable[None]]) -> None:
    async def whole() -> None:
        hand = HandTime()
        await scenario(hand, DatabaseTime(hand, BoundedCalls(1), hand))  # type: ignore[arg-type]

    asyncio.run(whole())


def test_database_time_is_read_once_a_second_and_never_given_too_early() -> None:
    async def scenario(hand: HandTime, database_time: DatabaseTime) -> None:
        now_us = await database_time.now_us()
        assert hand.database <= now_us <= hand.database + 200
        hand.monotonic += REFRESH_US
        carried_us = await database_time.now_us()
        assert hand.database + REFRESH_US <= carried_us <= hand.database + REFRESH_US * 1.002 + 200
        assert hand.reads == 1
        hand.monotonic += 1
        hand.database += REFRESH_US + 1
        await database_time.now_us()
        assert hand.reads == 2

    timed(scenario)


def test_many_requests_share_one_reading() -> None:
    async def scenario(hand: HandTime, database_time: DatabaseTime) -> None:
        await asyncio.gather(*(database_time.now_us() for _ in range(30)))
        assert hand.reads == 1

    timed(scenario)


def test_a_step_of_the_database_clock_is_followed_within_a_second() -> None:
    async def scenario(hand: HandTime, database_time: DatabaseTime) -> None:
        await database_time.now_us()
        hand.database -= 3_600_000_000
        hand.monotonic += REFRESH_US + 1
        now_us = await database_time.now_us()
        assert hand.database <= now_us <= hand.database + 200

    timed(scenario)
