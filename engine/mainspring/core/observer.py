"""Death of holders: observed, never read.

A holder is dead when this observer has itself seen no new beat over an unbroken span of its own
monotonic clock, with good readings close together.  A failed reading, a gap, a new server or a
step of the database clock breaks the span: it starts again for everybody.

The *extension* puts `locked_until` off by the time during which nobody could beat or complete, by
what the database clock jumped ahead, and by one more span to make good for it.  Otherwise an outage
or a step would end every run that goes on over it.

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


@dataclass(slots=True)
class _Break:
    """A time in which silence meant nothing; `lost_us` is what leases lost by it."""

    ended_us: int
    lost_us: int


class DeathObserver:
    """Turns readings of beats into deaths."""

    def __init__(self, *, dead_after_us: int, gap_max_us: int = 1_500_000) -> None:
        self._dead_after_us = dead_after_us
        self._gap_max_us = gap_max_us
        self._seen: dict[int, _Seen] = {}
        self._last_good_us: int | None = None
        self._server_started_us: int | None = None
        self._database_minus_monotonic_us = 0
        self._failing_since_us: int | None = None
        self._breaks: deque[_Break] = deque()

    def on_reading(self, monotonic_us: int, reading: HolderReading) -> list[Death]:
        """Take a good reading, made at `monotonic_us`; returns who is dead now."""
        step_us = self._measure_step(monotonic_us, reading)
        if self._last_good_us is not None and (
            self._failing_since_us is not None
            or monotonic_us - self._last_good_us > self._gap_max_us
            or reading.server_started_us != self._server_started_us
            or step_us
        ):
            unseen_us = monotonic_us - self._last_good_us
            self._breaks.append(_Break(monotonic_us, unseen_us + max(0, step_us)))
            self._forget_silence(monotonic_us)
        self._failing_since_us = None
        self._last_good_us = monotonic_us
        self._server_started_us = reading.server_started_us
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
        if self._failing_since_us is None:
            before_us = self._last_good_us
            self._failing_since_us = monotonic_us if before_us is None else before_us
        self._forget_silence(monotonic_us)

    def extension_us(self, monotonic_us: int) -> int:
        """Return by how much `locked_until` is put off now."""
        while self._breaks and self._breaks[0].ended_us < monotonic_us - EXTENSION_MEMORY_US:
            self._breaks.popleft()
        lost_us = sum(each.lost_us for each in self._breaks)
        if self._failing_since_us is not None:
            lost_us += monotonic_us - self._failing_since_us
        elif not self._breaks:
            return 0
        return lost_us + self._dead_after_us

    def _measure_step(self, monotonic_us: int, reading: HolderReading) -> int:
        """Return by how much the database clock jumped since the last reading, 0 for a drift."""
        offset_us = reading.read_us - monotonic_us
        step_us = offset_us - self._database_minus_monotonic_us
        self._database_minus_monotonic_us = offset_us
        if self._last_good_us is None or abs(step_us) <= STEP_US:
            return 0
        return step_us

    def _forget_silence(self, monotonic_us: int) -> None:
        for seen in self._seen.values():
            seen.since_us = monotonic_us
