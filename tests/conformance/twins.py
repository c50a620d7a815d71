"""Two stores under the same operations: what each answers, made comparable.

`Twins.ask` performs an operation on both and returns the one answer, or fails with both.  The
stores share a clock that is moved by hand, so instants are equal too.  `Twins.compare_firings`
reads the tables themselves: a column that no answer shows yet would only differ much later.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg

from conformance.stage import HandClock, rows_of
from mainspring.claim import ClaimBatch
from mainspring.errors import MainspringError
from mainspring.instants import MINUS_INFINITY_US
from mainspring.store.memory import MemoryStore
from mainspring.store.protocol import CompletionAnswer, HolderReading, Starts, Store

MICROSECONDS = (
    "CASE WHEN {0} = 'infinity' THEN 9223372036854775807"
    " ELSE (extract(epoch FROM {0}) * 1000000)::bigint END"
)
READ_FIRINGS = f"""
SELECT firing_id, job_id, shard, {MICROSECONDS.format("due_at")},
    {MICROSECONDS.format("scheduled_at")}, fence, rev, attempt, attempts_spent, lost_count,
    trigger, catch_up, locked_by, {MICROSECONDS.format("locked_until")},
    {MICROSECONDS.format("started_at")},
    CASE previous_at WHEN '-infinity' THEN {MINUS_INFINITY_US}
        ELSE {MICROSECONDS.format("previous_at")} END
FROM firings ORDER BY firing_id
"""

Answer = Any


def comparable(answer: Answer) -> Answer:
    """Return an answer as plain values, in a fixed order where the protocol promises none."""
    if isinstance(answer, ClaimBatch):
        return rows_of(answer)
    if isinstance(answer, Starts):
        columns = (answer.firing_id, answer.fence, answer.started_us, answer.locked_until_us)
        return sorted(zip(*(column.tolist() for column in columns), strict=True))
    if isinstance(answer, HolderReading):
        return dataclasses.replace(answer, server_started_us=0)
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    if isinstance(answer, tuple):
        return tuple(comparable(part) for part in answer)
    return answer


def kinds(method: str, answer: Answer) -> list[str]:
    """Say what kind of answer this was, to count that a run of the machine meant something."""
    if isinstance(answer, CompletionAnswer):
        return [f"{method} {acceptance.value}" for acceptance in answer.acceptances]
    if isinstance(answer, type):
        return [f"{method} {answer.__name__}"]
    if isinstance(answer, list | tuple | set | dict):
        is_empty = not answer or (isinstance(answer, tuple) and not answer[0])
        return [f"{method} {'nothing' if is_empty else 'something'}"]
    return [f"{method} {bool(answer)}"]


@dataclasses.dataclass
class Twins:
    """A memory store and a Postgres store on one clock; `seen` counts what was answered."""

    clock: HandClock
    memory: MemoryStore
    postgres: Store
    session: psycopg.Connection[Any]
    read_hints: Callable[[], list[tuple[int, int, int]]]
    heard: list[tuple[int, int, int]]
    seen: Counter[str]
    sorted_methods: frozenset[str] = frozenset({"hand_back", "recent_runs"})

    def ask(self, method: str, *arguments: Any, **keywords: Any) -> Answer:
        """Perform one operation on both stores; the answer, or the error's class."""
        answers = []
        for store in (self.memory, self.postgres):
            try:
                answer = comparable(getattr(store, method)(*arguments, **keywords))
            except MainspringError as error:
                answer = type(error)
            if method in self.sorted_methods:
                answer = sorted(answer, key=repr)
            answers.append(answer)
        in_memory, in_postgres = answers
        assert in_memory == in_postgres, (method, arguments, keywords)
        self.seen.update(kinds(method, in_memory))
        return in_memory

    def compare_hints(self) -> None:
        """Both stores announced the same, in any order."""
        in_memory, in_postgres = sorted(self.heard), sorted(self.read_hints())
        self.heard.clear()
        assert in_memory == in_postgres

    def compare_firings(self) -> list[tuple[Any, ...]]:
        """Both tables hold the same firings, in every column."""
        rows = sorted(self.memory._state.firings.values(), key=lambda row: row.firing_id)
        in_memory = [dataclasses.astuple(row) for row in rows]
        in_postgres = self.session.execute(READ_FIRINGS).fetchall()
        assert in_memory == in_postgres
        return in_memory
