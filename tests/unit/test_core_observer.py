"""Deaths that are observed, and by how much leases are put off for what could not be."""

from __future__ import annotations

import pytest

from mainspring.core.observer import EXTENSION_MEMORY_US, Death, DeathObserver
from mainspring.model import HolderId
from mainspring.store.protocol import HolderBeat, HolderReading
from unit.core_stage import EPOCH_US, MS, S

DEAD_AFTER_US = 5 * S


def reading(
    at_us: int, beats: dict[int, int], *, server: int = 1, offset_us: int = EPOCH_US
) -> HolderReading:
    holders = [HolderBeat(HolderId(h), "worker", "w", "w", beat, 0) for h, beat in beats.items()]
    return HolderReading(holders, server, at_us + offset_us)


def observer() -> DeathObserver:
    return DeathObserver(dead_after_us=DEAD_AFTER_US)


def test_a_holder_is_dead_after_the_span_without_a_beat_and_not_before() -> None:
    made = observer()
    deaths = [made.on_reading(at * S, reading(at * S, {1: 7, 2: at})) for at in range(7)]

    assert [[]] * 5 == deaths[:5]
    assert [Death(1, 7)] == deaths[5]
    assert [Death(1, 7)] == deaths[6], "told again until it is gone from the readings"
    assert 0 == made.extension_us(6 * S)


def test_a_beat_begins_the_span_anew() -> None:
    made = observer()
    for at in range(5):
        made.on_reading(at * S, reading(at * S, {1: 7}))

    assert [] == made.on_reading(5 * S, reading(5 * S, {1: 8}))
    assert [] == [
        d for at in range(6, 10) for d in made.on_reading(at * S, reading(at * S, {1: 8}))
    ]
    assert [Death(1, 8)] == made.on_reading(10 * S, reading(10 * S, {1: 8}))


def test_a_holder_that_appears_late_has_a_span_of_its_own() -> None:
    made = observer()
    for at in range(4):
        made.on_reading(at * S, reading(at * S, {}))
    deaths = [made.on_reading(at * S, reading(at * S, {1: 0})) for at in range(4, 10)]

    assert [[]] * 5 + [[Death(1, 0)]] == deaths


@pytest.mark.parametrize("broken_by", ["failure", "gap", "server", "step ahead", "step back"])
def test_whatever_breaks_the_span_begins_it_anew_for_everybody(broken_by: str) -> None:
    made = observer()
    for at in range(5):
        made.on_reading(at * S, reading(at * S, {1: 7}))
    at_us, server, offset_us = 5 * S, 1, EPOCH_US
    match broken_by:
        case "failure":
            made.on_failure(4_500 * MS)
        case "gap":
            at_us = 5_501 * MS
        case "server":
            server = 2
        case "step ahead":
            offset_us += 1_001 * MS
        case _:
            offset_us -= 1_001 * MS

    def read(us: int) -> list[Death]:
        return made.on_reading(us, reading(us, {1: 7}, server=server, offset_us=offset_us))

    assert [] == read(at_us)
    for later in range(1, 5):
        assert [] == read(at_us + later * S)
    assert [Death(1, 7)] == read(at_us + 5 * S)


def test_an_outage_puts_leases_off_by_its_length_and_one_span() -> None:
    """From the last good reading to the next one; it grows while the outage goes on."""
    made = observer()
    made.on_reading(10 * S, reading(10 * S, {1: 7}))
    for at in range(11, 20):
        made.on_failure(at * S)
        assert (at - 10) * S + DEAD_AFTER_US == made.extension_us(at * S)
    made.on_reading(20 * S, reading(20 * S, {1: 7}))

    assert 10 * S + DEAD_AFTER_US == made.extension_us(20 * S)
    assert 10 * S + DEAD_AFTER_US == made.extension_us(300 * S)


def test_single_failures_add_their_own_time_and_not_a_span_each() -> None:
    """A flaky connection must not put the end of a hung run off for minutes."""
    made = observer()
    for at in range(0, 20, 2):
        made.on_reading(at * S, reading(at * S, {1: at}))
        made.on_failure((at + 1) * S)
    made.on_reading(20 * S, reading(20 * S, {1: 20}))

    assert 20 * S + DEAD_AFTER_US == made.extension_us(20 * S)


def test_failures_before_the_first_reading_are_one_outage() -> None:
    made = observer()
    for at in range(1, 9):
        made.on_failure(at * S)

    assert 7 * S + DEAD_AFTER_US == made.extension_us(8 * S)
    assert [] == made.on_reading(9 * S, reading(9 * S, {1: 0}))
    assert 0 == made.extension_us(9 * S), "it knew of no lease that could have lost time"


@pytest.mark.parametrize(("step_us", "lost_us"), [(180 * S, 181 * S), (-180 * S, 1 * S)])
def test_a_step_of_the_database_clock_puts_leases_off_by_what_it_jumped_ahead(
    step_us: int, lost_us: int
) -> None:
    """Leases end by that clock: ahead they would all be over at once, back they last longer."""
    made = observer()
    made.on_reading(10 * S, reading(10 * S, {1: 7}))
    made.on_reading(11 * S, reading(11 * S, {1: 8}, offset_us=EPOCH_US + step_us))

    assert lost_us + DEAD_AFTER_US == made.extension_us(11 * S)
    made.on_reading(12 * S, reading(12 * S, {1: 9}, offset_us=EPOCH_US + step_us))
    assert lost_us + DEAD_AFTER_US == made.extension_us(12 * S), "one step is counted once"


def test_a_break_is_forgotten_when_the_runs_it_hurt_are_over() -> None:
    made = observer()
    made.on_reading(0, reading(0, {}))
    made.on_reading(100 * S, reading(100 * S, {}))

    assert 100 * S + DEAD_AFTER_US == made.extension_us(100 * S + EXTENSION_MEMORY_US)
    assert 0 == made.extension_us(100 * S + EXTENSION_MEMORY_US + 1)
