"""A cron expression in a zone, ready to be asked, and many of them asked at once.

`Cron.next_us` and `next_batch` are answered by the compiled `_cron`; `MAINSPRING_PURE=1` chooses
the twin `walk` instead.  Both answer alike on every input.  The compiled one keeps each zone's
segments by year and says which year it lacks; that year is then read from the zone and the rest
is asked again.

Not here: `@every` and one-offs, which are arithmetic (`occurrence`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mainspring.cron import walk
from mainspring.cron.fields import CronFields
from mainspring.cron.walk import Passes
from mainspring.cron.zone import Zone
from mainspring.instants import INFINITY_US

IS_PURE: Final = os.environ.get("MAINSPRING_PURE") == "1"
if not IS_PURE:
    try:
        from mainspring import _cron
    except ImportError as error:
        raise ImportError(
            "mainspring._cron is not compiled; run `make ext`, or set MAINSPRING_PURE=1"
        ) from error

ANSWERS_MAX: Final = 65_536
"""1.5 MB; a burst at :00 asks for a few thousand distinct ones."""

Int64s = NDArray[np.int64]


class Cron:
    """One expression in one zone.

    Parameters
    ----------
    fields
        Its bit sets.
    zone
        Where its wall clock hangs.
    passes
        Which readings of a wall time fire.
    """

    __slots__ = ("_compiled", "fields", "passes", "zone")

    def __init__(self, fields: CronFields, zone: Zone, passes: Passes) -> None:
        self.fields = fields
        self.zone = zone
        self.passes = passes
        self._compiled: Any = None

    def next_us(self, after_us: int) -> int | None:
        """Give the first occurrence strictly later than `after_us`; None at the end of 9999."""
        if IS_PURE:
            return walk.next_us(self.fields, self.zone, self.passes, after_us)
        compiled = self.compiled
        while True:
            answer_us, missing_year = _cron.next_one(compiled, after_us)
            if not missing_year:
                return None if answer_us == INFINITY_US else answer_us
            _add_year(self.zone, missing_year)

    def latest_us(self, at_us: int) -> int | None:
        """Give the last occurrence at or before `at_us`; None before 1970."""
        return walk.latest_us(self.fields, self.zone, self.passes, at_us)

    def count(self, after_us: int, until_us: int) -> int:
        """Count the occurrences in (after_us, until_us]."""
        return walk.count(self.fields, self.zone, self.passes, after_us, until_us)

    @property
    def compiled(self) -> Any:
        """The `_cron.CronSpec` of it; made when first asked for."""
        if self._compiled is None:
            fields, extras = self.fields, self.fields.extras
            self._compiled = _cron.CronSpec(
                _table_of(self.zone),
                minutes=fields.minutes,
                hours=fields.hours,
                days=fields.days,
                months=fields.months,
                weekdays=fields.weekdays,
                near_days=extras.near_days,
                nth_weekdays=extras.nth_weekdays,
                last_weekdays=extras.last_weekdays,
                is_last_day=extras.is_last_day,
                is_last_workday=extras.is_last_workday,
                is_either_day=fields.is_either_day,
                skips_gap=self.passes.skips_gap,
                takes_first=self.passes.takes_first,
                takes_second=self.passes.takes_second,
            )
        return self._compiled


class Answers:
    """Answers remembered between batches: a bound, and no Python object for any of them.

    A question is an expression in its zone, as a `Cron`, and an instant.  What a batch asks for
    again costs some 20 ns then.  May be shared between threads: one batch at a time uses it, and
    another meanwhile computes.  The twin in Python remembers nothing, which changes no answer.

    Parameters
    ----------
    answers_max
        2 to 2**30, rounded down to a power of two; 24 bytes each, taken at once.
    """

    __slots__ = ("compiled",)

    def __init__(self, answers_max: int = ANSWERS_MAX) -> None:
        self.compiled: Any = None if IS_PURE else _cron.Answers(answers_max)

    def __len__(self) -> int:
        return 0 if IS_PURE else len(self.compiled)

    def clear(self) -> None:
        """Forget everything, for instance to measure."""
        if not IS_PURE:
            self.compiled.clear()


def next_batch(
    crons: Sequence[Cron],
    handles: NDArray[np.int32],
    after_us: Int64s,
    answers: Answers | None = None,
) -> Int64s:
    """Answer many questions at once, without a Python object for each.

    Parameters
    ----------
    crons
        Distinct expressions.
    handles
        Of each question, the place in `crons`; int32, shape (n,).
    after_us
        Of each question, the instant; int64, shape (n,).
    answers
        In and out.  Looked at before anything is computed.

    Returns
    -------
    int64, shape (n,)
        The first occurrence strictly later than `after_us`, INFINITY_US for none.
    """
    next_us = np.empty(len(after_us), np.int64)
    if IS_PURE:
        for i, (handle, instant_us) in enumerate(
            zip(handles.tolist(), after_us.tolist(), strict=True)
        ):
            answer_us = crons[handle].next_us(instant_us)
            next_us[i] = INFINITY_US if answer_us is None else answer_us
        return next_us
    compiled = [cron.compiled for cron in crons]
    memo = None if answers is None else answers.compiled
    done = 0
    while True:
        done, missing_year = _cron.next_batch(compiled, handles, after_us, next_us, done, memo)
        if not missing_year:
            return next_us
        _add_year(crons[int(handles[done])].zone, missing_year)


def _table_of(zone: Zone) -> Any:
    if zone.table is None:
        zone.table = _cron.ZoneTable()
    return zone.table


def _add_year(zone: Zone, year: int) -> None:
    """Give the compiled kernel a year that it lacks."""
    zone.table.put_year(year, zone.segments_of_year(year))
