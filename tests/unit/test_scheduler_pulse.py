"""The pulse of a scheduler on a memory store: terms begun, renewed, given up."""

from __future__ import annotations

from mainspring.core.observer import DeathObserver
from mainspring.scheduler.events import Event, Pulse, TermBegun, TermEnded, TermsRenewed
from mainspring.scheduler.pulse import PulseThread
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
