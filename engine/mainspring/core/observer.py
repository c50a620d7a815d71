"""Death of holders: observed, never read.

A holder is dead when this observer has itself seen no new beat over an unbroken span of its own
monotonic clock, with good readings close together.  A failed reading, a gap, a new server or a
step of the database clock breaks the span: it starts again for everybody, and what it lasted is
added to the extension by which `locked_until` is put off.  Otherwise an outage of the database
longer than the span, during which nobody *could* beat, would kill every run at its end.

Not here: writing it down.  The driver declares a death with the beat that was seen, so a beat in
between wins.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mainspring.store.protocol import HolderReading

EXTENSION_MEMORY_US = 600 * 1_000_000  # runs longer than this are covered by their own slack
STEP_US = 1_000_000  # a database clock this far from the monotonic one has been stepped


@dataclass(slots=True)
class _Seen:
    beat: int
    since_us: int


@dataclass(frozen=True, slots=True)
class Death:
    """A holder to be declared dead, provided its beat is still the one that was seen."""

    holder_id: int
    beat: int


class DeathObserver:
    """Turns readings of beats into deaths."""

    def __init__(self, *, dead_after_us: int, gap_max_us: int = 1_500_000) -> None:
        self._dead_after_us = dead_after_us
        self._gap_max_us = gap_max_us
        self._seen: dict[int, _Seen] = {}
        self._last_good_us: int | None = None
        self._server_started_us: int | None = None
        self._database_minus_monotonic_us = 0
        self._breaks: deque[tuple[int, int]] = deque()

    def on_reading(self, monotonic_us: int, reading: HolderReading) -> list[Death]:
        """Take a good reading, made at `monotonic_us`; returns who is dead now."""
        offset_us = reading.read_us - monotonic_us
        is_broken = self._last_good_us is not None and (
            monotonic_us - self._last_good_us > self._gap_max_us
            or reading.server_started_us != self._server_started_us
            or abs(offset_us - self._database_minus_monotonic_us) > STEP_US
        )
        if is_broken:
            self._break(monotonic_us)
        self._last_good_us = monotonic_us
        self._server_started_us = reading.server_started_us
        self._database_minus_monotonic_us = offset_us
        living: dict[int, _Seen] = {}
        deaths: list[Death] = []
        for holder in reading.holders:
            seen = self._seen.get(holder.holder_id)
            if seen is None or seen.beat != holder.beat:
                seen = _Seen(holder.beat, monotonic_us)
            elif monotonic_us - seen.since_us >= self._dead_after_us:
                deaths.append(Death(holder.holder_id, holder.beat))
            living[holder.holder_id] = seen
        self._seen = living
        return deaths

    def on_failure(self, monotonic_us: int) -> None:
        """Take a reading that failed: nobody's silence counts up to now."""
        self._break(monotonic_us)

    def extension_us(self, monotonic_us: int) -> int:
        """Return by how much `locked_until` is put off now."""
        while self._breaks and self._breaks[0][0] < monotonic_us - EXTENSION_MEMORY_US:
            self._breaks.popleft()
        return sum(length_us for _, length_us in self._breaks)

    def _break(self, monotonic_us: int) -> None:
        started_us = self._last_good_us
        if self._breaks and started_us is not None and self._breaks[-1][0] > started_us:
            # The same outage goes on: lengthen it instead of counting its beginning twice.
            ended_us, length_us = self._breaks.pop()
            self._breaks.append((monotonic_us, length_us + monotonic_us - ended_us))
        else:
            length_us = self._dead_after_us
            length_us += monotonic_us - started_us if started_us is not None else 0
            self._breaks.append((monotonic_us, length_us))
        for seen in self._seen.values():
            seen.since_us = monotonic_us
