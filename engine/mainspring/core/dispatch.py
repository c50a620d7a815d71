"""Which frame goes to which worker: credit, held, lost, silent.  Pure; see core/__init__.

One object serves all shards of a scheduler process.  Frames wait here in the order in which they
were released, by (queue, task), until a live worker that knows the task has credit; a task without
a worker waits, visibly in `waiting`, and burns no attempt.

Live frames go before catch-up, which also fills no more than half of a worker's window, so that
what falls due meanwhile finds room.  Of each kind a worker gets no younger frame while an older one
that it could run waits for more credit than it has left; so large frames are not starved by small
ones.

A worker's beacon is its whole state, so what it lists is held, what it passed over is finished and
what it names lost is claimed anew.  Nothing is believed of a worker that is silent.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mainspring.core.requests import PreparedFrame
from mainspring.queue.answers import Beacon, Returned

OUTSTANDING_FRAMES_MAX = 10_000
"""Frames of one leader in one worker's hands: half of what its beacon can list."""
LOOKS = 50

CATCH_UP_SHARE = 0.5
"""Of a worker's window, what catch-up may fill."""

_Lane: TypeAlias = tuple[str, str, bool]
"""Queue, task, and whether it is catch-up."""


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
    promised: int = 0  # the sum of what remains of `outstanding`

    def credit(self) -> int:
        return self.window - self.promised

    def has_room(self, count: int, share: float) -> bool:
        if not self.outstanding:
            # A frame larger than the whole window goes to a worker that has nothing else.
            return self.window > 0
        is_fitting = self.promised + count <= self.window * share
        return is_fitting and len(self.outstanding) < OUTSTANDING_FRAMES_MAX

    def add(self, seq: int, sent: _Outstanding) -> None:
        self.outstanding[seq] = sent
        self.promised += sent.remaining

    def remain(self, seq: int, remaining: int) -> None:
        sent = self.outstanding[seq]
        self.promised += remaining - sent.remaining
        sent.remaining = remaining

    def pop(self, seq: int) -> FrameName:
        sent = self.outstanding.pop(seq)
        self.promised -= sent.remaining
        return _name(sent)


class Dispatch:
    """The frames between their release and their start."""

    def __init__(self, *, silence_us: int, unanswered_us: int) -> None:
        self._silence_us = silence_us
        self._unanswered_us = unanswered_us
        self._workers: dict[int, _Worker] = {}
        self._ready: dict[_Lane, deque[tuple[int, PreparedFrame]]] = {}
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._next_look_us = 0
        self._order = itertools.count(1)
        self._resent = itertools.count(-1, -1)

    def release(self, frames: list[PreparedFrame]) -> None:
        """Take frames whose time has come."""
        for frame in frames:
            lane = self._ready.setdefault(_lane(frame), deque())
            lane.append((next(self._order), frame))
            self._waiting[frame.queue, frame.task] += len(frame)

    def on_workers(self, addresses: Mapping[int, str], monotonic_us: int) -> list[FrameName]:
        """Take who is alive; returns the frames of those that are not, to be claimed anew."""
        unanswered: list[FrameName] = []
        for worker_id in [known for known in self._workers if known not in addresses]:
            unanswered += map(_name, self._workers.pop(worker_id).outstanding.values())
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
        for seq in list(worker.outstanding):
            if seq in in_hand:
                worker.remain(seq, in_hand[seq])
            elif seq in lost:
                unanswered.append(worker.pop(seq))
            elif seq <= beacon.received_seq:
                finished.append(worker.pop(seq))
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
        return _name(sent), returned.firing_ids

    def overdue(self, monotonic_us: int) -> list[FrameName]:
        """Return frames that nobody holds after the time for it, to be claimed anew.

        Looks no more than fifty times within that time, since it looks at every frame.
        """
        unanswered: list[FrameName] = []
        if monotonic_us < self._next_look_us:
            return unanswered
        self._next_look_us = monotonic_us + self._unanswered_us // LOOKS
        for worker in self._workers.values():
            heard_us = worker.beacon_us if worker.beacon_us is not None else worker.joined_us
            is_silent = monotonic_us - heard_us > self._unanswered_us
            for seq, sent in list(worker.outstanding.items()):
                is_unheld = (
                    seq > worker.received_seq and monotonic_us - sent.sent_us > self._unanswered_us
                )
                if is_silent or is_unheld:
                    unanswered.append(worker.pop(seq))
        return unanswered

    def next_send(self, monotonic_us: int) -> Send | None:
        """Return the next frame to be sent; tell `on_sent` before asking again."""
        lanes = sorted((name[2], lane[0][0], name) for name, lane in self._ready.items() if lane)
        reserved: set[int] = set()
        for is_catch_up, _, name in lanes:
            queue, task, _ = name
            lane = self._ready[name]
            able = self._able(queue, task, monotonic_us)
            worker_id = self._choose(
                able - reserved, len(lane[0][1]), share=CATCH_UP_SHARE if is_catch_up else 1.0
            )
            if worker_id is None:
                reserved |= able
                continue
            frame = lane.popleft()[1]
            self._waiting[queue, task] -= len(frame)
            if not lane:
                del self._ready[name]
            if not self._waiting[queue, task]:
                del self._waiting[queue, task]
            worker = self._workers[worker_id]
            send = Send(worker_id, worker.next_seq, frame)
            worker.next_seq += 1
            worker.add(send.seq, _Outstanding(frame, monotonic_us, len(frame)))
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
        worker.pop(send.seq)
        lane = self._ready.setdefault(_lane(send.frame), deque())
        lane.appendleft((next(self._resent), send.frame))
        self._waiting[send.frame.queue, send.frame.task] += len(send.frame)

    def drop(self, shard: int) -> None:
        """Forget every frame of a shard that this process no longer leads."""
        for name, lane in list(self._ready.items()):
            kept = deque(entry for entry in lane if entry[1].shard != shard)
            if kept:
                self._ready[name] = kept
            else:
                del self._ready[name]
        self._waiting = Counter()
        for (queue, task, _), lane in self._ready.items():
            self._waiting[queue, task] += sum(len(frame) for _, frame in lane)
        for worker in self._workers.values():
            for seq, sent in list(worker.outstanding.items()):
                if sent.frame.shard == shard:
                    worker.pop(seq)

    def waiting(self) -> dict[tuple[str, str], int]:
        """Return how many released firings wait for a worker, by (queue, task)."""
        return dict(self._waiting)

    def addresses(self) -> dict[int, str]:
        """Return the living workers and where they listen."""
        return {worker_id: worker.address for worker_id, worker in self._workers.items()}

    def _able(self, queue: str, task: str, monotonic_us: int) -> set[int]:
        """Return the workers that may be sent such a frame, credit apart."""
        return {
            worker_id
            for worker_id, worker in self._workers.items()
            if not worker.is_draining
            and worker.window > 0
            and worker.beacon_us is not None
            and monotonic_us - worker.beacon_us <= self._silence_us
            and task in worker.tasks
            and queue in worker.queues
        }

    def _choose(self, able: set[int], count: int, *, share: float) -> int | None:
        """Return the worker with the most credit of those with room for so many firings.

        `share` is the part of its window that a worker may have filled by then.
        """
        workers = self._workers
        fitting = [worker_id for worker_id in able if workers[worker_id].has_room(count, share)]
        if not fitting:
            return None
        return max(fitting, key=lambda worker_id: (self._workers[worker_id].credit(), -worker_id))


def _lane(frame: PreparedFrame) -> _Lane:
    return frame.queue, frame.task, frame.is_catch_up


def _name(sent: _Outstanding) -> FrameName:
    return FrameName(sent.frame.shard, sent.frame.frame_no)
