"""Keeps a worker's heartbeat going from a small child process, and knows how fresh it is.

The worker's own threads cannot do it: a handler that holds the interpreter's lock for ten seconds
would look dead while it works.  The child has a connection of its own, imports little, and shares
nothing with its parent but two pipes: orders go down, one line per beat comes up (`_beating`).

**When the parent ends**, the child ends with it, at once and however that happens, so that a killed
worker stops beating (`orphans`).

**When the child ends** otherwise, `poll` starts another.  Until it beats, `last_sent_us` stands
still and the worker's trust window runs out, as it should.

**What a beat is worth.**  `last_sent_us` is when a beat that the server confirmed was *sent*.  A
leader that has not seen it cannot have begun its wait later than that, so a window counted from
there closes in time however slow the answer was.

Source: trust windows as in riverqueue/river:internal/leadership/doc.go; clock_gettime(2):
CLOCK_MONOTONIC is one clock for all processes of a machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from mainspring.clock import US_PER_S, monotonic_us
from mainspring.logs import get_logger
from mainspring.store.statements import statement

log = get_logger("mainspring.heartbeat")

RESTART_WAIT_US: Final = US_PER_S // 2
"""Between two starts, so that a child that cannot live does not take the machine with it."""

FAILED_BEATS_SAID: Final = 3
"""The first ones of an outage may come before anybody else has seen it."""

STOP_WAIT_S: Final = 2.0
UNREAD_BYTES_MAX: Final = 65_536
"""A pipe's capacity; what the child said is read in one piece."""


class HeartbeatChild:
    """A worker's view of the child that beats for it.

    All methods belong to one thread, and it has to outlive the child: the kernel ties the child's
    life to the thread that started it.

    Parameters
    ----------
    dsn
        Goes to the child through a pipe, not through its command line, which everyone can read.
    holder_id
        Already registered.
    beat_s
        From one beat to the next.
    is_lost
        Whether the database is known to be lost: that a beat fails then is not worth a line.
    """

    def __init__(
        self,
        dsn: str,
        holder_id: int,
        *,
        beat_s: float,
        is_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self._dsn = dsn
        self._holder_id = holder_id
        self._beat_s = beat_s
        self._is_lost = is_lost
        self._failed_count = 0
        self._is_failure_said = False
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._last_sent_us: int | None = None
        self._is_dead = False
        self._is_stopped = False
        self._started_us = 0
        self.restart_count = 0

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is no child."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the child; its first beat comes a quarter of a second later."""
        assert self._process is None, "the heartbeat was started twice"
        self._started_us = monotonic_us()
        self._unread = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mainspring._beating", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for the worker, which drains first
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Neither a parent that does not read nor a child that says nothing may hold up the other.
        os.set_blocking(self._process.stdout.fileno(), False)
        order = {
            "dsn": self._dsn,
            "holder_id": self._holder_id,
            "beat_s": self._beat_s,
            "statement": statement("beat").decode(),
        }
        with suppress(BrokenPipeError):  # it has died already; the next poll sees that
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()

    def poll(self) -> None:
        """Take what the child said, and replace a child that has died; does not wait."""
        if self._process is None:
            if not self._is_stopped and not self._is_dead and self._may_restart():
                self.restart_count += 1
                self.start()
            return
        self._take(self._read())
        code = self._process.poll()
        if code is not None:
            self._take(self._read())  # its last words
            self._close()
            if not self._is_dead:
                log.warning("heartbeat child ended", code=code, holder_id=self._holder_id)

    def last_sent_us(self) -> int | None:
        """Return when the last confirmed beat was sent, as of the last `poll`.

        On the monotonic clock (`clock.monotonic_us`).  None before the first beat under this id.
        """
        return self._last_sent_us

    def is_dead(self) -> bool:
        """Return whether the holder was found declared dead, or gone; no child beats then."""
        return self._is_dead

    def restart(self, holder_id: int) -> None:
        """Beat for a new id from now on."""
        self._end_child()
        self._holder_id = holder_id
        self._last_sent_us = None
        self._is_dead = False
        self.start()

    def stop(self) -> None:
        """End the child.  A second call does nothing."""
        self._is_stopped = True
        self._end_child()

    def _may_restart(self) -> bool:
        return monotonic_us() - self._started_us >= RESTART_WAIT_US

    def _read(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            return os.read(self._process.stdout.fileno(), UNREAD_BYTES_MAX)
        except BlockingIOError:
            return b""

    def _take(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            word, _, rest = line.partition(b" ")
            if word == b"sent":
                self._last_sent_us = int(rest)
                self._failed_count, self._is_failure_said = 0, False
            elif word == b"dead":
                self._is_dead = True
            elif word == b"failed":
                self._say_failed(rest.decode())

    def _say_failed(self, reason: str) -> None:
        """Warn of a beat that fails again while the database can be reached, once until it beats.

        One that fails with everything else is nothing of its own.
        """
        self._failed_count += 1
        is_news = self._failed_count >= FAILED_BEATS_SAID and not self._is_lost()
        if is_news and not self._is_failure_said:
            log.warning("heartbeat failed", reason=reason, holder_id=self._holder_id)
            self._is_failure_said = True
        else:
            log.debug("heartbeat failed", reason=reason, holder_id=self._holder_id)

    def _end_child(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # it ends when it reads that
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process = None
