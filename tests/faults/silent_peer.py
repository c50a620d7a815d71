"""A peer that offers itself as a worker, takes frames, and never says another word.

It has a holder row that beats, a real socket and valid beacons, until it has taken a frame.  Its
last word may be *held*.
"""

from __future__ import annotations

import threading
import time

from mainspring.queue.answers import VERSION, Beacon, Envelope
from mainspring.queue.worker_side import WorkerSockets
from mainspring.store.postgres import PostgresStore

WINDOW_FIRINGS = 2_000
ROUND_US = 50_000
BEAT_S = 0.5


class SilentPeer:
    """The peer; a thread of its own owns its sockets.

    Parameters
    ----------
    says_held
        Whether it answers the first frames before it falls silent.
    """

    def __init__(self, store: PostgresStore, tasks: tuple[str, ...], *, says_held: bool) -> None:
        self.frames_taken = 0
        self.is_offering = threading.Event()
        self._store = store
        self._tasks = tasks
        self._says_held = says_held
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silent-peer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and leave."""
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        sockets = WorkerSockets("127.0.0.1", on_dropped=lambda _reason: None)
        holder_id = self._store.register_holder("worker", sockets.address, "silent:0")
        beat_s = 0.0
        try:
            while not self._stopping.is_set():
                now_s = time.monotonic()
                if now_s - beat_s >= BEAT_S:
                    self._store.beat(holder_id)
                    beat_s = now_s
                if not self.frames_taken:
                    self._offer(sockets, holder_id)
                sockets.wait(ROUND_US)
                envelopes = [envelope for envelope, _ in sockets.receive(100)]
                if envelopes and not self.frames_taken and self._says_held:
                    self._hold(sockets, holder_id, envelopes)
                self.frames_taken += len(envelopes)
            self._store.leave(holder_id)
        finally:
            sockets.close()

    def _offer(self, sockets: WorkerSockets, holder_id: int) -> None:
        for holder in self._store.read_holders().holders:
            if holder.kind == "scheduler":
                beacon = self._beacon(holder_id, holder.holder_id, {})
                if sockets.answer(holder.holder_id, holder.address, beacon):
                    self.is_offering.set()

    def _hold(self, sockets: WorkerSockets, holder_id: int, envelopes: list[Envelope]) -> None:
        last = envelopes[-1]
        beacon = self._beacon(holder_id, last.leader, {each.seq: 1 for each in envelopes})
        assert sockets.answer(last.leader, last.answer_to, beacon)

    def _beacon(self, holder_id: int, leader: int, in_hand: dict[int, int]) -> Beacon:
        return Beacon(
            VERSION,
            holder_id,
            leader,
            WINDOW_FIRINGS,
            max(in_hand, default=0),
            tuple(in_hand.items()),
            (),
            ("default",),
            self._tasks,
            False,
        )
