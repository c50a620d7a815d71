"""What a core object is told about time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Now:
    """One moment on the monotonic clock, and the interval that database time lies in.

    Releases use `low_us`, which database time has surely reached, so that nothing is early.
    """

    monotonic_us: int
    low_us: int
    high_us: int
