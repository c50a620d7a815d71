"""Jobs, their runs and dead letters, for a caller in this process: the command, and a host.

What the HTTP API does over the wire, with the same fields, the same rules and the same answers
(`shown`), as calls that block.  Every call is one of the store, or two.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Unpack

from mainspring.change import change_of, changed, paused, resumed
from mainspring.changing import Decide, change_job, read_job_of
from mainspring.errors import InvalidInput, NotFound
from mainspring.handlers import Tasks
from mainspring.instants import parse_instant
from mainspring.model import (
    Definition,
    Job,
    JobChange,
    JobId,
    NewJob,
    format_job_id,
    parse_job_id,
    parse_run_id,
)
from mainspring.registration import JobFields, JobUpdate, job_from, job_in, placed
from mainspring.shown import (
    JobOut,
    JobRegistered,
    LetterOut,
    RunOut,
    instant_or_null,
    shown_job,
    shown_letter,
    shown_run,
)
from mainspring.store.protocol import Store

LIMIT_MAX: Final = 500
"""Longest page of anything."""

ADD_JOBS_MAX: Final = 10_000
"""Jobs in one call, which is one transaction of a second or so."""

# Within the class `list` is the method.
_NewJobs = list[NewJob]
_Registered = list[JobRegistered]
_JobList = list[JobOut]
_RunList = list[RunOut]
_LetterList = list[LetterOut]


@dataclass(frozen=True, slots=True)
class UnknownTask:
    """What a job asks for and nobody here has a handler for.

    `nearest` is the known task whose name is most like it, None if none is.  `pointer` is the field
    that named it: `task` is `name`, if it is not given.
    """

    task: str
    queue: str
    nearest: str | None
    pointer: str


class Jobs:
    """The jobs of one store.  Thread safe.

    Every method may raise `StoreUnavailable`: whether the call was carried out is then unknown.

    Parameters
    ----------
    tasks
        Handlers that are known here: a payload for one of them is checked against its type.
        Jobs for other tasks may be added, too.
    on_unknown
        Is told of each job for another task before it is stored or given one; what it raises is
        raised.
    are_payloads_text
        Whether jobs are shown with their payloads as text (`JobOut`), for who writes JSON.
    """

    def __init__(
        self,
        store: Store,
        tasks: Tasks | None = None,
        *,
        on_unknown: Callable[[UnknownTask], None] | None = None,
        are_payloads_text: bool = False,
    ) -> None:
        self._store = store
        self._are_payloads_text = are_payloads_text
        self._tasks = tasks or Tasks()
        self._on_unknown = on_unknown

    def add(self, **fields: Unpack[JobFields]) -> JobRegistered:
        """Register a job; the fields are those of `POST /api/v1/jobs` (docs/jobs.md).

        Raises
        ------
        InvalidInput
            `pointer` names the field; nothing was stored.
        """
        return self._register([self._read(fields, self._store.database_us())])[0]

    def add_many(self, jobs: Iterable[Mapping[str, object]]) -> _Registered:
        """Register up to 10,000 jobs in one transaction: all of them, or none.

        Raises
        ------
        InvalidInput
            `pointer` begins with the place of the job, from 0.
        """
        now_us = self._store.database_us()
        read: _NewJobs = []
        for place, fields in enumerate(jobs):
            if place >= ADD_JOBS_MAX:
                raise InvalidInput(
                    f"more than {ADD_JOBS_MAX} jobs in one call",
                    hint=f"Add them in several calls of at most {ADD_JOBS_MAX}.",
                )
            try:
                read.append(self._read(fields, now_us))
            except InvalidInput as error:
                raise InvalidInput(
                    f"job {place}: {error.message}",
                    pointer=f"/{place}{error.pointer}",
                    detail=error.detail,
                    hint=error.hint,
                ) from None
        return self._register(read) if read else []

    def get(self, job_id: str) -> JobOut:
        """Return a job; `NotFound` if it was never registered, or is deleted or finished."""
        job = read_job_of(self._store, parse_job_id(job_id))
        return self._shown(job)

    def list(self, *, limit: int = 100, after: str | None = None) -> _JobList:
        """Return a page of jobs in the order of their ids; `after` is the last of the page before.

        Deleted and finished ones are not among them.
        """
        after_id = 0 if after is None else parse_job_id(after)
        return [
            self._shown(job)
            for job in self._store.list_jobs(after_id=after_id, limit=_checked_limit(limit))
        ]

    def update(
        self, job_id: str, *, if_rev: int | None = None, **fields: Unpack[JobUpdate]
    ) -> JobOut:
        """Change some fields of a job; each is taken as a whole.

        What is not started yet runs by the new fields; a run that goes on ends by them.  A changed
        schedule starts from now.

        Parameters
        ----------
        if_rev
            The `rev` the caller has seen; None changes whatever is there.

        Raises
        ------
        InvalidInput
            `pointer` names the field; nothing was changed.
        PreconditionFailed
            The job is at another rev.
        NotFound
            There is no such job, or it is deleted or finished.
        """
        given = change_of(fields)

        def decide(job: Job, now_us: int) -> JobChange:
            change = changed(job, given, now_us)
            new, old = change.definition, job.definition
            if (new.task, new.payload) != (old.task, old.payload):
                self._check_task(new, "/task")
            return change

        return self._change(job_id, decide, if_rev)

    def pause(self, job_id: str, *, if_rev: int | None = None) -> JobOut:
        """Pause a job: nothing of it starts until it is resumed, and what passes is not missed.

        A run that goes on ends as it ends.  Pausing a paused job changes nothing.  Raises as
        `update` does.
        """
        return self._change(job_id, lambda job, _: paused(job), if_rev)

    def resume(self, job_id: str, *, if_rev: int | None = None) -> JobOut:
        """Resume a paused job from now on; of an active one nothing changes.

        Raises as `update` does, and `Conflict` for a one-off under SKIP whose instant has passed.
        """
        return self._change(job_id, resumed, if_rev)

    def delete(self, job_id: str) -> bool:
        """Delete a job; no start is possible afterwards.  False if it was deleted before.

        `NotFound` if it was never registered.  A run that goes on ends with its true status.
        """
        number = parse_job_id(job_id)
        if self._store.delete_job(number):
            return True
        self._require_given_out(number)
        return False

    def runs(self, job_id: str, *, limit: int = 20, before: RunOut | None = None) -> _RunList:
        """Return a page of a job's runs, newest first, also of one that is deleted or finished.

        `before` is the last run of the page before.  `NotFound` if there never was such a job.
        """
        number = parse_job_id(job_id)
        found = self._store.runs_of_job(number, limit=_checked_limit(limit), before=_key(before))
        if not found:
            self._require_given_out(number)
        return [shown_run(run) for run in found]

    def recent_runs(self, *, limit: int = 20) -> _RunList:
        """Return the newest ended runs of all jobs, within the last day."""
        return [shown_run(run) for run in self._store.recent_runs(limit=_checked_limit(limit))]

    def dead_letters(self, *, limit: int = 100) -> _LetterList:
        """Return dead letters, oldest first; each is named by its last run."""
        letters = self._store.list_dead_letters(limit=_checked_limit(limit))
        return [shown_letter(letter) for letter in letters]

    def redrive(self, run_id: str) -> None:
        """Give a dead letter attempts again, with the same scheduled_at and idempotency key.

        Raises
        ------
        NotFound
            There is no such letter, or not any more.
        Conflict
            Its job is deleted.
        """
        firing_id, fence = parse_run_id(run_id)
        try:
            self._store.redrive(firing_id, fence)
        except NotFound as error:
            raise NotFound(
                f"there is no dead letter {run_id}",
                hint="List the dead letters; one that was redriven is gone.",
            ) from error

    def _read(self, fields: Mapping[str, object], now_us: int) -> NewJob:
        new = job_from(job_in(fields), now_us)
        self._check_task(new.definition, "/name" if fields.get("task") is None else "/task")
        return new

    def _check_task(self, definition: Definition, pointer: str) -> None:
        """Hold a payload against the type of its handler, or say that none is known."""
        task = self._tasks.get(definition.task)
        if task is not None:
            task.payload_type.check(definition.payload.encode())
        elif self._on_unknown is not None:
            self._on_unknown(_unknown(definition, self._tasks.names, pointer))

    def _change(self, job_id: str, decide: Decide, if_rev: int | None) -> JobOut:
        number = parse_job_id(job_id)
        now_us = self._store.database_us
        return self._shown(change_job(self._store, number, decide, now_us=now_us, if_rev=if_rev))

    def _shown(self, job: Job) -> JobOut:
        return shown_job(job, is_payload_text=self._are_payloads_text)

    def _register(self, jobs: _NewJobs) -> _Registered:
        job_ids = self._store.add_jobs(jobs)
        return [
            JobRegistered(format_job_id(job_id), instant_or_null(placed(job, job_id).first_us))
            for job_id, job in zip(job_ids, jobs, strict=True)
        ]

    def _require_given_out(self, number: JobId) -> None:
        if not self._store.was_given_out(number):
            raise NotFound(
                f"no job was ever called {format_job_id(number)}",
                hint="Use an id from the answer to a registration.",
            )


def _unknown(definition: Definition, names: tuple[str, ...], pointer: str) -> UnknownTask:
    task = definition.task
    nearest = difflib.get_close_matches(task, names, 1)
    return UnknownTask(task, definition.queue, nearest[0] if nearest else None, pointer)


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidInput(
            f"limit is {limit}, not in 1..{LIMIT_MAX}",
            pointer="/limit",
            hint="Ask for the next page instead.",
        )
    return limit


def _key(before: RunOut | None) -> tuple[int, int, int, int] | None:
    if before is None:
        return None
    if before.run_id is None or before.scheduled_at is None:
        raise InvalidInput(
            "a run that still waits does not end a page",
            pointer="/before",
            hint="Take the last run that has an id.",
        )
    firing_id, fence = parse_run_id(before.run_id)
    return parse_instant(before.scheduled_at), before.attempt, firing_id, fence
