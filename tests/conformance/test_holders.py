"""Facts about holders and their heartbeats, for every store."""

from __future__ import annotations

from conformance.stage import START_US, Stage
from mainspring.instants import US_PER_S
from mainspring.store.protocol import HolderBeat


def test_holders_are_read_in_id_order(stage: Stage) -> None:
    """With kind, address, name, beat and start; and the clock of the same read."""
    stage.clock.pass_s(1)
    third = stage.store.register_holder("worker", "tcp://10.0.0.1:7000", "box:77")
    reading = stage.store.read_holders()
    assert [each.holder_id for each in reading.holders] == [stage.leader, stage.worker, third]
    assert reading.holders[2] == HolderBeat(
        third, "worker", "tcp://10.0.0.1:7000", "box:77", 0, START_US + US_PER_S
    )
    assert reading.read_us == START_US + US_PER_S


def test_the_server_that_answers_is_named(stage: Stage) -> None:
    """The same server gives the same start in every reading."""
    first = stage.store.read_holders().server_started_us
    stage.clock.pass_s(1)
    assert stage.store.read_holders().server_started_us == first


def test_a_beat_counts(stage: Stage) -> None:
    """Each raises the number by one."""
    assert [stage.store.beat(stage.worker) for _ in range(3)] == [True] * 3
    beats = {each.holder_id: each.beat for each in stage.store.read_holders().holders}
    assert beats == {stage.leader: 0, stage.worker: 3}


def test_an_unknown_holder_cannot_beat(stage: Stage) -> None:
    """Nor die, nor leave."""
    assert stage.store.beat(10**9) is False
    assert stage.store.declare_dead(10**9, 0) is False
    assert stage.store.leave(10**9) is False


def test_a_holder_is_declared_dead_by_the_beat_that_was_read(stage: Stage) -> None:
    """A beat in between saves it."""
    stage.store.beat(stage.worker)
    assert stage.store.declare_dead(stage.worker, 0) is False
    assert stage.store.declare_dead(stage.worker, 2) is False
    assert stage.store.declare_dead(stage.worker, 1) is True
    assert [each.holder_id for each in stage.store.read_holders().holders] == [stage.leader]


def test_the_dead_stay_dead(stage: Stage) -> None:
    """They neither beat, nor leave, nor die again."""
    stage.store.declare_dead(stage.worker, 0)
    assert stage.store.beat(stage.worker) is False
    assert stage.store.leave(stage.worker) is False
    assert stage.store.declare_dead(stage.worker, 0) is False


def test_who_left_is_gone(stage: Stage) -> None:
    """They neither beat, nor leave again, nor die."""
    assert stage.store.leave(stage.worker) is True
    assert [each.holder_id for each in stage.store.read_holders().holders] == [stage.leader]
    assert stage.store.beat(stage.worker) is False
    assert stage.store.leave(stage.worker) is False
    assert stage.store.declare_dead(stage.worker, 0) is False


def test_a_new_id_is_drawn_for_every_start(stage: Stage) -> None:
    """Never one that was in use before."""
    stage.store.leave(stage.worker)
    assert stage.store.register_holder("worker", "", "") > stage.worker


def test_the_database_clock_is_read(stage: Stage) -> None:
    """It is the one that all instants come from."""
    assert stage.store.database_us() == START_US
    stage.clock.pass_s(1)
    assert stage.store.database_us() == START_US + US_PER_S
