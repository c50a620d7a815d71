"""One job over a span: what runs when, what is missed, what waits.

Jobs do not hinder each other here, so each is looked at alone.  Where a job is on time, which is
nearly always, whole stretches of its occurrences are taken at once.  Only where an occurrence falls
into an outage, or becomes due before the run ahead of it has ended, is it judged as the scheduler
judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mainspring.cron import ON_TIME, ScheduleKind, Verdict, count_occurrences, judge_missed
from mainspring.forecast.occurrences import Int64s, occurrences_between
from mainspring.forecast.outages import Outages
from mainspring.forecast.plan import PlannedJob
from mainspring.instants import US_PER_S


@dataclass(frozen=True, slots=True, order=True)
class MissedSpan:
    """Occurrences that nothing runs, as recorded at `judged_us`."""

    judged_us: int
    count: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class JobForecast:
    """What a job does over a span.

    Attributes
    ----------
    scheduled_us, starts_us
        Of each firing: its nominal instant and the one at which it starts; int64, shape (n,).  Both
        never fall.
    is_catch_up
        Of each firing: whether it runs a missed occurrence; bool, shape (n,).
    missed
        What is dropped, in order.
    waiting_count
        Occurrences of the span which at its end have neither run nor been judged.
    """

    scheduled_us: Int64s
    starts_us: Int64s
    is_catch_up: NDArray[np.bool_]
    missed: list[MissedSpan]
    waiting_count: int

    @property
    def late_us(self) -> Int64s:
        """Of each firing, how long after its nominal instant it starts; int64, shape (n,)."""
        return self.starts_us - self.scheduled_us


def count_due(job: PlannedJob, outages: Outages, from_us: int, to_us: int) -> int:
    """Count the occurrences that `forecast_job` would look at, without looking at them."""
    begin_us = _begin_us(job, outages, from_us)
    return count_occurrences(job.schedule, begin_us - 1, to_us - 1)


def forecast_job(job: PlannedJob, outages: Outages, from_us: int, to_us: int) -> JobForecast:
    """Say what a job does in `from_us <= t < to_us`.

    Takes memory for all its occurrences in the span; the caller limits them, see `count_due`.
    """
    begin_us = _begin_us(job, outages, from_us)
    if job.schedule.kind is ScheduleKind.ONCE and job.schedule.at_us <= job.registered_us:
        # It was past when it was registered: due at once.
        is_due = outages.begun_us(from_us) <= job.registered_us < to_us
        occurrences_us = np.array([job.schedule.at_us] if is_due else [], np.int64)
    else:
        occurrences_us = occurrences_between(job.schedule, begin_us, to_us)
    walk = _Walk(job, outages, occurrences_us, to_us)
    walk.run()
    return walk.forecast()


def _begin_us(job: PlannedJob, outages: Outages, from_us: int) -> int:
    """Return from where on the occurrences of a job count for a forecast from an instant on."""
    # Strictly later than its registration, as the scheduler's first occurrence.
    return max(job.registered_us + 1, outages.begun_us(from_us))


class _Walk:
    """Goes through the occurrences of one job."""

    def __init__(
        self, job: PlannedJob, outages: Outages, occurrences_us: Int64s, to_us: int
    ) -> None:
        self._job = job
        self._outages = outages
        self._occurrences_us = occurrences_us
        self._to_us = to_us
        self._free_us = job.registered_us
        """When the job is ready for its next occurrence: since its last run ended."""
        self._scheduled: list[Int64s] = []
        self._starts: list[Int64s] = []
        self._catch_ups: list[NDArray[np.bool_]] = []
        self._missed: list[MissedSpan] = []
        self._waiting_count = 0

    def forecast(self) -> JobForecast:
        """Return what was found."""
        none = np.empty(0, np.int64)
        return JobForecast(
            scheduled_us=np.concatenate([none, *self._scheduled]),
            starts_us=np.concatenate([none, *self._starts]),
            is_catch_up=np.concatenate([none.astype(bool), *self._catch_ups]),
            missed=self._missed,
            waiting_count=self._waiting_count,
        )

    def run(self) -> None:
        """Go through all of them."""
        occurrences_us = self._occurrences_us
        is_served, is_clear = self._on_time_marks()
        troubles = np.flatnonzero(~(is_served & is_clear))
        place, count = 0, len(occurrences_us)
        while place < count:
            if is_served[place] and occurrences_us[place] >= self._free_us:
                trouble = int(np.searchsorted(troubles, place, "right"))
                end = int(troubles[trouble]) if trouble < len(troubles) else count
                stretch_us = occurrences_us[place:end]
                self._add(stretch_us, stretch_us, is_catch_up=False)
                place = end
            else:
                place = self._step(place)

    def _on_time_marks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Mark what is in no outage, and what is clear of the run before, were that on time."""
        occurrences_us = self._occurrences_us
        is_served = np.ones(len(occurrences_us), bool)
        for from_us, to_us in self._outages:
            first, last = np.searchsorted(occurrences_us, (from_us, to_us))
            is_served[first:last] = False
        is_clear = np.ones(len(occurrences_us), bool)
        is_clear[1:] = np.diff(occurrences_us) >= self._job.runs_take_us
        return is_served, is_clear

    def _step(self, place: int) -> int:
        """Judge one occurrence that is not served when it is due; returns the place of the next."""
        scheduled_us = int(self._occurrences_us[place])
        now_us = self._outages.served_us(max(scheduled_us, self._free_us))
        if now_us >= self._to_us:
            self._waiting_count = len(self._occurrences_us) - place
            return len(self._occurrences_us)
        verdict = self._judged(scheduled_us, now_us)
        if verdict.is_on_time:
            self._add_at(place, place + 1, now_us, is_catch_up=False)
            return place + 1
        if verdict.dropped_count:
            assert verdict.dropped_first_us is not None
            assert verdict.dropped_last_us is not None
            self._missed.append(
                MissedSpan(
                    now_us,
                    verdict.dropped_count,
                    verdict.dropped_first_us,
                    verdict.dropped_last_us,
                )
            )
        if verdict.run_scheduled_us is None:
            if verdict.next_us is None:
                return len(self._occurrences_us)
            return int(np.searchsorted(self._occurrences_us, verdict.next_us))
        first = int(np.searchsorted(self._occurrences_us, verdict.run_scheduled_us))
        # Runs that take no time leave the instant as it is, and so would the judgements on those
        # that wait: each is its own catch-up, nothing more is dropped.
        more = verdict.waiting_count if self._job.runs_take_us == 0 else 0
        self._add_at(first, first + 1 + more, now_us, is_catch_up=verdict.is_catch_up)
        return first + 1 + more

    def _judged(self, scheduled_us: int, now_us: int) -> Verdict:
        job, definition = self._job, self._job.definition
        if job.schedule.kind is ScheduleKind.ONCE and job.registered_us >= scheduled_us:
            return ON_TIME  # meant to run at once
        return judge_missed(
            job.schedule,
            definition.missed_window,
            scheduled_us,
            now_us,
            definition.misfire_grace_seconds * US_PER_S,
            definition.max_missed,
        )

    def _add_at(self, place: int, end: int, now_us: int, *, is_catch_up: bool) -> None:
        self._add(
            self._occurrences_us[place:end],
            np.full(end - place, now_us, np.int64),
            is_catch_up=is_catch_up,
        )

    def _add(self, scheduled_us: Int64s, starts_us: Int64s, *, is_catch_up: bool) -> None:
        self._scheduled.append(scheduled_us)
        self._starts.append(starts_us)
        self._catch_ups.append(np.full(len(starts_us), is_catch_up))
        self._free_us = int(starts_us[-1]) + self._job.runs_take_us
