"""The end of a run in Postgres: complete and end lost, in batches of one transaction each.

A batch goes in as columns sorted by firing id and comes back as one row of two arrays.  Ends that
matched nothing are looked up afterwards.  A batch that the server refuses for a value in it is
halved until the bad row stands alone; that one is ended with a fixed text instead of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import psycopg

from mainspring.instants import INFINITY_US
from mainspring.model import RunStatus
from mainspring.store.postgres.arrays import Bigints, Booleans, Instants, Integers, Texts
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.firings import PostgresFirings
from mainspring.store.protocol import Acceptance, Action, CompletionAnswer, RunEnd
from mainspring.store.text import clean_text

STATUS_PLACES: Final = {
    RunStatus.SUCCESS: 1,
    RunStatus.FAILED: 2,
    RunStatus.DEAD: 3,
    RunStatus.LOST: 4,
    RunStatus.CANCELLED: 5,
}
"""Where a status stands in the array of the statement `complete`."""

UNSTORABLE: Final = "(text could not be stored)"
"""Stands for error and output of a row that the server refused with them."""

Due = dict[int, int]
"""When each accepted firing is due again, by firing id."""


class PostgresEnds(PostgresFirings):
    """The facet `FiringStore` at the end of a run; see `mainspring.store.protocol`."""

    def complete(self, ends: Sequence[RunEnd]) -> CompletionAnswer:
        """End runs, each by its fence and rev."""
        return self._end_all(ends, None)

    def end_lost(self, shard: int, term: int, ends: Sequence[RunEnd]) -> CompletionAnswer:
        """End dead runs as the shard's leader; raises `TermLost`."""
        return self._end_all(ends, (shard, term))

    def _end_all(
        self, ends: Sequence[RunEnd], leadership: tuple[int, int] | None
    ) -> CompletionAnswer:
        """End what can be ended; an id that comes twice waits for a second round."""
        acceptances = [Acceptance.STALE] * len(ends)
        dues = [INFINITY_US] * len(ends)
        waiting = list(range(len(ends)))
        if leadership is not None and not ends:
            self._database.repeat(lambda session: self._hold(session, *leadership, None))
        while waiting:
            first: dict[int, int] = {}
            again = [
                place
                for place in waiting
                if first.setdefault(ends[place].firing_id, place) != place
            ]
            places = [first[firing_id] for firing_id in sorted(first)]
            batch = [ends[place] for place in places]
            due = self._end_batch(batch, leadership)
            refused = [end for end in batch if end.firing_id not in due]
            reasons = self._reasons(refused) if refused else {}
            for place in places:
                firing_id = ends[place].firing_id
                acceptances[place] = reasons.get(firing_id, Acceptance.ACCEPTED)
                dues[place] = due.get(firing_id, INFINITY_US)
            waiting = again
        return CompletionAnswer(acceptances, dues)

    def _end_batch(self, batch: list[RunEnd], leadership: tuple[int, int] | None) -> Due:
        """End distinct firings in id order, halving the batch around a value that is refused."""
        try:
            return self._database.transact(lambda session: self._end(session, batch, leadership))
        except psycopg.DataError:
            if len(batch) == 1:
                return self._end_without_text(batch[0], leadership)
        middle = len(batch) // 2
        due = self._end_batch(batch[:middle], leadership)
        due.update(self._end_batch(batch[middle:], leadership))
        return due

    def _end_without_text(self, end: RunEnd, leadership: tuple[int, int] | None) -> Due:
        fixed = dataclasses.replace(
            end, error=UNSTORABLE, output=None if end.output is None else UNSTORABLE
        )
        return self._database.transact(lambda session: self._end(session, [fixed], leadership))

    def _end(
        self, session: Session, batch: list[RunEnd], leadership: tuple[int, int] | None
    ) -> Due:
        """One transaction: the term, the jobs that may go, the ends, the jobs that go."""
        execute = self._database.execute
        if leadership is not None:
            self._hold(session, *leadership, None)
        removing = [end.job_id for end in batch if end.action is Action.REMOVE]
        finished = []
        if removing:
            job_ids = Bigints(sorted(set(removing)))
            locked = execute(session, "lock_finished_jobs", job_ids=job_ids)
            finished = [job_id for (job_id,) in locked]
        ((firing_ids, due_us),) = execute(
            session,
            "complete",
            ids=Bigints([end.firing_id for end in batch]),
            fences=Bigints([end.fence for end in batch]),
            revs=Integers([end.rev for end in batch]),
            statuses=Integers([STATUS_PLACES[end.status] for end in batch]),
            actions=Integers([end.action for end in batch]),
            next_at=Instants([end.next_us for end in batch]),
            delays_us=Bigints([end.delay_us for end in batch]),
            letters=Booleans([end.is_letter for end in batch]),
            errors=Texts([_cleaned(end.error) for end in batch]),
            outputs=Texts([_cleaned(end.output) for end in batch]),
        )
        if finished:
            execute(session, "delete_finished_jobs", job_ids=Bigints(finished))
        if firing_ids is None:
            return {}
        return dict(zip(firing_ids.tolist(), due_us.tolist(), strict=True))

    def _reasons(self, refused: list[RunEnd]) -> dict[int, Acceptance]:
        """Say why ends matched nothing, by firing id."""
        rows = self._database.rows_of(
            "look_up_unaccepted",
            ids=Bigints([end.firing_id for end in refused]),
            fences=Bigints([end.fence for end in refused]),
            job_ids=Bigints([end.job_id for end in refused]),
            scheduled_at=Instants([end.scheduled_us for end in refused]),
        )
        now = {firing_id: state for firing_id, *state in rows}
        return {end.firing_id: _reason(end, *now[end.firing_id]) for end in refused}


def _reason(
    end: RunEnd, fence: int | None, rev: int | None, is_started: bool, statuses: list[str]
) -> Acceptance:
    """Judge one end by its firing as it is now and by the statuses of its recorded run."""
    if fence == end.fence and rev != end.rev and is_started:
        return Acceptance.CHANGED
    return Acceptance.REPLAYED if end.status.value in statuses else Acceptance.STALE


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
