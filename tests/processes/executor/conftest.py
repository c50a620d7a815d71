"""An executor for each test, checked at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from processes.executor.field import (
    Ran,
    begun,
    release,
    until,
)


@pytest.fixture
def ran() -> Iterator[Ran]:
    made = Ran(children_max=1)
    release.clear()
    yield made
    release.set()
    made.executor.stop(5)
    keys = [key for key, _ in made.ends]
    assert sorted(keys) == list(range(1, made._key + 1)), "each run ends exactly once"
    until(lambda: made.executor.stuck_count == 0)
    while begun.acquire(blocking=False):
        pass
