"""When a job is due: schedules in a zone, their occurrences, and what a late one means.

The contract, which every implementation of this package keeps and its tests check:

1. *A schedule is text and a zone.*  `parse_schedule` reads both once and refuses, with an
   `InvalidSchedule` that names the column and what to write instead, whatever has no meaning, more
   than one, or no occurrence at all.  It never raises anything else for any text, and its cost is
   bounded by the length cap, not by what the text describes.  `@every` counts from the instant of
   registration without drift.  Numbers, names and blanks are ASCII.

2. *An occurrence is an instant.*  `next_occurrence_us(schedule, after)` is strictly later than
   `after` and there is no occurrence between them, so repeated calls climb strictly and skip
   nothing.  It depends on schedule and `after` alone: a cluster that restarts, moves or repeats the
   question gets the same answer, given the same zone data, which is the `tzdata` package's.

3. *Local time is right.*  A fixed-time cron whose wall time falls in a gap fires once, at the first
   valid instant after it, together with all other wall times of that gap, or not at all
   (`dst_gap`); in an overlap it fires in the first pass, in the second, or in both
   (`dst_overlap`).  A cron whose hour field starts with `*` is interval-like: nothing is invented
   after a gap, and both passes of an overlap fire.  A whole day that is missing is a gap.

4. *Days.*  If neither day field starts with `*`, a day matches when either does; else both
   must.

5. *Late is judged, not guessed.*  `judge_missed` looks at one firing, the instant and the grace,
   and says which occurrences were missed and which one run stands for them.

`next_occurrence_us` is the one door to the arithmetic of rules 2 to 4; behind it stand a compiled
kernel and its twin in Python (`kernel`, `walk`).  `OccurrenceMemo` is in front of it for batches.

Nothing here reads a clock.  Not done here: storing, leasing, deciding to pause.

Sources: crontab(5) of Vixie cron; RFC 3339; RFC 8536 and PEP 495 for gaps and overlaps.
"""

from __future__ import annotations

from mainspring.cron.memo import Generations, OccurrenceMemo
from mainspring.cron.missed import ON_TIME, Verdict, judge_missed
from mainspring.cron.occurrence import (
    DueOccurrences,
    count_occurrences,
    due_occurrences,
    latest_occurrence_us,
    next_occurrence_us,
)
from mainspring.cron.schedule import Schedule, ScheduleKind, parse_schedule
from mainspring.cron.spread import is_spread
from mainspring.cron.zone import Zone, is_older_version, load_zone, tzdata_version, zone_names

__all__ = [
    "ON_TIME",
    "DueOccurrences",
    "Generations",
    "OccurrenceMemo",
    "Schedule",
    "ScheduleKind",
    "Verdict",
    "Zone",
    "count_occurrences",
    "due_occurrences",
    "is_older_version",
    "is_spread",
    "judge_missed",
    "latest_occurrence_us",
    "load_zone",
    "next_occurrence_us",
    "parse_schedule",
    "tzdata_version",
    "zone_names",
]
