"""Claimed firings to measure with: the shapes of a hot second."""

from __future__ import annotations

import struct

import numpy as np

from mainspring.claim import ClaimBatch, ClaimRow

PAYLOAD = (
    b'{"report":"weekly","recipients":["a@example.com","b@example.com"],"pad":"'
    + b"x" * 220
    + b'"}'
)
DUE_US = 1_780_920_000_000_000
PG_EPOCH_US = 946_684_800_000_000


def batch_of(count: int) -> ClaimBatch:
    """Return a batch of firings that are due in one second."""
    return ClaimBatch.from_rows([row_of(number) for number in range(1, count + 1)])


def row_of(number: int) -> ClaimRow:
    """Return one firing."""
    return ClaimRow(
        firing_id=number, job_id=number, due_us=DUE_US, scheduled_us=DUE_US, fence=1, rev=1,
        attempt=1, trigger=0, catch_up=False, lost_count=0, first_claim=True, claimed_us=DUE_US,
        anchor_us=DUE_US, timeout_s=300, grace_s=60, task="report", queue="default",
        schedule=f"{number % 60} * * * *", zone="America/New_York", template=None, name="report",
        payload=PAYLOAD,
    )  # fmt: skip


def copy_bytes(count: int) -> bytes:
    """Return what a COPY of such firings sends."""
    parts = [b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)]
    for number in range(1, count + 1):
        row = row_of(number)
        due = struct.pack(">q", row.due_us - PG_EPOCH_US)
        texts = [row.task, row.queue, row.schedule, row.zone, None, row.name]
        fields: list[bytes | None] = [
            struct.pack(">q", row.firing_id), struct.pack(">q", row.job_id), due, due,
            struct.pack(">q", row.fence), struct.pack(">i", row.rev),
            struct.pack(">i", row.attempt), struct.pack(">h", row.trigger), b"\0",
            struct.pack(">h", row.lost_count), b"\1", due, due,
            struct.pack(">i", row.timeout_s), struct.pack(">i", row.grace_s),
            *[None if text is None else text.encode() for text in texts], row.payload,
        ]  # fmt: skip
        parts.append(struct.pack(">h", len(fields)))
        parts.extend(_field(field) for field in fields)
    parts.append(struct.pack(">h", -1))
    return b"".join(parts)


def _field(field: bytes | None) -> bytes:
    return struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field


def ticks_of(count: int, *, spread: int) -> np.ndarray:
    """Return due ticks, all of one slot or spread over many."""
    return np.arange(count, dtype=np.int64) % spread + 1_000
