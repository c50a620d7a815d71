"""Gathers concurrent registrations into one transaction.

While one batch is being committed, what arrives waits and becomes the next one: a lone request
pays for its own commit and never waits for company, and a crowd shares one.  A request is answered
only after its batch is committed.

A batch that fails is registered again one by one, so that one bad row cannot fail its neighbours.
Not so when the store became unavailable: whether the batch was committed is then unknown, and a
second try could register all of it twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from mainspring.errors import StoreUnavailable
from mainspring.model import JobId, NewJob
from mainspring.store.protocol import JobStore
from mainspring_api.calls import BoundedCalls

BATCH_JOBS_MAX: Final = 500
"""One commit for 500 costs each of them 1/500 of it; more only makes the first ones wait."""

_Waiting = tuple[NewJob, "asyncio.Future[JobId]"]


class Registrar:
    """One per event loop.

    Parameters
    ----------
    registered
        Called with the size of each committed batch.
    """

    def __init__(
        self,
        store: JobStore,
        calls: BoundedCalls,
        *,
        registered: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._calls = calls
        self._registered = registered
        self._waiting: deque[_Waiting] = deque()
        self._committer: asyncio.Task[None] | None = None

    async def add(self, job: NewJob) -> JobId:
        """Register one job and return its id after the commit.

        Raises
        ------
        StoreUnavailable
            Whether the job was registered is unknown, except for a `StatementRetry`: it was not.
        """
        future: asyncio.Future[JobId] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if self._committer is None:
            self._committer = asyncio.create_task(self._commit_all())
        return await future

    async def close(self) -> None:
        """Wait for what has been taken to be answered."""
        if self._committer is not None:
            await self._committer

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), BATCH_JOBS_MAX)
                await self._commit([self._waiting.popleft() for _ in range(count)])
        finally:
            self._committer = None

    async def _commit(self, batch: list[_Waiting]) -> None:
        """Settle every future of the batch; raises nothing."""
        try:
            job_ids = await self._calls.run(self._store.add_jobs, [job for job, _ in batch])
        except Exception as error:  # noqa: BLE001  it is raised in the requests that wait
            if len(batch) == 1 or isinstance(error, StoreUnavailable):
                for _, future in batch:
                    _fail(future, error)
                return
            for one in batch:
                await self._commit([one])
            return
        if self._registered is not None:
            self._registered(len(batch))
        for (_, future), job_id in zip(batch, job_ids, strict=True):
            if not future.done():  # its request was cancelled; the job stands
                future.set_result(job_id)


def _fail(future: asyncio.Future[JobId], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
