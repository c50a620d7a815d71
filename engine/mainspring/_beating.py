"""The child process of a heartbeat: beats until it is told that the holder is dead.

Started by `heartbeat` as `python -m mainspring._beating PARENT_PID`.  One line of JSON comes in
(`dsn`, `holder_id`, `beat_s`, `statement`); after that the end of input means that the parent is
gone.  Lines that go out:

    sent 123456789      the beat sent at this microsecond of the monotonic clock is confirmed
    failed Class 57P01  this one is not; the session is opened anew
    dead                the holder was declared dead or has left; the child ends

It imports psycopg and next to nothing of ours, so that it starts fast and stays small.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mainspring.clock import US_PER_S, monotonic_us, sleep_s
from mainspring.orphans import die_with_parent, ignore_stop_signals

RECONNECT_S: Final = 0.2

LIMITS: Final[dict[str, str]] = {
    "connect_timeout": "2",
    "tcp_user_timeout": "2000",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
}
"""A silent network fails a beat in seconds instead of a quarter of an hour; a DSN may overrule."""

# A beat that a crash of the server takes back is made good by the next, so it need not wait for
# the disk.  A beat that waits for a lock is late; better to say so and try again.
SESSION: Final = "-c synchronous_commit=off -c statement_timeout=2s -c lock_timeout=1s"


def connect(dsn: str, holder_id: int) -> psycopg.Connection[Any]:
    """Open the session that beats."""
    given = conninfo_to_dict(dsn)
    settings = {
        **LIMITS,
        **given,
        "application_name": f"mainspring heartbeat {holder_id}",
        "options": f"{given.get('options', '')} {SESSION}".strip(),
    }
    return psycopg.connect(make_conninfo("", **settings), autocommit=True)


def beat_on(dsn: str, holder_id: int, beat_s: float, statement: str) -> None:
    """Beat at a fixed rate until the holder is dead."""
    connection: psycopg.Connection[Any] | None = None
    beat_us = int(beat_s * US_PER_S)
    next_us = monotonic_us()
    while True:
        sleep_s(max(0, next_us - monotonic_us()) / US_PER_S)
        try:
            if connection is None:
                connection = connect(dsn, holder_id)
            sent_us = monotonic_us()
            row = connection.execute(statement.encode(), {"holder": holder_id}).fetchone()
        except psycopg.Error as error:
            say(f"failed {type(error).__name__} {error.sqlstate or ''}".rstrip())
            if connection is not None:
                connection.close()
            connection = None
            next_us = monotonic_us() + min(int(RECONNECT_S * US_PER_S), beat_us)
            continue
        if row is None:
            say("dead")
            connection.close()
            return
        say(f"sent {sent_us}")
        next_us = max(next_us + beat_us, monotonic_us())


def say(line: str) -> None:
    """Write one line; if the parent has not read for an hour, leave it out."""
    # Atomic, since it is shorter than PIPE_BUF.
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(1, f"{line}\n".encode())


def end_with_input() -> None:
    """Wait for the end of input and leave at once, whatever the main thread does."""
    while os.read(0, 4_096):
        pass
    os._exit(0)


def read_order() -> dict[str, Any]:
    """Read the first line, byte by byte, so that nothing behind it is taken."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)
        line += byte
    order: dict[str, Any] = json.loads(line)
    return order


def main() -> None:
    """Run the child."""
    ignore_stop_signals()
    die_with_parent(int(sys.argv[1]))
    os.set_blocking(1, False)
    order = read_order()
    threading.Thread(target=end_with_input, daemon=True).start()
    beat_on(order["dsn"], order["holder_id"], order["beat_s"], order["statement"])
    # With os._exit nothing waits for the thread that reads.
    os._exit(0)


if __name__ == "__main__":
    main()
