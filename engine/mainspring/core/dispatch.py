"""Which frame goes to which worker: credit, held, lost, silent.  Pure; see core/__init__.

One object serves all shards of a scheduler process.  Frames wait here in the order in which they
were released, by (queue, task), until a live worker that knows the task has credit; a task without
a worker waits, visibly in `waiting`, and burns no attempt.

A worker's beacon is its whole state, so what it lists is held, what it passed over is finished and
what it names lost is claimed anew.  Nothing is believed of a worker that is silent.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mainspring.core.requests import PreparedFrame
from mainspring.queue.answers import Beacon, Returned


@dataclass(frozen=True, slots=True)
class FrameName:
    """A frame of a shard's ledger."""

    shard: int
    frame_no: int


@dataclass(frozen=True, slots=True)
class Send:
    """A frame on its way to a worker; `seq` counts this leader's frames to it."""

    worker_id: int
    seq: int
    frame: PreparedFrame


@dataclass(slots=True)
class _Outstanding:
    frame: PreparedFrame
    sent_us: int
    remaining: int


@dataclass(slots=True)
class _Worker:
    address: str
    joined_us: int
    next_seq: int = 1
    window: int = 0
    received_seq: int = 0
    beacon_us: int | None = None
    is_draining: bool = True  # until its first beacon says otherwise
    queues: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()
    outstanding: dict[int, _Outstanding] = field(default_factory=dict)

    def credit(self) -> int:
        return self.window - sum(sent.remaining for sent in self.outstanding.values())


class Dispatch:
    """The frames between their release and their start."""

    def __init__(self, *, silence_us: int, unanswered_us: int) -> None:
        self._silence_us = silence_us
        self._unanswered_us = unanswered_us
        self._workers: dict[int, _Worker] = {}
        self._ready: dict[tuple[str, str], deque[tuple[int, PreparedFrame]]] = {}
        self._order = itertools.count(1)
        self._resent = itertools.count(-1, -1)

    def release(self, frames: list[PreparedFrame]) -> None:
        """Take frames whose time has come."""
        for frame in frames:
            lane = self._ready.setdefault((frame.queue, frame.task), deque())
            lane.append((next(self._order), frame))

    def on_workers(self, addresses: Mapping[int, str], monotonic_us: int) -> list[FrameName]:
        """Take who is alive; returns the frames of those that are not, to be claimed anew."""
        unanswered: list[FrameName] = []
        for worker_id in [known for known in self._workers if known not in addresses]:
            unanswered += _names(self._workers.pop(worker_id).outstanding.values())
        for worker_id, address in addresses.items():
            if worker_id not in self._workers:
                self._workers[worker_id] = _Worker(address, monotonic_us)
        return unanswered

    def on_beacon(
        self, beacon: Beacon, monotonic_us: int
    ) -> tuple[list[FrameName], list[FrameName]]:
        """Take a worker's state; returns (finished, unanswered) frames."""
        worker = self._workers.get(beacon.worker)
        if worker is None:
            return [], []
        worker.beacon_us = monotonic_us
        worker.window = beacon.window
        worker.received_seq = max(worker.received_seq, beacon.received_seq)
        worker.is_draining = beacon.draining
        worker.queues = frozenset(beacon.queues)
        worker.tasks = frozenset(beacon.tasks)
        in_hand = dict(beacon.in_hand)
        lost = set(beacon.lost)
        finished: list[FrameName] = []
        unanswered: list[FrameName] = []
        for seq, sent in list(worker.outstanding.items()):
            if seq in in_hand:
                sent.remaining = in_hand[seq]
            elif seq in lost:
                unanswered += _names([worker.outstanding.pop(seq)])
            elif seq <= beacon.received_seq:
                finished += _names([worker.outstanding.pop(seq)])
        return finished, unanswered

    def on_returned(self, returned: Returned) -> tuple[FrameName, tuple[int, ...]] | None:
        """Take that a worker will not start some firings; returns where they came from.

        None if that frame is not outstanding to this worker any more: then they are not its to
        return.
        """
        worker = self._workers.get(returned.worker)
        sent = worker.outstanding.get(returned.seq) if worker else None
        if sent is None:
            return None
        return FrameName(sent.frame.shard, sent.frame.frame_no), returned.firing_ids

    def overdue(self, monotonic_us: int) -> list[FrameName]:
        """Return frames that nobody holds after the time for it, to be claimed anew."""
        unanswered: list[FrameName] = []
        for worker in self._workers.values():
            heard_us = worker.beacon_us if worker.beacon_us is not None else worker.joined_us
            is_silent = monotonic_us - heard_us > self._unanswered_us
            for seq, sent in list(worker.outstanding.items()):
                is_unheld = (
                    seq > worker.received_seq and monotonic_us - sent.sent_us > self._unanswered_us
                )
                if is_silent or is_unheld:
                    unanswered += _names([worker.outstanding.pop(seq)])
        return unanswered

    def next_send(self, monotonic_us: int) -> Send | None:
        """Return the next frame to be sent; tell `on_sent` before asking again."""
        lanes = sorted((lane[0][0], name) for name, lane in self._ready.items() if lane)
        for _, (queue, task) in lanes:
            lane = self._ready[queue, task]
            worker_id = self._choose(queue, task, len(lane[0][1]), monotonic_us)
            if worker_id is None:
                continue
            frame = lane.popleft()[1]
            if not lane:
                del self._ready[queue, task]
            worker = self._workers[worker_id]
            send = Send(worker_id, worker.next_seq, frame)
            worker.next_seq += 1
            worker.outstanding[send.seq] = _Outstanding(frame, monotonic_us, len(frame))
            return send
        return None

    def on_sent(self, send: Send, *, is_sent: bool) -> None:
        """Take whether the socket took it; if not, it waits again, first in its lane."""
        if is_sent:
            return
        worker = self._workers[send.worker_id]
        assert worker.next_seq == send.seq + 1, "a send was not told before the next was asked"
        worker.next_seq = send.seq
        worker.window = 0  # nothing more until its next beacon
        del worker.outstanding[send.seq]
        lane = self._ready.setdefault((send.frame.queue, send.frame.task), deque())
        lane.appendleft((next(self._resent), send.frame))

    def drop(self, shard: int) -> None:
        """Forget every frame of a shard that this process no longer leads."""
        for name, lane in list(self._ready.items()):
            kept = deque(entry for entry in lane if entry[1].shard != shard)
            if kept:
                self._ready[name] = kept
            else:
                del self._ready[name]
        for worker in self._workers.values():
            for seq, sent in list(worker.outstanding.items()):
                if sent.frame.shard == shard:
                    del worker.outstanding[seq]

    def waiting(self) -> dict[tuple[str, str], int]:
        """Return how many released firings wait for a worker, by (queue, task)."""
        return {name: sum(len(frame) for _, frame in lane) for name, lane in self._ready.items()}

    def addresses(self) -> dict[int, str]:
        """Return the living workers and where they listen."""
        return {worker_id: worker.address for worker_id, worker in self._workers.items()}

    def _choose(self, queue: str, task: str, count: int, monotonic_us: int) -> int | None:
        best: int | None = None
        best_credit = 0
        for worker_id, worker in self._workers.items():
            if (
                worker.is_draining
                or worker.beacon_us is None
                or monotonic_us - worker.beacon_us > self._silence_us
                or task not in worker.tasks
                or queue not in worker.queues
            ):
                continue
            credit = worker.credit()
            # A frame larger than the whole window goes to a worker that has nothing else.
            fits = credit >= count or (worker.window > 0 and not worker.outstanding)
            if fits and credit > best_credit:
                best, best_credit = worker_id, credit
        return best


def _names(sent: Iterable[_Outstanding]) -> list[FrameName]:
    return [FrameName(entry.frame.shard, entry.frame.frame_no) for entry in sent]
