"""What scheduler and worker say to each other besides frames: envelopes, beacons, hints.

Values only, with their msgpack form (msgspec, array-like, closed, bounded).  Every list that comes
from outside has a limit; a violation is `CorruptFrame`, which is counted and dropped.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from mainspring.errors import CorruptFrame

VERSION: Final = 1
BYTES_MAX: Final = 1_048_576
IN_HAND_MAX: Final = 20_000
NAMES_MAX: Final = 4_096

Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Names = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]


class Envelope(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="envelope"
):
    """First part of what a leader sends; the second is the frame.

    `seq` counts the frames of this leader to this worker from 1, without a gap, so that a worker
    can tell what the wire lost.  `answer_to` is where the leader takes beacons.
    """

    version: int
    leader: Id
    worker: Id
    seq: Id
    answer_to: Name


class Beacon(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="beacon"
):
    """What a worker tells each leader, at least every `beacon_seconds` and on every receipt.

    It is a whole state, never a difference: a lost one is healed by the next.  `in_hand` lists
    (seq, firings not yet finished) of the frames received and not finished; being listed is the
    answer *held*.  A seq at or below `received_seq` that is not listed is finished, unless `lost`
    has it: then it never arrived.
    """

    version: int
    worker: Id
    leader: Id
    window: Annotated[int, Meta(ge=0, le=1_000_000)]
    received_seq: Seq
    in_hand: Annotated[
        tuple[tuple[Id, Annotated[int, Meta(ge=0, le=1_000_000)]], ...],
        Meta(max_length=IN_HAND_MAX),
    ]
    lost: Annotated[tuple[Id, ...], Meta(max_length=IN_HAND_MAX)]
    queues: Names
    tasks: Names
    draining: bool


class Returned(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="returned"
):
    """Firings of one frame that this worker will not start: refused by the store, or drained."""

    version: int
    worker: Id
    leader: Id
    seq: Id
    firing_ids: Annotated[tuple[Id, ...], Meta(max_length=4_096)]


class Hints(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="hints"):
    """Firings that are due again soon, as the answers to this worker's completions said.

    Parallel columns: shard, firing id, due time in microseconds since the Unix epoch.
    """

    version: int
    worker: Id
    leader: Id
    shards: Annotated[tuple[Annotated[int, Meta(ge=0, le=32_767)], ...], Meta(max_length=20_000)]
    firing_ids: Annotated[tuple[Id, ...], Meta(max_length=20_000)]
    due_us: Annotated[tuple[int, ...], Meta(max_length=20_000)]


Answer = Beacon | Returned | Hints
_T = TypeVar("_T")
_Versioned = TypeVar("_Versioned", Envelope, Beacon | Returned | Hints)

_encoder = msgspec.msgpack.Encoder()
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_answer_decoder = msgspec.msgpack.Decoder(Answer)


def encode(value: Envelope | Answer) -> bytes:
    """Return the msgpack form."""
    return _encoder.encode(value)


def decode_envelope(data: bytes) -> Envelope:
    """Read the first part of a delivery; raises `CorruptFrame`."""
    return _checked(_decode(_envelope_decoder, data))


def decode_answer(data: bytes) -> Answer:
    """Read what a worker sent; raises `CorruptFrame`."""
    answer = _checked(_decode(_answer_decoder, data))
    if isinstance(answer, Hints) and not (
        len(answer.shards) == len(answer.firing_ids) == len(answer.due_us)
    ):
        raise CorruptFrame("the columns of a hint differ in length")
    return answer


def _decode(decoder: msgspec.msgpack.Decoder[_T], data: bytes) -> _T:
    if len(data) > BYTES_MAX:
        raise CorruptFrame(f"an answer of {len(data)} bytes is over the limit of {BYTES_MAX}")
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise CorruptFrame(f"an answer does not decode: {str(error)[:200]}") from error


def _checked(value: _Versioned) -> _Versioned:
    if value.version != VERSION:
        raise CorruptFrame(
            f"version {value.version} of the wire is not known",
            hint=f"This release speaks version {VERSION}; upgrade the older process.",
        )
    return value
