"""The leader's sockets: one PUSH per worker for frames, one PULL for all answers.

Source: the package's docstring.
"""

from __future__ import annotations

from typing import Final

import zmq

from mainspring.errors import CorruptFrame
from mainspring.queue import zeromq
from mainspring.queue.answers import Answer, decode_answer
from mainspring.queue.wake import WakeUp

WORKERS_MAX: Final = 2_048
"""Workers one process can be connected to; half of what its context can hold."""


class LeaderSockets:
    """What a scheduler process sends frames and takes answers with.

    Parameters
    ----------
    bind_host
        A loopback address.
    port
        0, the default, takes a free one.
    on_dropped
        Called with a reason (see the package) for whatever is dropped, in the owning thread.

    Raises
    ------
    InvalidInput
        The host is not loopback.
    """

    def __init__(self, bind_host: str, *, on_dropped: zeromq.OnDropped, port: int = 0) -> None:
        self._thread = zeromq.OneThread()
        self._on_dropped = on_dropped
        self._context = zeromq.open_context()
        try:
            self._answers, self.address = zeromq.bind_pull(
                self._context,
                bind_host,
                port,
                bytes_max=zeromq.ANSWER_BYTES_MAX,
                hwm=zeromq.ANSWERS_HWM,
            )
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._strangers = zeromq.Strangers(self._answers)
        self._workers: dict[int, tuple[str, zmq.Socket[bytes]]] = {}
        self._wake_up = WakeUp()
        self._poller = zmq.Poller()
        self._poller.register(self._answers, zmq.PollEvent.POLLIN)
        self._poller.register(self._wake_up.fileno(), zmq.PollEvent.POLLIN)

    @property
    def worker_ids(self) -> frozenset[int]:
        """The workers that are connected to, whether or not they are there."""
        return frozenset(self._workers)

    def connect(self, worker_id: int, address: str) -> bool:
        """Make a worker known.  Repeating it is free; a new address replaces the old one.

        Returns False, and counts, if the address may not be connected to or there are
        `WORKERS_MAX` already.
        """
        self._thread.check()
        known = self._workers.get(worker_id)
        if known is not None and known[0] == address:
            return True
        if not zeromq.may_connect(address):
            self._on_dropped("address")
            return False
        if known is None and len(self._workers) >= WORKERS_MAX:
            self._on_dropped("peers")
            return False
        self.disconnect(worker_id)
        socket = zeromq.connect_push(self._context, address, hwm=zeromq.FRAMES_HWM)
        self._workers[worker_id] = (address, socket)
        return True

    def disconnect(self, worker_id: int) -> None:
        """Forget a worker and whatever was still queued for it."""
        self._thread.check()
        known = self._workers.pop(worker_id, None)
        if known is not None:
            known[1].close(linger=0)

    def send(self, worker_id: int, envelope_bytes: bytes, frame_bytes: bytes) -> bool:
        """Queue one delivery for a worker, in the order of the calls.

        Returns
        -------
        bool
            False if it would have to wait (the worker is slow, or its connection does not stand) or
            the worker is not known.  Nothing was queued then.  True promises nothing: see the
            package on loss.
        """
        self._thread.check()
        known = self._workers.get(worker_id)
        if known is None:
            return False
        try:
            known[1].send(envelope_bytes, zmq.Flag.DONTWAIT | zmq.Flag.SNDMORE)
            known[1].send(frame_bytes, zmq.Flag.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def receive(self, limit: int) -> list[Answer]:
        """Take what has arrived, at most `limit` deliveries, those dropped included."""
        self._thread.check()
        self._strangers.report(self._on_dropped)
        answers: list[Answer] = []
        for _ in range(limit):
            parts = zeromq.receive_parts(self._answers, 1)
            if parts is None:
                break
            if not parts:
                self._on_dropped("parts")
                continue
            try:
                answers.append(decode_answer(parts[0]))
            except CorruptFrame:
                self._on_dropped("answer")
        return answers

    def wait(self, timeout_us: int) -> bool:
        """Wait until an answer is there, `wake` was called or the time is over.

        Returns
        -------
        bool
            Whether there was a reason other than the time.  Waits whole milliseconds, rounded up.
        """
        self._thread.check()
        ready = self._poller.poll(max(0, -(-timeout_us // 1_000)))
        self._wake_up.clear()
        return bool(ready)

    def wake(self) -> None:
        """Make `wait` return, now or at its next call.  From any thread, also after `close`."""
        self._wake_up.set()

    def close(self) -> None:
        """Close everything at once; what was not sent is dropped.  Repeating it does nothing."""
        if self._context.closed:
            return
        self._thread.check_closing()
        self._wake_up.close()
        self._strangers.close()
        self._context.destroy(linger=0)
        self._workers.clear()
