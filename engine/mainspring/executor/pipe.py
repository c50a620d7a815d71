"""What a worker and the children that run its handlers say to each other over pipes.

Each piece is four bytes of length, big-endian, and msgpack; never pickle, since what comes back was
made by code that may be anything.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from mainspring.errors import CorruptFrame
from mainspring.handlers import Outcome, RunFacts

BYTES_MAX: Final = 16_777_216


class RunOrder(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    """Run this; the deadline is on the machine's monotonic clock, which all processes share."""

    target: str
    is_async: bool
    facts: RunFacts
    deadline_us: int
    payload: bytes
    output_bytes_max: int


class CancelOrder(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """Set `ctx.cancelled` of the run that is going on."""


class ImportPath(msgspec.Struct, frozen=True, array_like=True, tag="path"):
    """Where modules are found; comes first."""

    entries: list[str]


Order = RunOrder | CancelOrder | ImportPath

_encoder: Final = msgspec.msgpack.Encoder()
_order_decoder: Final = msgspec.msgpack.Decoder(Order)
_outcome_decoder: Final = msgspec.msgpack.Decoder(Outcome)


def write(fd: int, value: Order | Outcome) -> None:
    """Write one piece, whole.  Raises `OSError` if nobody reads."""
    data = _encoder.encode(value)
    rest = memoryview(len(data).to_bytes(4, "big") + data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def read_order(fd: int) -> Order | None:
    """Wait for what the worker says; None at its end.  Raises `CorruptFrame`."""
    data = _read(fd)
    return None if data is None else _order_decoder.decode(data)


def read_outcome(fd: int) -> Outcome | None:
    """Wait for what a child says; None at its end.  Raises `CorruptFrame`."""
    data = _read(fd)
    try:
        return None if data is None else _outcome_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptFrame(f"what a child says does not decode: {error}") from error


def _read(fd: int) -> bytes | None:
    head = _read_exactly(fd, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > BYTES_MAX:
        raise CorruptFrame(f"a piece of {size} bytes is over the limit of {BYTES_MAX}")
    return _read_exactly(fd, size)


def _read_exactly(fd: int, size: int) -> bytes | None:
    """Return that many bytes, or None if the other side ended before."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(fd, size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)
