"""Starting firings on a store, also after an answer was lost: the procedure a worker's driver runs.

A start may be repeated: what an earlier copy of it started is answered again.  While that earlier
copy still holds its row locks, the repeat skips those rows, so after a repeat the rows it left out
are read; started by this worker under this fence means that they are its to run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mainspring.core.execution import StartRequest
from mainspring.errors import StoreUnavailable
from mainspring.store.protocol import Starts, Store


def start_firings(
    store: Store, request: StartRequest, *, slack_s: int, wait: Callable[[int], bool]
) -> Starts | None:
    """Start firings, repeating while the store is unavailable.

    Parameters
    ----------
    wait
        Called with the number of the failed try; returns False to give up.  None is then returned
        and whether anything was started is unknown: the leases run out by themselves.
    """
    tries = 0
    while True:
        try:
            starts = store.start(
                request.worker_id,
                request.firing_ids,
                request.fences,
                request.timeouts_s,
                slack_s=slack_s,
            )
            return starts if tries == 0 else _with_earlier(store, request, starts)
        except StoreUnavailable:
            tries += 1
            if not wait(tries):
                return None


def _with_earlier(store: Store, request: StartRequest, starts: Starts) -> Starts:
    """Add what an earlier copy of the request started and this one skipped."""
    is_left = ~np.isin(request.firing_ids, starts.firing_id)
    now = store.read_started(request.firing_ids[is_left].tolist())
    fences = dict(zip(request.firing_ids.tolist(), request.fences.tolist(), strict=True))
    ours = [
        run
        for run in now.values()
        if run.locked_by == request.worker_id and run.fence == fences[run.firing_id]
    ]
    if not ours:
        return starts
    count = len(ours)
    now_us = store.database_us()
    return Starts(
        np.append(starts.firing_id, np.array([run.firing_id for run in ours], np.int64)),
        np.append(starts.fence, np.array([run.fence for run in ours], np.int64)),
        np.append(starts.started_us, np.full(count, now_us, np.int64)),
        np.append(starts.locked_until_us, np.full(count, now_us, np.int64)),
    )
