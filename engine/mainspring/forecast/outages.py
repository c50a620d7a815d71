"""When nothing is served."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Outages:
    """Spans `from_us <= t < to_us` in which nothing is served, in any order, overlapping or not.

    Those that overlap or touch are one.  Instants are microseconds since the epoch.
    """

    __slots__ = ("_ends_us", "_starts_us")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._starts_us: list[int] = []
        self._ends_us: list[int] = []
        for from_us, to_us in sorted(spans):
            assert from_us < to_us, (from_us, to_us)
            if self._ends_us and from_us <= self._ends_us[-1]:
                self._ends_us[-1] = max(self._ends_us[-1], to_us)
            else:
                self._starts_us.append(from_us)
                self._ends_us.append(to_us)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the spans, in order and apart from each other."""
        yield from zip(self._starts_us, self._ends_us, strict=True)

    def served_us(self, instant_us: int) -> int:
        """Return when what is due at an instant is served: then, or when its outage ends."""
        place = bisect_right(self._starts_us, instant_us) - 1
        return max(instant_us, self._ends_us[place]) if place >= 0 else instant_us

    def begun_us(self, instant_us: int) -> int:
        """Return from where one must look to know what is served from an instant on.

        That is the start of an outage which goes on at the instant, or ends at it.
        """
        place = bisect_right(self._starts_us, instant_us) - 1
        is_within = place >= 0 and instant_us <= self._ends_us[place]
        return self._starts_us[place] if is_within else instant_us
