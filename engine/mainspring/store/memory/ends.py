"""The end of a run: complete and end lost, by fence and rev; the second part of sql/firing.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mainspring.instants import INFINITY_US, US_PER_DAY
from mainspring.model import DeadLetter, FiringId, JobId, Run, RunStatus, Trigger
from mainspring.store.memory.firings import started_run
from mainspring.store.memory.jobs import remove_finished_jobs
from mainspring.store.memory.state import Facet, Firing, Letter, State
from mainspring.store.protocol import Acceptance, Action, CompletionAnswer, RunEnd, StartedRun
from mainspring.store.text import clean_text

LOST_COUNT_MAX: Final = 32_767
"""What the column, an int2, can hold."""

REPLAY_US_MAX: Final = 2 * US_PER_DAY
"""How long an end is remembered as accepted; its copy comes within seconds."""


class MemoryEnds(Facet):
    """The facet `FiringStore` after start."""

    def read_started(self, firing_ids: Sequence[int]) -> dict[FiringId, StartedRun]:
        """Return those of the named firings that are started, as they are now."""
        state = self._state
        with state.lock:
            found = sorted(each for each in set(firing_ids) if each in state.firings)
            rows = (state.firings[FiringId(firing_id)] for firing_id in found)
            return {row.firing_id: started_run(row) for row in rows if row.started_us is not None}

    def complete(self, ends: Sequence[RunEnd]) -> CompletionAnswer:
        """End runs, each by its fence and rev."""
        with self._state.lock:
            return _end_all(self._state, ends)

    def end_lost(self, shard: int, term: int, ends: Sequence[RunEnd]) -> CompletionAnswer:
        """End dead runs as the shard's leader; raises `TermLost`."""
        with self._state.lock:
            self._state.require_term(shard, term, None)
            return _end_all(self._state, ends)


def _end_all(state: State, ends: Sequence[RunEnd]) -> CompletionAnswer:
    """End what can be ended and say of every other end why not."""
    now_us = state.database_now()
    acceptances: list[Acceptance] = []
    dues: list[int] = []
    removed: list[JobId] = []
    for end in ends:
        row = state.firings.get(end.firing_id)
        due_us = INFINITY_US
        if row is None or not _is_accepted(row, end):
            acceptances.append(_refusal(state, row, end, now_us))
        else:
            acceptances.append(Acceptance.ACCEPTED)
            due_us = _end(state, row, end, now_us)
            removed.append(row.job_id)
        dues.append(due_us)
    remove_finished_jobs(state, removed)
    return CompletionAnswer(acceptances, dues)


def _is_accepted(row: Firing, end: RunEnd) -> bool:
    """Whether the run that ends is the one that is going on, by the definition it knew."""
    return row.fence == end.fence and row.rev == end.rev and row.started_us is not None


def _refusal(state: State, row: Firing | None, end: RunEnd, now_us: int) -> Acceptance:
    """Say why an end matched nothing, by its firing as it is now and by its recorded run."""
    if row is not None and row.fence == end.fence and row.started_us is not None:
        return Acceptance.CHANGED
    recorded = state.ended.get((end.firing_id, end.fence))
    is_replay = (
        recorded is not None
        and recorded.recorded_us > now_us - REPLAY_US_MAX
        and recorded.run.job_id == end.job_id
        and recorded.run.scheduled_us == end.scheduled_us
        and recorded.run.status is end.status
    )
    return Acceptance.REPLAYED if is_replay else Acceptance.STALE


def _end(state: State, row: Firing, end: RunEnd, now_us: int) -> int:
    """Write the run row and the letter, and take the firing's next step; returns when it is due."""
    assert row.started_us is not None, row.firing_id
    trigger = Trigger(row.trigger)
    error = None if end.error is None else clean_text(end.error)
    output = None if end.output is None else clean_text(end.output)
    state.record_run(
        Run(
            firing_id=row.firing_id,
            fence=row.fence,
            job_id=row.job_id,
            scheduled_us=row.scheduled_us,
            attempt=row.attempt,
            status=end.status,
            trigger=trigger,
            catch_up=row.catch_up,
            started_us=row.started_us,
            finished_us=now_us,
            worker_id=row.locked_by,
            error=error,
            output=output,
        ),
        now_us,
    )
    if end.is_letter:
        shown = DeadLetter(
            firing_id=row.firing_id,
            fence=row.fence,
            job_id=row.job_id,
            scheduled_us=row.scheduled_us,
            attempt=row.attempt,
            trigger=trigger,
            catch_up=row.catch_up,
            died_us=now_us,
            error=error,
        )
        state.add_letter(Letter(shown, row.shard))
    if end.action is Action.REMOVE:
        state.remove_firing(row)
        return INFINITY_US
    row.fence += 1
    row.locked_by = None
    row.locked_until_us = None
    row.started_us = None
    state.started[row.shard].discard(row.firing_id)
    if end.action in {Action.RETRY, Action.HOLD}:
        row.attempt += 1
        if end.status is RunStatus.LOST:
            row.lost_count = min(row.lost_count + 1, LOST_COUNT_MAX)
        is_held = end.action is Action.HOLD
        state.move_firing(row, INFINITY_US if is_held else now_us + end.delay_us)
        return row.due_us
    row.attempt = row.attempts_spent = row.lost_count = 0
    row.catch_up = False
    row.previous_us = row.scheduled_us
    row.scheduled_us = end.next_us if end.action is Action.MOVE else INFINITY_US
    state.move_firing(row, row.scheduled_us)
    return row.due_us
