"""The trust window: how long a leader or a worker may act on its last renewal.

    trusted until = (the renewal was *sent*) + TTL - margin

It counts from the sending, since the server may have written the renewal at any instant after
that, and it counts on this process' monotonic clock, which keeps running while the process is
stopped: whoever wakes up after a pause finds itself outside.

Source: C. Gray and D. Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed
File Cache Consistency", 1989, section 2 (the holder's term is the shorter one).
"""

from __future__ import annotations


class TrustWindow:
    """Opened by a renewal, closed by time or by a refusal."""

    def __init__(self, *, ttl_us: int, margin_us: int) -> None:
        if not 0 < margin_us < ttl_us:
            raise ValueError(f"a margin of {margin_us} us does not fit a TTL of {ttl_us} us")
        self._length_us = ttl_us - margin_us
        self._until_us: int | None = None

    def renewed(self, sent_us: int) -> None:
        """Take a successful renewal that was sent at `sent_us`; an older one changes nothing."""
        until_us = sent_us + self._length_us
        if self._until_us is None or until_us > self._until_us:
            self._until_us = until_us

    def close(self) -> None:
        """End trust at once: the renewal was refused, or the session broke."""
        self._until_us = None

    def is_open(self, monotonic_us: int) -> bool:
        """Return whether the holder may act."""
        return self._until_us is not None and monotonic_us < self._until_us
