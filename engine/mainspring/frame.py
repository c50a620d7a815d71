"""Frames: one message with up to some hundred firings of one queue and one task.

A frame is a struct of arrays on the wire as in memory, so that a firing costs neither side a
Python object.  `MAINSPRING_PURE=1` chooses the twin `_frame_pure` instead of the compiled
`_frame`; both write the same bytes and refuse the same ones.

Invariants: what `encode` wrote, `decode` reads; a decoded frame's arrays are aligned, read-only
and its own, so that the received buffer may go.

Not here: leases.  A frame that was decoded is not thereby in force; the start tests its fence.

Source: docs/frame.md, from which a worker in another language can be written.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mainspring._frame_pure import (
    FIRINGS_MAX,
    FRAME_BYTES_MAX,
    ID_MAX,
    SHARD_MAX,
    TEXT_BYTES_MAX,
    VERSION,
    FiringColumns,
)

if os.environ.get("MAINSPRING_PURE") == "1":
    from mainspring._frame_pure import decode as _decode
    from mainspring._frame_pure import encode as _encode
else:
    try:
        from mainspring._frame import decode as _decode
        from mainspring._frame import encode as _encode
    except ImportError as error:
        raise ImportError(
            "mainspring._frame is not compiled; run `make ext`, or set MAINSPRING_PURE=1"
        ) from error

__all__ = [
    "FIRINGS_MAX",
    "FRAME_BYTES_MAX",
    "VERSION",
    "FiringColumns",
    "Frame",
    "decode",
    "encode",
]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A decoded frame of n firings, one array per column, read-only.

    `leader`, `frame_no`, `shard` and `term` say who sent it; `leader` and `frame_no` name it in
    answers.  `previous_us` is the occurrence of the job that ran last, -2**63 for none;
    `next_us` the one after this one, `INFINITY_US` for none.  `flags`
    holds the trigger in bits 0 and 1 and catch_up in bit 2.  `key(i)` and `payload(i)` cut the
    two joined columns.
    """

    leader: int
    frame_no: int
    shard: int
    term: int
    queue: str
    task: str
    firing_id: NDArray[np.int64]
    job_id: NDArray[np.int64]
    fence: NDArray[np.int64]
    scheduled_us: NDArray[np.int64]
    due_us: NDArray[np.int64]
    previous_us: NDArray[np.int64]
    next_us: NDArray[np.int64]
    rev: NDArray[np.int32]
    attempt: NDArray[np.int32]
    timeout_s: NDArray[np.int32]
    flags: NDArray[np.uint8]
    key_offsets: NDArray[np.uint32]
    keys: bytes
    payload_offsets: NDArray[np.uint32]
    payloads: bytes

    def __len__(self) -> int:
        return len(self.firing_id)

    def trigger(self, index: int) -> int:
        """Return the value of `model.Trigger` of one firing."""
        return int(self.flags[index]) & 3

    def catch_up(self, index: int) -> bool:
        """Return whether one firing makes up for missed occurrences."""
        return bool(self.flags[index] & 4)

    def key(self, index: int) -> str:
        """Return the explicit idempotency key of one firing; empty means the default key."""
        return self.keys[self.key_offsets[index] : self.key_offsets[index + 1]].decode()

    def payload(self, index: int) -> bytes:
        """Return the JSON text of one firing; it has not been looked at."""
        return self.payloads[self.payload_offsets[index] : self.payload_offsets[index + 1]]


def encode(
    *,
    leader: int,
    frame_no: int,
    shard: int,
    term: int,
    queue: str,
    task: str,
    batch: FiringColumns,
    indices: NDArray[np.int64],
    next_us: NDArray[np.int64],
    keys: Sequence[str] | None = None,
) -> bytes:
    """Gather chosen firings of a batch into a frame.

    Parameters
    ----------
    leader, frame_no, shard, term
        Who sends: holder id, number of the frame (grows per leader), shard and term.
    queue, task
        Those of every chosen firing; 1 to 255 bytes.
    batch
        In.  n claimed firings.
    indices
        In.  int64, shape (k,), 1 <= k <= FIRINGS_MAX.  Rows of `batch`, in the frame's order.
    next_us
        In.  int64, shape (n,), parallel to `batch` and not to `indices`.
    keys
        In.  Parallel to `indices`, "" for the default key.  None, the default: all default.

    Raises
    ------
    ValueError
        If an argument breaks a rule of the frame, firings of several queues or tasks are chosen,
        or the frame would be above FRAME_BYTES_MAX (choose fewer).

    Notes
    -----
    Costs O(k + payload bytes); no Python object per firing unless `keys` is given.
    """
    for name, value, low, high in (
        ("leader", leader, 1, ID_MAX),
        ("frame_no", frame_no, 1, ID_MAX),
        ("shard", shard, 0, SHARD_MAX),
        ("term", term, 1, ID_MAX),
        ("firing count", len(indices), 1, FIRINGS_MAX),
        ("queue's length", len(queue.encode()), 1, TEXT_BYTES_MAX),
        ("task's length", len(task.encode()), 1, TEXT_BYTES_MAX),
    ):
        if not low <= value <= high:
            raise ValueError(f"{name} {value} is outside {low} to {high}")
    if indices.dtype != np.int64 or next_us.dtype != np.int64:
        raise ValueError(f"indices {indices.dtype} and next_us {next_us.dtype} are not both int64")
    if len(next_us) != len(batch):
        raise ValueError(f"{len(next_us)} next occurrences for a batch of {len(batch)}")
    key_offsets = np.zeros(len(indices) + 1, np.int64)
    joined = b""
    if keys is not None:
        if len(keys) != len(indices):
            raise ValueError(f"{len(keys)} keys for {len(indices)} firings")
        encoded = [key.encode() for key in keys]
        np.cumsum([len(key) for key in encoded], out=key_offsets[1:])
        joined = b"".join(encoded)
    return _encode(
        leader,
        frame_no,
        shard,
        term,
        queue,
        task,
        batch,
        np.ascontiguousarray(indices),
        np.ascontiguousarray(next_us),
        key_offsets,
        joined,
    )


def decode(data: bytes | memoryview) -> Frame:
    """Read a frame.

    Raises
    ------
    CorruptFrame
        For anything that docs/frame.md does not allow: no msgpack, another version, a wrong type,
        count or length, a value out of its range, offsets that fall or do not end with their
        bytes, text that is not UTF-8, bytes after the end.  Nothing of such a frame is to be used.
    """
    return Frame(*_decode(data))
