"""Facts about shards and terms, for every store."""

from __future__ import annotations

import pytest

from conformance.stage import START_US, Stage
from mainspring.errors import Conflict, NotFound
from mainspring.instants import US_PER_S
from mainspring.store.protocol import ShardState, Store


def test_shards_are_made_once(bare_store: Store) -> None:
    """Making the same number again does nothing, another number is refused."""
    assert bare_store.count_shards() == 0
    assert bare_store.read_shards() == []
    bare_store.make_shards(3)
    bare_store.make_shards(3)
    for count in (2, 4):
        with pytest.raises(Conflict):
            bare_store.make_shards(count)
    assert bare_store.count_shards() == 3
    assert bare_store.read_shards() == [ShardState(each, 0, None, None) for each in range(3)]


def test_a_term_is_one_higher_than_the_last(stage: Stage) -> None:
    """Whoever takes it."""
    first = stage.term
    assert stage.store.take_term(0, stage.worker) == first + 1
    assert stage.store.take_term(0, stage.worker) == first + 2
    assert stage.store.read_shards() == [ShardState(0, first + 2, stage.worker, START_US)]


def test_an_unknown_shard_has_no_terms(stage: Stage) -> None:
    """NotFound."""
    with pytest.raises(NotFound):
        stage.store.take_term(1, stage.leader)


def test_a_standing_term_is_renewed(stage: Stage) -> None:
    """renewed_us is the database's now."""
    stage.clock.pass_s(1)
    assert stage.store.renew_terms(stage.leader, {0: stage.term}) == {0}
    assert stage.store.read_shards() == [
        ShardState(0, stage.term, stage.leader, START_US + US_PER_S)
    ]


def test_a_lost_term_is_not_renewed(stage: Stage) -> None:
    """Another term, another holder, an unknown shard, or none at all."""
    stage.clock.pass_s(1)
    assert stage.store.renew_terms(stage.leader, {0: stage.term + 1, 7: 1}) == set()
    assert stage.store.renew_terms(stage.worker, {0: stage.term}) == set()
    assert stage.store.renew_terms(stage.leader, {}) == set()
    assert stage.store.read_shards()[0].renewed_us == START_US


def test_an_ended_term_has_no_leader_and_keeps_its_number(stage: Stage) -> None:
    """The next one is higher all the same."""
    assert stage.store.end_term(0, stage.term, stage.worker) is False
    assert stage.store.end_term(0, stage.term + 1, stage.leader) is False
    assert stage.store.end_term(9, stage.term, stage.leader) is False
    assert stage.store.end_term(0, stage.term, stage.leader) is True
    assert stage.store.end_term(0, stage.term, stage.leader) is False
    assert stage.store.renew_terms(stage.leader, {0: stage.term}) == set()
    assert stage.store.read_shards() == [ShardState(0, stage.term, None, START_US)]
    assert stage.store.take_term(0, stage.leader) == stage.term + 1
