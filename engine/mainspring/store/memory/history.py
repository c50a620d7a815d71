"""Runs, dead letters and the days they are kept; the rules of sql/history.sql."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice

from mainspring.errors import Conflict, NotFound
from mainspring.instants import INFINITY_US, US_PER_DAY
from mainspring.model import (
    DeadLetter,
    FiringId,
    JobId,
    JobStatus,
    Run,
    RunStatus,
    Trigger,
)
from mainspring.store.memory.state import Facet, Firing, State, run_key

DEFAULT_ROWS_MAX = 1_000
"""Beyond it `default_partition_rows` need not count: any row there is an alarm."""


class MemoryHistory(Facet):
    """The facet `HistoryStore`."""

    def runs_of_job(
        self, job_id: int, *, limit: int, before: tuple[int, int, int, int] | None = None
    ) -> list[Run]:
        """Return runs, newest scheduled_at first, then highest attempt."""
        state = self._state
        with state.lock:
            recorded = state.runs_by_job.get(JobId(job_id), [])
            end = len(recorded) if before is None else bisect_left(recorded, before, key=run_key)
            page = recorded[max(0, end - limit) : end]
            for row in state.firings_of_job(JobId(job_id)):
                run = _going_on(row)
                if row.scheduled_us < INFINITY_US and (before is None or run_key(run) < before):
                    page.append(run)
        return sorted(page, key=run_key, reverse=True)[:limit]

    def recent_runs(self, *, limit: int) -> list[Run]:
        """Return the newest recorded runs of all jobs, within the last day."""
        state = self._state
        with state.lock:
            since_us = state.database_now() - US_PER_DAY
            newest = (row for row in reversed(state.recorded) if row.recorded_us > since_us)
            return [row.run for row in islice(newest, limit)]

    def list_dead_letters(
        self, *, limit: int, after: tuple[int, int, int] | None = None
    ) -> list[DeadLetter]:
        """Return letters, oldest first; `after` is (died_us, firing_id, fence)."""
        with self._state.lock:
            shown = sorted((each.shown for each in self._state.letters.values()), key=_letter_key)
        first = 0
        if after is not None:
            first = bisect_left(shown, (*after, 1), key=lambda letter: (*_letter_key(letter), 0))
        return shown[first : first + limit]

    def redrive(self, firing_id: int, fence: int) -> FiringId:
        """Give a dead letter attempts again, as a firing that is due now; returns its id."""
        state = self._state
        with state.lock:
            letter = state.letters.get((firing_id, fence))
            if letter is None:
                raise NotFound(f"there is no dead letter of firing {firing_id} with fence {fence}")
            shown = letter.shown
            job = state.jobs.get(shown.job_id)
            if job is None or job.status is JobStatus.DELETED:
                raise Conflict(
                    f"job {shown.job_id} is deleted", hint="Register the job again instead."
                )
            is_cursor = shown.firing_id == FiringId(shown.job_id)
            row = Firing(
                # The cursor's id is in use; another firing keeps its own, which its key names.
                FiringId(state.take_id()) if is_cursor else shown.firing_id,
                shown.job_id,
                letter.shard,
                state.database_now(),
                shown.scheduled_us,
                fence=0 if is_cursor else shown.fence + 1,
                rev=job.rev,
                attempt=shown.attempt + 1,
                attempts_spent=shown.attempt,
                trigger=shown.trigger or Trigger.REDRIVE,
                catch_up=shown.catch_up,
            )
            state.remove_letter(letter)
            state.insert_firings([row])
        state.send_hints([(row.shard, row.due_us, row.firing_id)])
        return row.firing_id

    def make_partitions(self, *, days_ahead: int) -> int:
        """Give today and the following days a partition; returns how many were new."""
        state = self._state
        with state.lock:
            today = state.database_now() // US_PER_DAY
            new = set(range(today, today + days_ahead + 1)) - state.days
            state.days |= new
            return len(new)

    def drop_partitions(self, *, history_days: int) -> int:
        """Drop partitions older than `history_days` with their rows; returns how many."""
        state = self._state
        with state.lock:
            first = state.database_now() // US_PER_DAY - history_days
            old = {day for day in state.days if day < first}
            state.days -= old
            if old:
                _forget(state, old)
            return len(old)

    def default_partition_rows(self) -> int:
        """Return how many rows had no partition of their day (up to 1,000); must be 0."""
        with self._state.lock:
            stray = (row for row in self._state.recorded if row.day is None)
            return len(list(islice(stray, DEFAULT_ROWS_MAX)))

    def prune_keys(self, *, history_days: int, limit: int) -> int:  # noqa: ARG002  the protocol's
        """Forget nothing: keys are written by handlers on a database, and here is none."""
        return 0


def _letter_key(letter: DeadLetter) -> tuple[int, int, int]:
    """Order of dead letters."""
    return letter.died_us, letter.firing_id, letter.fence


def _going_on(row: Firing) -> Run:
    """Show a firing as the run it is waiting for, or in."""
    is_started = row.started_us is not None
    return Run(
        firing_id=row.firing_id,
        fence=row.fence,
        job_id=row.job_id,
        scheduled_us=row.scheduled_us,
        attempt=max(row.attempt, 1),
        status=RunStatus.RUNNING if is_started else RunStatus.PENDING,
        trigger=Trigger(row.trigger),
        catch_up=row.catch_up,
        started_us=row.started_us,
        worker_id=row.locked_by if is_started else None,
    )


def _forget(state: State, old: set[int]) -> None:
    """Delete the rows of the dropped days from every index."""
    kept = [row for row in state.recorded if row.day not in old]
    state.recorded = kept
    state.runs_by_job.clear()
    state.ended.clear()
    for row in kept:
        state.runs_by_job[row.run.job_id].append(row.run)
        if row.run.status not in {RunStatus.MISSED, RunStatus.SKIPPED}:
            state.ended[row.run.firing_id, row.run.fence] = row
    for runs in state.runs_by_job.values():
        runs.sort(key=run_key)
