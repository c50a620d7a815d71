"""What a zone's clock reads: spans of constant offset, and what of each is read twice or never.

A *reading* is one segment of a zone with two more numbers.  `read_us` is how far the clock had been
read when the segment began, `until_us` from where on its wall times will be read again:

- wall times of the segment below `read_us` are a second pass, those from `until_us` on a first;
- if `read_us` lies before the segment's first wall time, what is between is a gap.

A day back and a day ahead are far enough: since 1970 no clock was set back by more than seven
hours.

Source: PEP 495 for the words gap and overlap.
"""

from __future__ import annotations

from typing import NamedTuple

from mainspring.cron.zone import Zone
from mainspring.instants import INSTANT_MAX_US, US_PER_DAY

_BEGINNING_US = -365 * US_PER_DAY  # of 1969, where zones begin


class Reading(NamedTuple):
    """Instants from `start_us` up to, not including, `end_us`; the clock reads t + `offset_us`."""

    start_us: int
    end_us: int
    offset_us: int
    read_us: int
    until_us: int

    @property
    def first_wall_us(self) -> int:
        """What the clock reads at the start."""
        return self.start_us + self.offset_us

    @property
    def end_wall_us(self) -> int:
        """What the clock would read at the end."""
        return self.end_us + self.offset_us


def reading_at(zone: Zone, instant_us: int) -> Reading:
    """Give the reading that holds an instant, from 1970 to the end of 9999."""
    segment = zone.segment_at(instant_us)
    first_wall_us = segment.start_us + segment.offset_us
    read_us = first_wall_us
    before = segment
    while before.start_us > max(segment.start_us - US_PER_DAY, _BEGINNING_US):
        before = zone.segment_at(before.start_us - 1)
        end_wall_us = before.end_us + before.offset_us
        if before.end_us == segment.start_us or end_wall_us > read_us:
            read_us = end_wall_us
    until_us = segment.end_us + segment.offset_us
    after = segment
    while after.end_us < min(segment.end_us + US_PER_DAY, INSTANT_MAX_US):
        after = zone.segment_at(after.end_us)
        until_us = min(until_us, after.start_us + after.offset_us)
    return Reading(segment.start_us, segment.end_us, segment.offset_us, read_us, until_us)
