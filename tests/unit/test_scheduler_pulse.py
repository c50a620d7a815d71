"""The pulse of a scheduler on a memory store: terms begun, renewed, given up."""

from __future__ import annotations

import threading

import pytest

from mainspring.clock import sleep_s
from mainspring.core.observer import DeathObserver
from mainspring.errors import StoreUnavailable
from mainspring.scheduler.events import Event, Pulse, TermBegun, TermEnded, TermsRenewed
from mainspring.scheduler.pulse import PRUNE_PERIOD_US, PRUNE_ROWS_MAX, PulseThread
from mainspring.store.memory import MemoryStore


class Alone:
    """An elector without rivals."""

    def campaign(self, shard: int) -> bool:
        return True

    def is_elected(self, shard: int) -> bool:
        return True

    def resign(self, shard: int) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_term_that_the_loop_gave_up_is_ended_and_the_shard_is_led_anew() -> None:
    """Were it renewed instead, nobody would lead the shard; an older term's wish is passed over."""
    store = MemoryStore(lambda: 1_780_920_000_000_000)
    store.make_shards(1)
    told: list[Event] = []
    pulse = PulseThread(
        store,
        Alone(),
        store.register_holder("scheduler", "s", "s"),
        shard_count=1,
        observer=DeathObserver(dead_after_us=5_000_000),
        tell=told.append,
        on_lost_holder=lambda: None,
        on_failure=lambda _error: None,
        period_s=60,
        partition_days_ahead=1,
        history_days=90,
    )
    pulse._round()
    pulse.give_up(0, 1)
    pulse._round()
    pulse.give_up(0, 1)
    pulse._round()

    terms = [event for event in told if not isinstance(event, Pulse)]
    assert [TermBegun, TermEnded, TermBegun, TermsRenewed] == [type(event) for event in terms]
    assert [1, 2] == [event.term for event in terms if isinstance(event, TermBegun)]
    assert 2 == store.read_shards()[0].term


class Silent(MemoryStore):
    """A store that answers while it is `up`."""

    def __init__(self) -> None:
        super().__init__(lambda: 1_780_920_000_000_000)
        self.up = threading.Event()
        self.questions: list[str] = []

    def beat(self, holder_id: int) -> bool:
        self._ask("beat")
        return super().beat(holder_id)

    def end_term(self, shard: int, term: int, holder_id: int) -> bool:
        self._ask("end_term")
        return super().end_term(shard, term, holder_id)

    def leave(self, holder_id: int) -> None:
        self._ask("leave")
        super().leave(holder_id)

    def _ask(self, question: str) -> None:
        self.questions.append(question)
        if not self.up.is_set():
            raise StoreUnavailable("the database cannot be reached")


def pulse_on(store: MemoryStore, told: list[Event], *, shards: int, period_s: float) -> PulseThread:
    store.make_shards(shards)
    return PulseThread(
        store,
        Alone(),
        store.register_holder("scheduler", "s", "s"),
        shard_count=shards,
        observer=DeathObserver(dead_after_us=5_000_000),
        tell=told.append,
        on_lost_holder=lambda: None,
        on_failure=lambda _error: None,
        period_s=period_s,
        partition_days_ahead=1,
        history_days=90,
    )


def test_a_store_that_is_away_at_the_start_is_waited_for() -> None:
    """The rounds go on until one succeeds; what never began can be stopped as well."""
    store, told = Silent(), list[Event]()
    pulse = pulse_on(store, told, shards=1, period_s=0.01)
    pulse.start()
    while store.questions.count("beat") < 3:
        sleep_s(0.001)
    assert told == []
    store.up.set()
    while not any(isinstance(event, TermBegun) for event in told):
        sleep_s(0.001)
    pulse.stop()
    pulse_on(Silent(), [], shards=1, period_s=1).stop()

    assert store.read_shards()[0].leader is None


def test_a_store_that_does_not_answer_at_the_end_is_asked_once() -> None:
    """Each question may take seconds; closing the elector frees the shards anyway."""
    store, told = Silent(), list[Event]()
    store.up.set()
    pulse = pulse_on(store, told, shards=64, period_s=60)
    pulse._round()
    store.up.clear()
    store.questions.clear()
    pulse.stop()

    assert store.questions == ["end_term"]
    assert sum(isinstance(event, TermEnded) for event in told) == 64


class Keys(MemoryStore):
    """A store with old idempotency keys to forget."""

    def __init__(self, old_count: int) -> None:
        super().__init__(lambda: 1_780_920_000_000_000)
        self.old_count = old_count
        self.asked: list[tuple[int, int]] = []
        self.up = True

    def prune_keys(self, *, history_days: int, limit: int) -> int:
        self.asked.append((history_days, limit))
        if not self.up:
            raise StoreUnavailable("a time-out")
        count = min(limit, self.old_count)
        self.old_count -= count
        return count


def test_old_keys_are_forgotten_a_batch_a_round_until_none_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then none is asked for until its time comes again; nor is after a failure."""
    now_us = [0]
    monkeypatch.setattr("mainspring.scheduler.pulse.monotonic_us", lambda: now_us[0])
    store = Keys(2 * PRUNE_ROWS_MAX + 1)
    pulse = pulse_on(store, [], shards=1, period_s=60)
    for _ in range(5):
        pulse._round()
    assert [(90, PRUNE_ROWS_MAX)] * 3 == store.asked

    now_us[0] += PRUNE_PERIOD_US
    store.up = False
    with pytest.raises(StoreUnavailable):
        pulse._round()
    pulse._round()
    assert 4 == len(store.asked)
