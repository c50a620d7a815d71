"""The pytest fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mainspring.testing.driven import DrivenEngine


@pytest.fixture
def driven_engine() -> Iterator[Callable[..., DrivenEngine]]:
    """Make driven engines, with the arguments of `DrivenEngine`; they are closed at the end."""
    with ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(DrivenEngine(*given, **named))
