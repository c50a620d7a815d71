"""Runs, dead letters and the daily partitions of the history in Postgres."""

from __future__ import annotations

from typing import Any, Final

from mainspring.errors import Conflict, NotFound
from mainspring.instants import INFINITY_US, MINUS_INFINITY_US
from mainspring.model import DeadLetter, FiringId, JobId, JobStatus, Run, RunStatus, Trigger
from mainspring.store.postgres.arrays import Instant
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.database import Part
from mainspring.store.postgres.shards import LOCK_CLASS_SETUP, SETUP_PARTITIONS

RECENT_WINDOWS_S: Final = (1, 15, 240, 3_600, 86_400)
"""Windows in which `recent_runs` looks: a busy system fills a page in the first one."""

PARTITION_LOCK_TIMEOUT: Final = "200ms"
"""How long making or dropping a partition may queue, for every completion waits behind it."""

PARTITION_TRIES_MAX: Final = 10


class PostgresHistory(Part):
    """The facet `HistoryStore`; see `mainspring.store.protocol`."""

    def runs_of_job(
        self, job_id: int, *, limit: int, before: tuple[int, int, int, int] | None = None
    ) -> list[Run]:
        """Return runs, newest scheduled_at first, then highest attempt."""
        at_us, attempt, firing_id, fence = before or (INFINITY_US, 0, 0, 0)
        rows = self._database.rows_of(
            "runs_of_job",
            job_id=job_id,
            limit=limit,
            before_at=Instant(at_us),
            before_attempt=attempt,
            before_firing=firing_id,
            before_fence=fence,
        )
        return [_run(*row) for row in rows]

    def recent_runs(self, *, limit: int) -> list[Run]:
        """Return the newest recorded runs of all jobs, within the last day."""
        rows: list[tuple[Any, ...]] = []
        for window_s in RECENT_WINDOWS_S:
            rows = self._database.rows_of("recent_runs", window_seconds=window_s, limit=limit)
            if len(rows) >= limit:
                break
        return [_run(*row) for row in rows]

    def list_dead_letters(
        self, *, limit: int, after: tuple[int, int, int] | None = None
    ) -> list[DeadLetter]:
        """Return letters, oldest first; `after` is (died_us, firing_id, fence)."""
        at_us, firing_id, fence = after or (MINUS_INFINITY_US, 0, 0)
        rows = self._database.rows_of(
            "list_dead_letters",
            after_at=Instant(at_us),
            after_firing=firing_id,
            after_fence=fence,
            limit=limit,
        )
        return [_letter(*row) for row in rows]

    def redrive(self, firing_id: int, fence: int) -> FiringId:
        """Give a dead letter attempts again, as a firing that is due now; returns its id."""

        def work(session: Session) -> FiringId:
            execute = self._database.execute
            name = {"firing_id": firing_id, "fence": fence}
            letters = execute(session, "find_dead_letter", **name)
            if not letters:
                raise _no_letter(firing_id, fence)
            job_id = letters[0][2]
            statuses = execute(session, "lock_job", job_id=job_id)
            if not statuses or statuses[0][0] == JobStatus.DELETED:
                raise Conflict(f"job {job_id} is deleted", hint="Register the job again instead.")
            planned = execute(session, "redrive", **name)
            if not planned:  # another redrive was first
                raise _no_letter(firing_id, fence)
            return FiringId(planned[0][0])

        return self._database.transact(work)

    def make_partitions(self, *, days_ahead: int) -> int:
        """Make today's and the following partitions; returns how many were new."""

        def work(session: Session) -> int:
            self._lock_partitions(session)
            ((count,),) = self._database.execute(session, "make_partitions", days_ahead=days_ahead)
            return int(count)

        return self._database.transact(work, PARTITION_TRIES_MAX)

    def drop_partitions(self, *, history_days: int) -> int:
        """Drop partitions older than `history_days`, each by itself; returns how many."""
        days = self._database.rows_of("partitions_to_drop", history_days=history_days)
        count = 0
        for (day,) in days:

            def work(session: Session, day: Any = day) -> bool:
                self._lock_partitions(session)
                ((dropped,),) = self._database.execute(session, "drop_partition", day=day)
                return bool(dropped)

            count += self._database.transact(work, PARTITION_TRIES_MAX)
        return count

    def _lock_partitions(self, session: Session) -> None:
        """Let one process at a time change partitions, and nobody wait long behind it."""
        execute = self._database.execute
        execute(session, "lock_setup", lock_class=LOCK_CLASS_SETUP, lock_key=SETUP_PARTITIONS)
        execute(session, "limit_lock_wait", lock_timeout=PARTITION_LOCK_TIMEOUT)

    def default_partition_rows(self) -> int:
        """Return how many rows had no partition of their day (up to 1,000); must be 0."""
        ((count,),) = self._database.rows_of("default_partition_rows")
        return int(count)

    def prune_keys(self, *, history_days: int, limit: int) -> int:
        """Forget idempotency keys older than `history_days`, oldest first; returns how many."""
        ((count,),) = self._database.rows_of("prune_keys", history_days=history_days, limit=limit)
        return int(count)


def _no_letter(firing_id: int, fence: int) -> NotFound:
    return NotFound(f"there is no dead letter of firing {firing_id} with fence {fence}")


def _run(
    firing_id: int,
    fence: int,
    job_id: int,
    scheduled_us: int,
    attempt: int,
    status: str,
    trigger: int,
    catch_up: bool,
    started_us: int | None,
    finished_us: int | None,
    worker_id: Any,
    missed_count: int,
    error: str | None,
    output: str | None,
) -> Run:
    """Read one row of `runs_of_job` or `recent_runs`."""
    return Run(
        firing_id=FiringId(firing_id),
        fence=fence,
        job_id=JobId(job_id),
        scheduled_us=scheduled_us,
        attempt=attempt,
        status=RunStatus(status),
        trigger=Trigger(trigger),
        catch_up=catch_up,
        started_us=started_us,
        finished_us=finished_us,
        worker_id=worker_id,
        missed_count=missed_count,
        error=error,
        output=output,
    )


def _letter(
    firing_id: int,
    fence: int,
    job_id: int,
    scheduled_us: int,
    attempt: int,
    trigger: int,
    catch_up: bool,
    died_us: int,
    error: str | None,
) -> DeadLetter:
    """Read one row of `list_dead_letters`."""
    return DeadLetter(
        firing_id=FiringId(firing_id),
        fence=fence,
        job_id=JobId(job_id),
        scheduled_us=scheduled_us,
        attempt=attempt,
        trigger=Trigger(trigger),
        catch_up=catch_up,
        died_us=died_us,
        error=error,
    )
