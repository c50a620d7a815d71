"""The nights on which clocks change, as mainspring and three libraries schedule them.

`python -m bench.cron.dst_table` runs them all and writes the table of docs/time.md between its two
markers.  Each cell says what fires on that day by New York's clock; each library is asked for one
occurrence after the other with its default options, as a scheduler would ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import click
from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]
from croniter import croniter
from cronsim import CronSim

from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.instants import US_PER_S

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "time.md"
BEGIN = "<!-- begin of the table; python -m bench.cron.dst_table writes it -->"
END = "<!-- end of the table -->"

ZONE_NAME = "America/New_York"
ZONE = ZoneInfo(ZONE_NAME)
FIRINGS_MAX = 100
SHOWN_MAX = 4

Firings = Callable[[str, datetime], Iterator[datetime]]


class Case(NamedTuple):
    """An expression on one day; `says` what that means."""

    expr: str
    year: int
    month: int
    day: int
    says: str


CASES = (
    Case("30 2 * * *", 2026, 3, 8, "a time that the gap leaves out"),
    Case("0 2 * * *", 2026, 3, 8, "the first minute of the gap"),
    Case("*/30 2 * * *", 2026, 3, 8, "several times in one gap"),
    Case("30 1 * * *", 2026, 11, 1, "a time that comes twice"),
    Case("0 * * * *", 2026, 11, 1, "every hour of a day of 25 hours"),
)


def _mainspring(expr: str, after: datetime) -> Iterator[datetime]:
    schedule = parse_schedule(expr, ZONE_NAME, anchor_us=0)
    after_us = int(after.timestamp()) * US_PER_S
    while (next_us := next_occurrence_us(schedule, after_us)) is not None:
        after_us = next_us
        yield datetime.fromtimestamp(next_us / US_PER_S, ZONE)


def _croniter(expr: str, after: datetime) -> Iterator[datetime]:
    iterator = croniter(expr, after)
    while True:
        yield iterator.get_next(datetime)


def _cronsim(expr: str, after: datetime) -> Iterator[datetime]:
    return CronSim(expr, after)


def _apscheduler(expr: str, after: datetime) -> Iterator[datetime]:
    trigger = CronTrigger.from_crontab(expr, timezone=ZONE)
    previous, now = None, after
    while (found := trigger.get_next_fire_time(previous, now)) is not None:
        yield found
        previous = now = found


LIBRARIES: dict[str, Firings] = {
    "mainspring": _mainspring,
    f"croniter {version('croniter')}": _croniter,
    f"cronsim {version('cronsim')}": _cronsim,
    f"APScheduler {version('apscheduler')}": _apscheduler,
}


def firings_on(case: Case, firings: Firings) -> list[datetime]:
    """Return what fires on the day of a case, by the local date.

    What counts is the instant: a time that the clock does not show is one that it does.
    """
    midnight = datetime(case.year, case.month, case.day, tzinfo=ZONE)
    found: list[datetime] = []
    for answer in firings(case.expr, midnight - timedelta(seconds=1)):
        at = datetime.fromtimestamp(answer.timestamp(), ZONE)
        if at.date() > midnight.date() or len(found) == FIRINGS_MAX:
            return found
        found.append(at)
    return found


def cell(found: list[datetime]) -> str:
    """Say in a few words what fired."""
    if not found:
        return "nothing"
    if len(found) > SHOWN_MAX:
        gaps = {(b.timestamp() - a.timestamp()) / 3600 for a, b in pairwise(found)}
        return f"{len(found)} times" + (", each hour" if gaps == {1.0} else "")
    return ", ".join(f"{at:%H:%M} {at.tzname()}" for at in found)


def table() -> str:
    """Ask everybody and return the table."""
    lines = ["| | " + " | ".join(LIBRARIES) + " |", "|---" * (len(LIBRARIES) + 1) + "|"]
    for case in CASES:
        cells = [cell(firings_on(case, firings)) for firings in LIBRARIES.values()]
        date = f"{datetime(case.year, case.month, case.day, tzinfo=ZONE):%-d %B %Y}"
        expr = case.expr.replace("*", "\\*")
        lines.append(f"| {expr} on {date}: {case.says} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def written(document: str) -> str:
    """Return the document with the table between its markers."""
    head, _, rest = document.partition(BEGIN)
    _, marker, tail = rest.partition(END)
    if not marker:
        raise ValueError("the document lacks the markers of the table")
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}"


def main() -> None:
    """Write the table into the document and print it."""
    DOCUMENT.write_text(written(DOCUMENT.read_text("utf-8")), "utf-8")
    click.echo(table())


if __name__ == "__main__":
    main()
