"""The only door through which time enters: the process' monotonic clock, and database time.

Local deadlines (trust windows, silence, sleeps) use the monotonic clock, which no administrator
and no NTP daemon can step.  Due times are decided by the database clock; this module knows it as
an *interval*, since a clock read over a network is never exact.  Nothing here reads the host's
wall clock.

Source: F. Cristian, "Probabilistic clock synchronization", 1989 (the midpoint estimate and its
error bound of half the round trip).
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

US_PER_S = 1_000_000
DRIFT_MAX_PPM = 1_000  # crystals stay within 100 ppm and a slewing NTP daemon adds at most 500


def monotonic_us() -> int:
    """Return microseconds of the process' monotonic clock; the origin has no meaning."""
    return time.monotonic_ns() // 1_000


def monotonic_s() -> float:
    """Return seconds of the process' monotonic clock, for time-outs at the rim."""
    return time.monotonic()


def sleep_s(seconds: float) -> None:
    """Block this thread.  Only drivers at the rim may call it."""
    time.sleep(seconds)


class Clock(Protocol):
    """What a driver asks for the time; tests hand in one they move by hand."""

    def monotonic_us(self) -> int:
        """Return microseconds on a clock that never steps."""

    def sleep_us(self, duration_us: int) -> None:
        """Wait that long, or make it pass."""


class SystemClock:
    """The real clock."""

    def monotonic_us(self) -> int:
        """Return microseconds of the process' monotonic clock."""
        return monotonic_us()

    def sleep_us(self, duration_us: int) -> None:
        """Block this thread."""
        if duration_us > 0:
            time.sleep(duration_us / US_PER_S)


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start_us: int = 0) -> None:
        self._now_us = start_us
        self._lock = threading.Lock()

    def monotonic_us(self) -> int:
        """Return the instant it was last moved to."""
        with self._lock:
            return self._now_us

    def sleep_us(self, duration_us: int) -> None:
        """Advance by `duration_us` at once."""
        self.advance_us(duration_us)

    def advance_us(self, duration_us: int) -> None:
        """Move forward; a monotonic clock cannot go back."""
        if duration_us < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-duration_us} us")
        with self._lock:
            self._now_us += duration_us


class DatabaseClock:
    """Database time as an interval, carried forward by the monotonic clock.

    `observe` takes one reading.  `low_us` is a bound that database time has surely passed, so a
    firing whose `due_at` is at or before it may be released without being early; `high_us` is one
    that it has surely not passed.  Until the first reading both raise, since nothing is known.

    A *step* of the database clock (an administrator, a failover) shows as a reading whose interval
    does not meet the one carried forward; it is counted in `step_count`, and the newest reading
    wins.
    """

    def __init__(self) -> None:
        self._base_us = 0
        self._offset_us = 0
        self._error_us = -1
        self.step_count = 0
        self.last_step_us = 0

    @property
    def is_known(self) -> bool:
        """Whether a reading was ever taken."""
        return self._error_us >= 0

    def observe(self, sent_us: int, received_us: int, database_us: int) -> bool:
        """Take a reading made between two monotonic instants; return whether the clock stepped.

        A reading with a wider error than the one carried forward is not taken over, unless it
        contradicts it.
        """
        if received_us < sent_us:
            raise ValueError(f"a reply at {received_us} us precedes its request at {sent_us} us")
        middle_us = (sent_us + received_us) // 2
        error_us = (received_us - sent_us + 1) // 2
        offset_us = database_us - middle_us
        if not self.is_known:
            self._base_us, self._offset_us, self._error_us = middle_us, offset_us, error_us
            return False
        carried_us = self._carried_error_us(middle_us)
        difference_us = offset_us - self._offset_us
        is_step = abs(difference_us) > carried_us + error_us
        if is_step:
            self.step_count += 1
            self.last_step_us = difference_us
        if is_step or error_us <= carried_us:
            self._base_us, self._offset_us, self._error_us = middle_us, offset_us, error_us
        return is_step

    def low_us(self, monotonic_now_us: int) -> int:
        """Return an instant that database time has surely reached."""
        self._require_known()
        return monotonic_now_us + self._offset_us - self._carried_error_us(monotonic_now_us)

    def high_us(self, monotonic_now_us: int) -> int:
        """Return an instant that database time has surely not passed."""
        self._require_known()
        return monotonic_now_us + self._offset_us + self._carried_error_us(monotonic_now_us)

    def monotonic_when_surely_us(self, database_us: int) -> int:
        """Return the monotonic instant from which `low_us` is at least `database_us`."""
        self._require_known()
        return database_us - self._offset_us + self._carried_error_us(self._base_us) + 1

    def _carried_error_us(self, monotonic_now_us: int) -> int:
        age_us = max(0, monotonic_now_us - self._base_us)
        return self._error_us + age_us * DRIFT_MAX_PPM // 1_000_000

    def _require_known(self) -> None:
        if not self.is_known:
            raise RuntimeError("database time is asked for before it was ever read")
