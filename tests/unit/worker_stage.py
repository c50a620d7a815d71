"""A worker's core to play with: frames delivered, starts and completions answered by hand."""

from __future__ import annotations

import numpy as np

from mainspring.core.completion import Completed, PendingEnd
from mainspring.core.ending import Report, end_success
from mainspring.core.execution import Execution, StartRequest, WorkerLimits
from mainspring.metrics import WorkerCounts
from mainspring.queue.answers import VERSION, Envelope
from mainspring.store.protocol import Acceptance, Starts
from unit.core_stage import EPOCH_US, MS, S, decoded

ME = 5
LEADER = 1
SUCCESS = Report("success")


def execution(concurrency: int = 3, **limits: int) -> Execution:
    """Return a worker that knows one leader and was polled at instant 0."""
    defaults = {
        "window_firings": 100,
        "start_ahead_us": 0,
        "complete_rows": 10,
        "complete_delay_us": 10 * MS,
        "beacon_us": 200 * MS,
        "hint_horizon_us": 600 * S,
    }
    made = Execution(
        ME,
        WorkerLimits(concurrency=concurrency, **(defaults | limits)),
        queues=("default",),
        tasks=("work",),
        counts=WorkerCounts(),
        on_dropped=lambda _reason: None,
    )
    made.on_leaders({LEADER: "l"})
    made.poll(0, is_trusted=True)
    return made


def deliver(
    made: Execution,
    seq: int,
    firings: dict[int, int],
    *,
    leader: int = LEADER,
    catch_up: bool = False,
) -> None:
    envelope = Envelope(VERSION, leader, made.worker_id, seq, "l")
    made.on_delivery(envelope, decoded(firings, leader=leader, catch_up=catch_up))


def started(request: StartRequest, *but: int) -> Starts:
    """Return the store's answer that everything was started, but some."""
    chosen = ~np.isin(request.firing_ids, but)
    ids = request.firing_ids[chosen]
    at_us = np.full(len(ids), EPOCH_US, np.int64)
    return Starts(ids, request.fences[chosen], at_us, at_us)


def completed(pending: list[PendingEnd], acceptance: Acceptance, due_us: int) -> list[Completed]:
    ends = [
        end_success(p.firing_id, p.fence, p.rev, p.job_id, p.scheduled_us, p.next_us, p.report)
        for p in pending
    ]
    return [Completed(p, e, acceptance, due_us) for p, e in zip(pending, ends, strict=True)]
