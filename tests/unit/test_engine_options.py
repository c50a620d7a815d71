"""What an engine is made with, and how it is entered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import Engine, SyncEngine
from mainspring.config import WorkerSettings
from mainspring.engine.options import plan_of
from mainspring.errors import InvalidInput

DSN = "postgresql://nobody@127.0.0.1:1/nowhere"


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"concurrency": 1, "worker": WorkerSettings(concurrency=3)}, "/concurrency"),
        ({"queues": ["a"], "worker": WorkerSettings(queues=("b",))}, "/queues"),
    ],
)
def test_two_values_for_one_setting_are_refused(options: Any, pointer: str) -> None:
    """Nobody can know which was meant."""
    with pytest.raises(InvalidInput, match="in worker=WorkerSettings") as refused:
        Engine(DSN, **options)

    assert refused.value.pointer == pointer


def test_an_option_beside_other_settings_wins_over_their_default() -> None:
    """As does the same value twice."""
    plan = plan_of(DSN, concurrency=1, queues=["a"], worker=WorkerSettings(drain_seconds=5))
    twice = plan_of(DSN, queues=["a"], worker=WorkerSettings(queues=("a",), concurrency=7))

    assert (plan.worker.concurrency, plan.worker.queues, plan.worker.drain_seconds) == (
        1,
        ("a",),
        5,
    )
    assert (twice.worker.concurrency, twice.worker.queues) == (7, ("a",))


def test_an_engine_that_is_entered_the_wrong_way_names_the_other() -> None:
    """Instead of a missing attribute."""
    engine: Any = Engine(DSN)
    sync: Any = SyncEngine(DSN)

    async def enter() -> None:
        async with sync:
            pass

    with pytest.raises(TypeError, match=r"`async with engine:`; .* make a SyncEngine"):
        engine.__enter__()
    with pytest.raises(TypeError, match=r"`async with engine:`"), engine:
        pass
    with pytest.raises(TypeError, match=r"`with engine:`; .* make an Engine"):
        asyncio.run(enter())
