"""The worker's sockets: one PULL for frames, one PUSH per leader for answers.

Source: the package's docstring.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import zmq

from mainspring.errors import CorruptFrame
from mainspring.queue import zeromq
from mainspring.queue.answers import Answer, Beacon, Envelope, decode_envelope, encode
from mainspring.queue.wake import WakeUp

LEADERS_MAX: Final = 256
"""Leaders one worker answers to.  Addresses come over the wire, so there has to be a limit."""

RESEND_MAX: Final = 256
"""Differences kept for one leader whose pipe is full; beyond it the oldest goes, and its sweep
finds the rows a second later."""


class _Leader:
    """One leader's PUSH socket and what it has not taken yet."""

    def __init__(self, address: str, socket: zmq.Socket[bytes]) -> None:
        self.address = address
        self.socket = socket
        self.unsent: deque[bytes] = deque()

    def push(self, data: bytes) -> bool:
        try:
            self.socket.send(data, zmq.Flag.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def flush(self) -> bool:
        """Send what was kept, in order; return whether nothing is left."""
        while self.unsent and self.push(self.unsent[0]):
            self.unsent.popleft()
        return not self.unsent


class WorkerSockets:
    """What a worker process takes frames and answers leaders with.

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
            self._frames, self.address = zeromq.bind_pull(
                self._context,
                bind_host,
                port,
                bytes_max=zeromq.FRAME_BYTES_MAX,
                hwm=zeromq.FRAMES_HWM,
            )
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._strangers = zeromq.Strangers(self._frames)
        self._leaders: dict[int, _Leader] = {}
        self._wake_up = WakeUp()
        self._poller = zmq.Poller()
        self._poller.register(self._frames, zmq.PollEvent.POLLIN)
        self._poller.register(self._wake_up.fileno(), zmq.PollEvent.POLLIN)

    @property
    def leader_ids(self) -> frozenset[int]:
        """The leaders that are connected to, whether or not they are there."""
        return frozenset(self._leaders)

    def receive(self, limit: int) -> list[tuple[Envelope, bytes]]:
        """Take what has arrived, at most `limit` deliveries, those dropped included.

        The second of each pair is the frame as it came: its codec checks it.
        """
        self._thread.check()
        self._strangers.report(self._on_dropped)
        deliveries: list[tuple[Envelope, bytes]] = []
        for _ in range(limit):
            parts = zeromq.receive_parts(self._frames, 2)
            if parts is None:
                break
            if not parts:
                self._on_dropped("parts")
                continue
            try:
                deliveries.append((decode_envelope(parts[0]), parts[1]))
            except CorruptFrame:
                self._on_dropped("envelope")
        return deliveries

    def answer(self, leader_id: int, address: str, answer: Answer) -> bool:
        """Say something to a leader, connecting to it first if need be.

        Differences (`Returned`, `Hints`) that find the pipe full are kept and sent before the next
        answer to this leader; a `Beacon` is dropped quietly, since the next one says it all again.

        Returns
        -------
        bool
            Whether it left now.
        """
        self._thread.check()
        leader = self._connected(leader_id, address)
        if leader is None:
            return False
        data = encode(answer)
        if len(data) > zeromq.ANSWER_BYTES_MAX:
            self._on_dropped("oversize")  # the leader's libzmq would end the connection
            return False
        if leader.flush() and leader.push(data):
            return True
        if not isinstance(answer, Beacon):
            if len(leader.unsent) >= RESEND_MAX:
                leader.unsent.popleft()
                self._on_dropped("resend")
            leader.unsent.append(data)
        return False

    def forget(self, leader_id: int) -> None:
        """Drop a leader's socket and what was kept for it."""
        self._thread.check()
        leader = self._leaders.pop(leader_id, None)
        if leader is not None:
            leader.socket.close(linger=0)

    def wait(self, timeout_us: int) -> bool:
        """Wait until a frame is there, `wake` was called or the time is over.

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
        self._leaders.clear()

    def _connected(self, leader_id: int, address: str) -> _Leader | None:
        leader = self._leaders.get(leader_id)
        if leader is not None and leader.address == address:
            return leader
        if not zeromq.may_connect(address):
            self._on_dropped("address")
            return None
        if leader is None and len(self._leaders) >= LEADERS_MAX:
            self._on_dropped("peers")
            return None
        # A leader that came back elsewhere: what was kept is of no use to its new ledger.
        self.forget(leader_id)
        leader = _Leader(
            address, zeromq.connect_push(self._context, address, hwm=zeromq.ANSWERS_HWM)
        )
        self._leaders[leader_id] = leader
        return leader
