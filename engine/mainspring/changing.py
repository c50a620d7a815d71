"""Carries a change of a job out on a store: read, decide, write; again if it changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mainspring.errors import Conflict, NotFound, PreconditionFailed
from mainspring.model import Job, JobChange, JobId, JobStatus, format_job_id
from mainspring.store.protocol import JobStore

DECISIONS_MAX: Final = 5
"""A job that changes this often during one call is being stormed."""

Decide = Callable[[Job, int], JobChange | None]
"""From the job as it was read and the database's now, microseconds; None leaves it as it is."""


def read_job_of(store: JobStore, job_id: JobId) -> Job:
    """Return a job; raises `NotFound`, and says whether it ever was."""
    job = store.get_jobs([job_id]).get(job_id)
    if job is not None and job.status is not JobStatus.DELETED:
        return job
    name = format_job_id(job_id)
    if not store.was_given_out(job_id):
        raise NotFound(
            f"no job was ever called {name}", hint="Use an id from the answer to a registration."
        )
    raise NotFound(f"job {name} is deleted or finished", hint="Its runs can be listed.")


def change_job(
    store: JobStore,
    job_id: JobId,
    decide: Decide,
    *,
    now_us: Callable[[], int],
    if_rev: int | None = None,
) -> Job:
    """Change a job and return it as it is then.

    Parameters
    ----------
    now_us
        Reads the database's clock.
    if_rev
        The rev the caller has seen; None changes whatever is there.

    Raises
    ------
    NotFound
        No such job, or it is deleted or finished.
    PreconditionFailed
        It is at another rev.
    Conflict
        It changes all the time, or what `decide` raises.
    """
    for _ in range(DECISIONS_MAX):
        job = read_job_of(store, job_id)
        if if_rev is not None and job.rev != if_rev:
            raise PreconditionFailed(
                f"job {format_job_id(job_id)} is at rev {job.rev}, not {if_rev}",
                hint="Read it again, and decide on what it is now.",
            )
        change = decide(job, now_us())
        if change is None:
            return job
        changed = store.change_job(change)
        if changed is not None:
            return changed
    raise Conflict(
        f"job {format_job_id(job_id)} was changed {DECISIONS_MAX} times during this change",
        hint="Try again when others have finished.",
    )
