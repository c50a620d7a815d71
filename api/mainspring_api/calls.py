"""Runs blocking calls in a bounded number of threads, never on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")


class BoundedCalls:
    """At most `calls_max` calls at a time; further ones wait, in order.

    A call that has begun is never abandoned, also not when its request is: what it writes would
    otherwise be unknown.
    """

    def __init__(self, calls_max: int) -> None:
        self._limiter = CapacityLimiter(calls_max)

    async def run(
        self,
        function: Callable[_Arguments, _Answer],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Answer:
        """Return what `function` returns, or raise what it raises."""
        return await anyio.to_thread.run_sync(
            lambda: function(*args, **kwargs), limiter=self._limiter
        )
