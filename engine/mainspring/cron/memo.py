"""Next occurrences by text, remembered.

A job's schedule is stored as text and read at every reschedule.  Most jobs of a system share a few
hundred expressions and the same few occurrences (half of all jobs fire at :00), so a small memo
answers nearly all of a batch.
"""

from __future__ import annotations

from typing import Final, Generic, TypeAlias, TypeVar

from mainspring.cron.occurrence import next_occurrence_us, next_of_period_us
from mainspring.cron.schedule import Schedule, ScheduleKind, parse_schedule
from mainspring.cron.spread import spread
from mainspring.instants import INFINITY_US
from mainspring.model import DstGap, DstOverlap

ANSWERS_MAX: Final = 65_536
"""About 12 MB with the keys; a burst at :00 asks for a few thousand distinct ones."""

SCHEDULES_MAX: Final = 8_192

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Meaning: TypeAlias = tuple[str, str, str, str]
"""Text, zone, what a gap does, what an overlap does."""


class Generations(Generic[_Key, _Value]):
    """A mapping of at most `entries_max` entries that forgets what was not asked for lately.

    Two dictionaries: when the young one is half of `entries_max` it becomes the old one, and the
    old one is dropped; an entry found in the old one moves to the young one.  Cheaper per hit than
    an exact LRU, and every step is one dictionary operation: threads may race and then compute an
    entry twice, but never read a wrong one.
    """

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, entries_max: int) -> None:
        assert entries_max >= 2, entries_max
        self._half = entries_max // 2
        self._young: dict[_Key, _Value] = {}
        self._old: dict[_Key, _Value] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, key: _Key) -> _Value | None:
        """Give the value, or None."""
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Remember a value, which is not None."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = value


class OccurrenceMemo:
    """Next occurrence by (text, zone, DST options, instant); safe to share between threads."""

    __slots__ = ("_answers", "_schedules")

    def __init__(self, answers_max: int = ANSWERS_MAX, schedules_max: int = SCHEDULES_MAX) -> None:
        self._answers: Generations[tuple[_Meaning, int], int] = Generations(answers_max)
        self._schedules: Generations[_Meaning, Schedule] = Generations(schedules_max)

    def next_us(
        self,
        text: str,
        zone_name: str,
        anchor_us: int,
        after_us: int,
        job_id: int = 0,
        dst_gap: str = DstGap.NEXT_VALID,
        dst_overlap: str = DstOverlap.FIRST,
    ) -> int:
        """Give the first occurrence strictly later than `after_us`, or INFINITY_US for none.

        Parameters
        ----------
        text, zone_name
            Of a registered job.
        anchor_us
            The job's instant of registration; counts for `@every` alone.
        after_us
            Usually the occurrence that has just ended.
        job_id
            Counts for an `H` alone.
        dst_gap, dst_overlap
            The job's, as enumerations or their texts.

        Raises
        ------
        InvalidSchedule
            The text or zone cannot be read any more, for instance because a later release of
            tzdata has dropped the name.
        """
        text = spread(text, job_id)
        meaning = (text, zone_name, dst_gap, dst_overlap)
        answer_us = self._answers.get((meaning, after_us))
        if answer_us is not None:
            return answer_us
        schedule = self._schedules.get(meaning)
        if schedule is None:
            schedule = parse_schedule(
                text,
                zone_name,
                anchor_us=0,
                dst_gap=DstGap(dst_gap),
                dst_overlap=DstOverlap(dst_overlap),
            )
            self._schedules.put(meaning, schedule)
        if schedule.kind is ScheduleKind.EVERY:
            # Depends on the job's own anchor, and is arithmetic: not worth an entry.
            next_us = next_of_period_us(anchor_us, schedule.period_us, after_us)
        else:
            next_us = next_occurrence_us(schedule, after_us)
        answer_us = INFINITY_US if next_us is None else next_us
        if schedule.kind is ScheduleKind.CRON:
            self._answers.put((meaning, after_us), answer_us)
        return answer_us
