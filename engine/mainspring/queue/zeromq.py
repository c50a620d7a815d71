"""Makes ZeroMQ sockets with our options, reads from them, and counts strangers.

Every option is set here, with its reason.  What travels over the sockets is the business of
`leader_side` and `worker_side`.

Source: libzmq manual, zmq_setsockopt(3), zmq_socket_monitor(3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import zmq

from mainspring.loopback import is_loopback, require_loopback

FRAME_BYTES_MAX: Final = 16_777_216
"""A frame of 256 firings with payloads of 64 KiB each."""

ANSWER_BYTES_MAX: Final = 1_048_576
"""`answers.BYTES_MAX`."""

LIBZMQ_MIN: Final = (4, 3, 5)
"""Older ones have known ways to be crashed from outside (CVE-2021-20236 among them)."""

FRAMES_HWM: Final = 8
"""Frames in a pipe on each side.  Credit is the limit that counts; this one makes `send` say no
while a peer is slow, instead of after a thousand frames of a few hundred firings."""

ANSWERS_HWM: Final = 64
"""Answers are small, and a leader that lags a second should still get the last beacon."""

SOCKETS_MAX: Final = 4_096
"""Peers of one process; libzmq's own default is 1,023."""

MONITORED: Final = (
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)

OnDropped = Callable[[str], None]


def open_context() -> zmq.Context[zmq.Socket[bytes]]:
    """Return a context of our own, so that closing it touches nobody else's sockets."""
    assert zmq.zmq_version_info() >= LIBZMQ_MIN, f"libzmq {zmq.zmq_version()} is too old"
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
    context.set(zmq.ContextOption.MAX_SOCKETS, SOCKETS_MAX)
    return context


def bind_pull(
    context: zmq.Context[zmq.Socket[bytes]],
    host: str,
    port: int,
    *,
    bytes_max: int,
    hwm: int,
) -> tuple[zmq.Socket[bytes], str]:
    """Bind a PULL socket and return it with its address; port 0 takes a free one.

    Raises
    ------
    InvalidInput
        `host` is not loopback.
    zmq.ZMQError
        The port is taken.
    """
    require_loopback(host, "a queue socket")
    socket = context.socket(zmq.SocketType.PULL)
    _set_common(socket)
    socket.set(zmq.SocketOption.RCVHWM, hwm)
    # The claimed size is checked before anything is allocated for it.
    socket.set(zmq.SocketOption.MAXMSGSIZE, bytes_max)
    # A connection that says nothing, or nonsense, is closed after this long.
    socket.set(zmq.SocketOption.HANDSHAKE_IVL, 5_000)
    if ":" in host:
        socket.set(zmq.SocketOption.IPV6, 1)
        host = f"[{host.strip('[]')}]"
    try:
        socket.bind(f"tcp://{host}:{port or '*'}")
    except BaseException:
        socket.close(linger=0)
        raise
    endpoint = socket.getsockopt(zmq.SocketOption.LAST_ENDPOINT)
    assert isinstance(endpoint, bytes)
    return socket, endpoint.rstrip(b"\0").decode()


def connect_push(
    context: zmq.Context[zmq.Socket[bytes]], address: str, *, hwm: int
) -> zmq.Socket[bytes]:
    """Connect a PUSH socket; the peer need not be there yet.

    Raises
    ------
    zmq.ZMQError
        The address is malformed, or there are `SOCKETS_MAX` sockets already.
    """
    socket = context.socket(zmq.SocketType.PUSH)
    _set_common(socket)
    socket.set(zmq.SocketOption.SNDHWM, hwm)
    # Queue only to a connection that stands.  Otherwise frames for a worker that is gone pile up
    # and reach whoever binds its port next.
    socket.set(zmq.SocketOption.IMMEDIATE, 1)
    # A restarted peer is found again within a tenth of a second, an absent one asked every 2 s.
    socket.set(zmq.SocketOption.RECONNECT_IVL, 100)
    socket.set(zmq.SocketOption.RECONNECT_IVL_MAX, 2_000)
    socket.set(zmq.SocketOption.CONNECT_TIMEOUT, 3_000)
    socket.set(zmq.SocketOption.HANDSHAKE_IVL, 5_000)
    # A peer never sends on this pipe; what a stranger sends is cut at a kilobyte.
    socket.set(zmq.SocketOption.MAXMSGSIZE, 1_024)
    if address.startswith("tcp://["):
        socket.set(zmq.SocketOption.IPV6, 1)
    try:
        socket.connect(address)
    except BaseException:
        socket.close(linger=0)
        raise
    return socket


def _set_common(socket: zmq.Socket[bytes]) -> None:
    # What was not sent is worth nothing after close: leases bring it back.  So close never waits.
    socket.set(zmq.SocketOption.LINGER, 0)
    # Kernel buffers hold what the high-water mark does not see.  These keep one frame of usual size
    # under way, which is enough on loopback.
    socket.set(zmq.SocketOption.SNDBUF, 262_144)
    socket.set(zmq.SocketOption.RCVBUF, 262_144)
    # A peer whose kernel is gone: keepalives notice it while idle, MAXRT while sending.
    socket.set(zmq.SocketOption.TCP_KEEPALIVE, 1)
    socket.set(zmq.SocketOption.TCP_KEEPALIVE_IDLE, 5)
    socket.set(zmq.SocketOption.TCP_KEEPALIVE_INTVL, 2)
    socket.set(zmq.SocketOption.TCP_KEEPALIVE_CNT, 3)
    socket.set(zmq.SocketOption.TCP_MAXRT, 10_000)


def may_connect(address: str) -> bool:
    """Return whether `address` is `tcp://` and a loopback host and a port, and nothing else."""
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= 65_535
    return scheme == "tcp" and is_port and is_loopback(host)


def receive_parts(socket: zmq.Socket[bytes], count: int) -> list[bytes] | None:
    """Take one delivery without waiting.

    Returns
    -------
    list[bytes] or None
        Its parts if there are exactly `count`, the empty list if there are more or fewer; None if
        nothing is there.  Surplus parts are let go one by one, not gathered.
    """
    parts: list[bytes] = []
    is_more = True
    surplus = False
    while is_more:
        try:
            part = socket.recv(zmq.Flag.DONTWAIT)
        except zmq.Again:
            return None
        if len(parts) < count:
            parts.append(part)
        else:
            surplus = True
        is_more = bool(socket.get(zmq.SocketOption.RCVMORE))
    return parts if len(parts) == count and not surplus else []


class Strangers:
    """Counts connections to a socket that failed their handshake."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._events: zmq.Socket[bytes] = socket.get_monitor_socket(int(MONITORED))

    def report(self, on_dropped: OnDropped) -> None:
        """Call `on_dropped("handshake")` for each since the last call."""
        while receive_parts(self._events, 2) is not None:
            on_dropped("handshake")

    def close(self) -> None:
        """Stop listening; the socket itself stays open."""
        self._socket.disable_monitor()


class OneThread:
    """Asserts that an object is used from one thread only: the one that uses it first."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Raise `AssertionError` in any thread but the first that called this."""
        current = threading.current_thread()
        if self._thread is None:
            self._thread = current
        assert self._thread is current, f"sockets of {self._thread.name} used from {current.name}"

    def check_closing(self) -> None:
        """Like `check`, but after the end of that thread any other may clean up."""
        if self._thread is not None and self._thread.is_alive():
            self.check()
