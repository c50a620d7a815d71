"""A proxy that knows which statement an answer belongs to, and keeps one answer back.

It reads just enough of the protocol: which SQL each exchange of messages executes, how the server
ended it (its command tag), and whether a transaction is still open after it.  `arm` names a
statement; the next time the server has committed it, with rows, its client gets no answer.  For a
statement within a transaction the answer that is kept back is the one to COMMIT.  The client's end
stays open until `Cut.release`, so that a test can look at the database first.

Source: PostgreSQL manual, "Message Formats" and "Message Flow".
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from mainspring.store.statements import statement

RELEASE_S_MAX = 4.0  # below the client's own limit on silence
RECEIVE_BYTES = 65_536
CANCEL_REQUEST = 80877102
PARAMETER = re.compile(rb"%\(\w+\)s")


@dataclass(slots=True)
class Cut:
    """An answer that the server gave and the client did not get."""

    tag: str
    statement: str
    _release: threading.Event = field(default_factory=threading.Event)

    @property
    def row_count(self) -> int:
        """How many rows the tag tells; 0 for COMMIT."""
        word = self.tag.rsplit(" ", 1)[-1]
        return int(word) if word.isdigit() else 0

    def release(self) -> None:
        """Let the client's connection break now."""
        self._release.set()

    def wait_release(self) -> None:
        """Wait until the test has looked, a bounded time."""
        self._release.wait(RELEASE_S_MAX)


@dataclass(slots=True)
class _Exchange:
    """What the client sent up to one point of synchronisation."""

    sql: list[bytes] = field(default_factory=list)
    is_target: bool = False
    tag: str = ""
    is_failed: bool = False
    kept: bytearray = field(default_factory=bytearray)


class _Line:
    """One connection: two sockets and what is known of the exchanges on them."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.exchanges: deque[_Exchange] = deque()
        self.coming = _Exchange()
        self.statements: dict[bytes, bytes] = {}
        self.has_matched = False

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def signature(name: str) -> bytes:
    """Return the longest piece of a named statement between its parameters."""
    return max((part.strip() for part in PARAMETER.split(statement(name))), key=len)


class WireProxy:
    """Forwards 127.0.0.1:port to a server."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._lines: list[_Line] = []
        self._threads: list[threading.Thread] = []
        self._armed: tuple[str, bytes] | None = None
        self._cuts: deque[Cut] = deque()
        self._has_cut = threading.Condition()
        self._is_closed = False
        self._spawn(self._accept)

    def arm(self, name: str) -> None:
        """Keep back the next answer to this statement."""
        with self._lock:
            self._armed = (name, signature(name))

    def wait_cut(self, timeout_s: float) -> Cut:
        """Return the answer that was kept back."""
        with self._has_cut:
            assert self._has_cut.wait_for(lambda: self._cuts, timeout_s), "nothing was cut"
            return self._cuts.popleft()

    def close(self) -> None:
        """Break every connection and end every thread."""
        with self._lock:
            self._is_closed = True
            lines = list(self._lines)
        # A shutdown wakes whoever waits in accept; close would not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in lines:
            line.close()
        for thread in self._threads:
            thread.join(10)
        for line in lines:
            line.client.close()
            line.server.close()

    def _spawn(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            line = _Line(client, server)
            with self._lock:
                if self._is_closed:
                    client.close()
                    server.close()
                    return
                self._lines.append(line)
                self._spawn(self._carry_questions, line)
                self._spawn(self._carry_answers, line)

    # From the client -------------------------------------------------------------------------

    def _carry_questions(self, line: _Line) -> None:
        buffer = bytearray()
        is_greeted = False
        with contextlib.suppress(OSError):
            while data := line.client.recv(RECEIVE_BYTES):
                buffer += data
                if not is_greeted and len(buffer) >= 8:
                    length, code = struct.unpack_from("!II", buffer)
                    if len(buffer) >= length:
                        is_greeted = True
                        del buffer[:length]
                        if code != CANCEL_REQUEST:
                            line.exchanges.append(_Exchange())
                if is_greeted:
                    for kind, body in take_messages(buffer):
                        self._hear(line, kind, body)
                line.server.sendall(data)
        line.close()

    def _hear(self, line: _Line, kind: bytes, body: bytes) -> None:
        """Note what is asked, before the server can answer it."""
        match kind:
            case b"P":
                name, sql = body.split(b"\0", 2)[:2]
                line.statements[name] = sql
            case b"B":
                name = body.split(b"\0", 2)[1]
                line.coming.sql.append(line.statements.get(name, b""))
            case b"Q":
                self._ask(line, _Exchange([body.rstrip(b"\0")]))
            case b"S":
                exchange, line.coming = line.coming, _Exchange()
                self._ask(line, exchange)

    def _ask(self, line: _Line, exchange: _Exchange) -> None:
        with self._lock:
            if self._armed is not None:
                _, wanted = self._armed
                if any(wanted in sql for sql in exchange.sql):
                    line.has_matched = exchange.is_target = True
                elif any(sql.strip().upper() == b"COMMIT" for sql in exchange.sql):
                    exchange.is_target = line.has_matched
        line.exchanges.append(exchange)

    # From the server -------------------------------------------------------------------------

    def _carry_answers(self, line: _Line) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while data := line.server.recv(RECEIVE_BYTES):
                buffer += data
                forward = bytearray()
                for kind, body in take_messages(buffer):
                    whole = kind + struct.pack("!I", len(body) + 4) + body
                    exchange = line.exchanges[0] if line.exchanges else None
                    if exchange is None or not exchange.is_target:
                        forward += whole
                    else:
                        exchange.kept += whole
                        if kind == b"C":
                            exchange.tag = body.rstrip(b"\0").decode()
                        exchange.is_failed |= kind == b"E"
                    if kind == b"Z" and exchange is not None:
                        line.exchanges.popleft()
                        if body == b"I":
                            line.has_matched = False
                        cut = self._judge(exchange, is_over=body == b"I")
                        if cut is not None:
                            line.client.sendall(forward)
                            cut.wait_release()
                            line.close()
                            return
                        forward += exchange.kept
                if forward:
                    line.client.sendall(forward)
        line.close()

    def _judge(self, exchange: _Exchange, *, is_over: bool) -> Cut | None:
        """Return the cut if this answer is the one to keep back."""
        if not exchange.is_target:
            return None
        is_commit = exchange.tag == "COMMIT"
        has_rows = exchange.tag.rsplit(" ", 1)[-1] not in {"0", "COMMIT", "ROLLBACK", ""}
        with self._lock:
            if self._armed is None or exchange.is_failed or not is_over:
                return None
            if not (is_commit or has_rows):
                return None
            name, _ = self._armed
            self._armed = None
        cut = Cut(exchange.tag, name)
        with self._has_cut:
            self._cuts.append(cut)
            self._has_cut.notify_all()
        return cut


def take_messages(buffer: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Take the whole messages off a buffer: a type, a length that counts itself, a body."""
    while len(buffer) >= 5:
        (length,) = struct.unpack_from("!I", buffer, 1)
        if len(buffer) < 1 + length:
            return
        kind, body = bytes(buffer[:1]), bytes(buffer[5 : 1 + length])
        del buffer[: 1 + length]
        yield kind, body
