"""A TCP proxy that falls silent or breaks off on purpose."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence


class Proxy:
    """Forwards 127.0.0.1:port to a server; each connection has a thread for either direction.

    `stall` keeps connections open and forwards nothing more until `resume`.  `cut_answers_after`
    breaks all connections once that many further bytes came from the server; with 0 the request
    still goes through, so the client cannot know what became of it.  `cut_requests` breaks them at
    the next byte from the client, which the server then never sees.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._is_stalled = False
        self._answer_bytes_left: int | None = None
        self._cuts_requests = False
        self._spawn(self._accept)

    def stall(self) -> None:
        with self._lock:
            self._is_stalled = True

    def resume(self) -> None:
        with self._lock:
            self._is_stalled = False

    def cut_answers_after(self, byte_count: int) -> None:
        with self._lock:
            self._answer_bytes_left = byte_count

    def cut_requests(self) -> None:
        with self._lock:
            self._cuts_requests = True

    def close(self) -> None:
        self._listener.close()
        self._break_off()

    def _spawn(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

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
            with self._lock:
                self._open += (client, server)
            self._spawn(self._pump, client, server, False)
            self._spawn(self._pump, server, client, True)

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        was_cut = False
        try:
            while chunk := source.recv(65_536):
                with self._lock:
                    if self._is_stalled:
                        continue
                    cut = not is_answer and self._cuts_requests
                    if is_answer and self._answer_bytes_left is not None:
                        cut = len(chunk) > self._answer_bytes_left
                        chunk = chunk[: self._answer_bytes_left]
                        self._answer_bytes_left -= len(chunk)
                    if cut:
                        self._cuts_requests, self._answer_bytes_left = False, None
                        if is_answer and chunk:
                            sink.sendall(chunk)
                if cut:
                    was_cut = True
                    break
                sink.sendall(chunk)
        except OSError:
            pass
        self._break_off(() if was_cut else (source, sink))

    def _break_off(self, ends: Sequence[socket.socket] = ()) -> None:
        """Break these two ends of one connection, or those of all."""
        with self._lock:
            broken = [end for end in self._open if not ends or end in ends]
            self._open = [end for end in self._open if end not in broken]
        for end in broken:
            # The other pump may wait in recv: shutdown wakes it, close would not.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
