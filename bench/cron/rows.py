"""What is asked: expressions of three kinds in zones, and the instants from which each is asked."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainspring.cron import load_zone
from mainspring.instants import US_PER_DAY, US_PER_S

Int64s = NDArray[np.int64]

FIRST_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * US_PER_S
LAST_US = int(datetime(2036, 1, 1, tzinfo=UTC).timestamp()) * US_PER_S
NEAR_US = 3 * US_PER_DAY // 2


class Row(NamedTuple):
    """One expression in one zone.

    `rival_share` is the part of the instants that croniter and cronsim are asked, since a rare
    occurrence costs them up to some hundred milliseconds.
    """

    expr: str
    tz: str
    kind: str
    rival_share: float = 0.02


ROWS = (
    Row("* * * * *", "UTC", "ordinary"),
    Row("*/15 * * * *", "America/New_York", "ordinary"),
    Row("0 9 * * 1-5", "Europe/Berlin", "ordinary"),
    Row("30 6 1,15 * *", "Asia/Tokyo", "ordinary"),
    Row("0 0 L * *", "Asia/Kolkata", "ordinary"),
    Row("0 0 29 2 *", "UTC", "rare", 0.003),
    Row("0 0 * 2 1#5", "UTC", "rare", 0.001),
    Row("0 12 13 * 5", "America/Sao_Paulo", "ordinary"),
    Row("30 2 * * *", "America/New_York", "dst"),
    Row("*/15 1-3 * * *", "Europe/London", "dst"),
    Row("0 */2 * * *", "Australia/Lord_Howe", "dst"),
    Row("45 1 * * 0", "Australia/Lord_Howe", "dst"),
    Row("0 0 * * *", "America/Santiago", "dst"),
)


def instants_of(row: Row, count: int, seed: int) -> Int64s:
    """Draw `count` distinct full seconds of ten years, in random order; microseconds.

    For a `dst` row half of them lie within a day and a half of a change of the zone's offset.
    """
    rng = random.Random(f"{seed} {row.expr} {row.tz}")
    changes_us = _changes_us(row.tz) if row.kind == "dst" else []
    found: set[int] = set()
    while len(found) < count:
        if changes_us and len(found) % 2:
            at_us = rng.choice(changes_us) + rng.randint(-NEAR_US, NEAR_US)
        else:
            at_us = rng.randrange(FIRST_US, LAST_US)
        found.add(at_us // US_PER_S * US_PER_S)
    ordered = sorted(found)
    rng.shuffle(ordered)
    return np.array(ordered, np.int64)


def _changes_us(zone_name: str) -> list[int]:
    zone = load_zone(zone_name)
    found = []
    segment = zone.segment_at(FIRST_US)
    while segment.end_us < LAST_US:
        following = zone.segment_at(segment.end_us)
        if following.offset_us != segment.offset_us:
            found.append(following.start_us)
        segment = following
    return found
