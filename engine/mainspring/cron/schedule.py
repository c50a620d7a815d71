"""A schedule as a value: its text read once, in the zone of its job.

Three kinds share one text field of a job, told apart by how the text begins: `@every`, an instant
(`2026-06-08T09:00`), and otherwise a cron expression or an alias of one.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mainspring.cron.every import parse_period
from mainspring.cron.fields import expand_fields
from mainspring.cron.grammar import ALIASES, Field, check_text, parse_fields
from mainspring.cron.kernel import Cron
from mainspring.cron.refusals import POINTER, refusal, shown
from mainspring.cron.walk import passes_of
from mainspring.cron.zone import Zone, load_zone
from mainspring.errors import InvalidInput, InvalidSchedule
from mainspring.instants import INSTANT_MAX_US, US_PER_DAY, check_range, parse_wall
from mainspring.model import DstGap, DstOverlap

_WORD: Final = re.compile(r"[^ \t]+")
_INSTANT_LIKE: Final = re.compile(r"[0-9]{4,}-[0-9]{2}-|[0-9]{4}-W|[0-9]{8}[Tt]")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DURATION_LIKE: Final = re.compile(r"P[T0-9][^ \t]*|[0-9]+[a-z][^ \t]*|every\b.*", re.IGNORECASE)


class ScheduleKind(enum.StrEnum):
    """How occurrences come about."""

    CRON = "cron"
    """Wall clock times in a zone."""
    EVERY = "every"
    """Anchor plus n periods of real time, n from 1."""
    ONCE = "once"
    """One instant."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A checked schedule; made by `parse_schedule`, evaluated by `occurrence`.

    Attributes
    ----------
    kind
        Which of the fields below it are meant.
    text, zone_name
        As given at registration.
    zone
        The zone's clock.
    cron
        CRON: the expression in its zone.
    anchor_us, period_us
        EVERY: occurrences are `anchor_us + n * period_us`, n >= 1.
    at_us
        ONCE: the instant.
    """

    kind: ScheduleKind
    text: str
    zone_name: str
    zone: Zone = field(repr=False, compare=False)
    cron: Cron | None = field(default=None, repr=False, compare=False)
    anchor_us: int = 0
    period_us: int = 0
    at_us: int = 0
    dst_gap: DstGap = DstGap.NEXT_VALID
    dst_overlap: DstOverlap = DstOverlap.FIRST

    def anchored(self, anchor_us: int) -> Schedule:
        """Give the same schedule, with `@every` counting from another instant."""
        return replace(self, anchor_us=anchor_us) if self.kind is ScheduleKind.EVERY else self


def parse_schedule(
    text: str,
    zone_name: str,
    *,
    anchor_us: int,
    job_id: int = 0,
    dst_gap: DstGap = DstGap.NEXT_VALID,
    dst_overlap: DstOverlap = DstOverlap.FIRST,
) -> Schedule:
    """Read a schedule in a zone.

    Parameters
    ----------
    text
        Five cron fields, `@daily` and its kin, `@every` with a duration, or an ISO 8601 instant;
        without an offset the instant is local time of the zone: in a gap it is the first instant
        after it, in an overlap the first pass.
    zone_name
        An IANA name.
    anchor_us
        Instant of registration, from which `@every` counts.
    job_id
        Chooses what each `H` stands for.
    dst_gap, dst_overlap
        What fires for fixed times that a gap leaves out, or that an overlap has twice.

    Raises
    ------
    InvalidSchedule
        Text or zone cannot be read, or nothing would ever fire.  `pointer` is `/schedule` or
        `/timezone`.  The cost of a refusal does not grow with the text beyond 256 characters.
    """
    assert 0 <= anchor_us <= INSTANT_MAX_US, anchor_us
    zone = load_zone(zone_name)
    stripped = check_text(text)
    words = list(_WORD.finditer(stripped))
    body, column = stripped[words[0].start() :], words[0].start() + 1
    if body.startswith("@"):
        if words[0][0].lower() == "@every":
            period_us = _every_period(stripped, words)
            return Schedule(ScheduleKind.EVERY, text, zone_name, zone, None, anchor_us, period_us)
        fields = parse_fields(_aliased(stripped, words))
        return _cron(text, zone_name, zone, fields, stripped, dst_gap, dst_overlap)
    if _INSTANT_LIKE.match(body):
        return Schedule(ScheduleKind.ONCE, text, zone_name, zone, at_us=_read_once(body, zone))
    if _DURATION_LIKE.fullmatch(body):
        raise refusal(
            "bad period",
            stripped,
            column,
            "a period without @every",
            "Write @every and a duration, as in @every 10s.",
        )
    fields = parse_fields(stripped, job_id)
    return _cron(text, zone_name, zone, fields, stripped, dst_gap, dst_overlap)


def _cron(
    text: str,
    zone_name: str,
    zone: Zone,
    parsed: Sequence[Field],
    shown_text: str,
    dst_gap: DstGap,
    dst_overlap: DstOverlap,
) -> Schedule:
    fields = expand_fields(parsed, shown_text)
    return Schedule(
        ScheduleKind.CRON,
        text,
        zone_name,
        zone,
        Cron(fields, zone, passes_of(fields, dst_gap, dst_overlap)),
        dst_gap=dst_gap,
        dst_overlap=dst_overlap,
    )


def first_instant_reading(zone: Zone, wall_us: int) -> int | None:
    """Give the first instant at which the zone's clock reads `wall_us` or later.

    This one rule is how fixed wall times become instants.  An ordinary time is read once.  A time
    in a gap is never read, and the clock passes it at the gap's end, which is the first valid
    instant after it.  A time in an overlap is read twice, and this is the first pass.  Later wall
    times never give earlier instants.

    Parameters
    ----------
    wall_us
        Microseconds since 1970-01-01T00:00 on the wall clock, from 1969-12-31 on.

    Returns
    -------
    int or None
        Microseconds since the epoch; None after the year 9999.
    """
    # No clock is a whole day ahead of UTC, so it cannot have read `wall_us` before this.
    probe_us = wall_us - US_PER_DAY
    while probe_us <= INSTANT_MAX_US:
        segment = zone.segment_at(probe_us)
        instant_us = max(segment.start_us, wall_us - segment.offset_us)
        if instant_us < segment.end_us:
            return instant_us
        probe_us = segment.end_us
    return None


def _every_period(text: str, words: list[re.Match[str]]) -> int:
    if len(words) != 2:
        column = words[2].start() + 1 if len(words) > 2 else len(text) + 1
        raise refusal(
            "bad period",
            text,
            column,
            f"@every takes one duration, found {len(words) - 1}",
            "Write the duration without blanks, as in @every 1h30m.",
        )
    return parse_period(words[1][0], text, words[1].start() + 1)


def _aliased(text: str, words: list[re.Match[str]]) -> str:
    """Give the expression an alias stands for."""
    alias, column = words[0][0].lower(), words[0].start() + 1
    expression = ALIASES.get(alias)
    known = f"{', '.join(ALIASES)} and @every"
    if expression is None:
        if alias == "@reboot":
            hint = "A cluster has no boot to wait for; register a one-off instant instead."
        else:
            near = difflib.get_close_matches(alias[:16], [*ALIASES, "@every"], n=1)
            hint = f"{f'Did you mean {near[0]}?  ' if near else ''}Known are {known}."
        raise refusal("bad alias", text, column, f"{shown(words[0][0])} is not known", hint)
    if len(words) > 1:
        raise refusal(
            "bad alias",
            text,
            words[1].start() + 1,
            f"text after {alias}",
            "Write the alias alone; the zone has a field of its own.",
        )
    return expression


def _read_once(body: str, zone: Zone) -> int:
    """Read a one-off instant, as local time of the zone where it names no offset."""
    try:
        wall_us, offset_us = parse_wall(body)
        if offset_us is None:
            check_range(max(wall_us, 0), body)
            found_us = first_instant_reading(zone, wall_us) if wall_us > -US_PER_DAY else -1
            instant_us = INSTANT_MAX_US + 1 if found_us is None else found_us
        else:
            instant_us = wall_us - offset_us
        check_range(instant_us, body)
        # Its local date is rendered into keys; datetime knows no year 10000.
        check_range(max(0, instant_us + zone.segment_at(instant_us).offset_us), body)
    except InvalidInput as error:
        hint = error.hint
        if _DATE.fullmatch(body):
            hint = f"Add a time of day, as in {shown(body[:10] + 'T09:00')}."
        raise InvalidSchedule(error.message, pointer=POINTER, hint=hint) from None
    return instant_us
