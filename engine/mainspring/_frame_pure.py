"""The pure twin of `_frame`: frames by msgspec and numpy.

Equals the compiled codec on every input: the same bytes, the same columns, the same class of
error, and the same message too unless the bytes are no msgpack at all.

Source: docs/frame.md.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mainspring.errors import CorruptFrame

VERSION: Final = 2
FIRINGS_MAX: Final = 4_096
TEXT_BYTES_MAX: Final = 255
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
SHARD_MAX: Final = 32_767
ID_MAX: Final = 2**63 - 1

_FLAGS_KNOWN: Final = 7  # bits 0-1 trigger, bit 2 catch_up
_FIELD_COUNT: Final = 23
_I64: Final = ("firing_id", "job_id", "fence", "scheduled_us", "due_us", "previous_us", "next_us")
_I32: Final = ("rev", "attempt", "timeout_s")
_AT_LEAST_ONE: Final = ("firing_id", "job_id", "fence", "attempt", "timeout_s")

I64: TypeAlias = NDArray[np.int64]
I32: TypeAlias = NDArray[np.int32]
Decoded: TypeAlias = tuple[
    int, int, int, int, str, str,
    I64, I64, I64, I64, I64, I64, I64, I32, I32, I32,
    NDArray[np.uint8], NDArray[np.uint32], bytes, NDArray[np.uint32], bytes,
]  # fmt: skip
"""The values of `frame.Frame`, in order."""


class Texts(Protocol):
    """Dictionary-encoded texts, as `claim.Codes`."""

    @property
    def codes(self) -> I32:
        """Code of each row."""

    def __getitem__(self, index: int, /) -> str | None: ...


class Blobs(Protocol):
    """Byte strings end to end, as `claim.Blobs`."""

    @property
    def offsets(self) -> I64:
        """Where each begins, and where the last ends."""

    @property
    def joined(self) -> bytes:
        """Their bytes."""


class FiringColumns(Protocol):
    """What a frame takes of a batch of n firings; `claim.ClaimBatch` has it."""

    def __len__(self) -> int: ...
    @property
    def firing_id(self) -> I64: ...
    @property
    def job_id(self) -> I64: ...
    @property
    def fence(self) -> I64: ...
    @property
    def scheduled_us(self) -> I64: ...
    @property
    def due_us(self) -> I64: ...
    @property
    def previous_us(self) -> I64: ...
    @property
    def rev(self) -> I32: ...
    @property
    def attempt(self) -> I32: ...
    @property
    def timeout_s(self) -> I32: ...
    @property
    def trigger(self) -> NDArray[np.int16]: ...
    @property
    def catch_up(self) -> NDArray[np.uint8]: ...
    @property
    def queue(self) -> Texts: ...
    @property
    def task(self) -> Texts: ...
    @property
    def payload(self) -> Blobs: ...


def encode(
    leader: int,
    frame_no: int,
    shard: int,
    term: int,
    queue: str,
    task: str,
    batch: FiringColumns,
    indices: I64,
    next_us: I64,
    key_offsets: I64,
    keys: bytes,
) -> bytes:
    """Write a frame; `mainspring.frame.encode` has the contract and has checked the header.

    `key_offsets`, shape (k + 1,), are those of `keys`, one for each of `indices`.
    """
    _check_rows(batch, indices, len(next_us))
    _check_name("queue", queue, batch.queue, indices)
    _check_name("task", task, batch.task, indices)
    starts, ends = batch.payload.offsets[indices], batch.payload.offsets[indices + 1]
    joined = batch.payload.joined
    if ((starts < 0) | (ends < starts) | (ends > len(joined))).any():
        raise ValueError("the payload offsets of the batch do not fit its payloads")
    payloads = b"".join(joined[start:end] for start, end in zip(starts, ends, strict=True))
    payload_offsets = np.concatenate(([0], np.cumsum(ends - starts)))
    flags = batch.trigger[indices] | batch.catch_up[indices].astype(np.int16) << 2
    columns = [getattr(batch, name)[indices].astype("<i8").tobytes() for name in _I64[:-1]]
    columns.append(next_us[indices].astype("<i8").tobytes())
    columns += [getattr(batch, name)[indices].astype("<i4").tobytes() for name in _I32]
    columns.append(flags.astype(np.uint8).tobytes())
    columns += [key_offsets.astype("<u4").tobytes(), keys]
    columns += [payload_offsets.astype("<u4").tobytes(), payloads]
    header = (VERSION, leader, frame_no, shard, term, queue, task, len(indices))
    frame = msgspec.msgpack.encode((*header, *columns))
    if len(frame) > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {len(frame)} bytes is above {FRAME_BYTES_MAX}")
    return frame


def _check_rows(batch: FiringColumns, indices: I64, row_count: int) -> None:
    """Raise ValueError unless `decode` would take the chosen rows."""
    is_outside = (indices < 0) | (indices >= row_count)
    if is_outside.any():
        place = is_outside.argmax()
        raise ValueError(f"firing {place}: {indices[place]} is no row of a batch of {row_count}")
    for name in _AT_LEAST_ONE:
        cells = getattr(batch, name)[indices]
        if cells.min() < 1:
            place = (cells < 1).argmax()
            raise ValueError(f"{name} {cells[place]} of firing {place} is below 1")
    trigger, catch_up = batch.trigger[indices], batch.catch_up[indices]
    is_unknown = (trigger < 0) | (trigger > 3) | (catch_up > 1)
    if is_unknown.any():
        place = is_unknown.argmax()
        raise ValueError(f"trigger or catch_up of firing {place} has no bits in the flags")


def _check_name(name: str, text: str, column: Texts, indices: I64) -> None:
    """Raise ValueError unless the chosen rows all hold `text`."""
    is_other = column.codes[indices] != column.codes[indices[0]]
    if is_other.any():
        raise ValueError(f"firing {is_other.argmax()} has another {name} than firing 0")
    first = column[int(indices[0])]
    if first != text:
        raise ValueError(f"the firings have {name} {first!r}, not {text!r}")


def decode(data: bytes | memoryview) -> Decoded:
    """Read a frame; return the values of `mainspring.frame.Frame`, in order.

    `mainspring.frame.decode` has the contract.
    """
    if len(data) > FRAME_BYTES_MAX:
        raise CorruptFrame(f"bad frame: {len(data)} bytes are more than {FRAME_BYTES_MAX}")
    try:
        fields = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorruptFrame(f"bad frame: {error}") from None
    if not fields:
        raise CorruptFrame(f"bad frame: 0 fields where {_FIELD_COUNT} are due")
    version = _int("version", fields[0], -(2**63), 2**64 - 1)
    if version != VERSION:
        raise CorruptFrame(
            f"bad frame: version {version} where {VERSION} is due",
            hint="Bring schedulers and workers to releases that speak the same version.",
        )
    if len(fields) != _FIELD_COUNT:
        raise CorruptFrame(f"bad frame: {len(fields)} fields where {_FIELD_COUNT} are due")
    header = (
        _int("leader", fields[1], 1, ID_MAX),
        _int("frame_no", fields[2], 1, ID_MAX),
        _int("shard", fields[3], 0, SHARD_MAX),
        _int("term", fields[4], 1, ID_MAX),
        _text("queue", fields[5]),
        _text("task", fields[6]),
    )
    count = _int("n", fields[7], 1, FIRINGS_MAX)
    columns: dict[str, Any] = {}
    for name, field in zip(_I64, fields[8:15], strict=True):
        columns[name] = _cells(name, field, count, "<i8", np.int64)
    for name, field in zip(_I32, fields[15:18], strict=True):
        columns[name] = _cells(name, field, count, "<i4", np.int32)
    columns["flags"] = _cells("flags", fields[18], count, "u1", np.uint8)
    columns["key_offsets"] = _cells("key_offsets", fields[19], count + 1, "<u4", np.uint32)
    columns["keys"] = _binary("keys", fields[20])
    columns["payload_offsets"] = _cells("payload_offsets", fields[21], count + 1, "<u4", np.uint32)
    columns["payloads"] = _binary("payloads", fields[22])
    _check_columns(columns)
    decoded: Decoded = (*header, *columns.values())
    return decoded


def _int(name: str, field: msgspec.Raw, low: int, high: int) -> int:
    try:
        value = msgspec.msgpack.decode(field, type=int)
    except msgspec.ValidationError:
        raise CorruptFrame(f"bad frame: {name} is not an integer") from None
    if not low <= value <= high:
        raise CorruptFrame(f"bad frame: {name} {value} is outside {low} to {high}")
    return value


def _text(name: str, field: msgspec.Raw) -> str:
    try:
        value = msgspec.msgpack.decode(field, type=str)
    except msgspec.ValidationError:
        raise CorruptFrame(f"bad frame: {name} is not text") from None
    except msgspec.DecodeError:
        raise CorruptFrame(f"bad frame: {name} is not UTF-8") from None
    length = len(value.encode())
    if not 1 <= length <= TEXT_BYTES_MAX:
        raise CorruptFrame(
            f"bad frame: {name} has {length} bytes where 1 to {TEXT_BYTES_MAX} are due"
        )
    return value


def _binary(name: str, field: msgspec.Raw) -> bytes:
    try:
        return msgspec.msgpack.decode(field, type=bytes)
    except msgspec.ValidationError:
        raise CorruptFrame(f"bad frame: {name} is not binary") from None


def _cells(
    name: str, field: msgspec.Raw, count: int, wire: str, dtype: type[np.generic]
) -> NDArray[Any]:
    """Read a column of `count` cells as an array of its own, read-only."""
    cells = _binary(name, field)
    length = count * np.dtype(wire).itemsize
    if len(cells) != length:
        raise CorruptFrame(f"bad frame: {name} has {len(cells)} bytes where {length} are due")
    array = np.frombuffer(cells, wire).astype(dtype)
    array.flags.writeable = False
    return array


def _check_columns(columns: dict[str, Any]) -> None:
    """Raise CorruptFrame where a cell breaks a rule."""
    for name in _AT_LEAST_ONE:
        cells = columns[name]
        if cells.min() < 1:
            place = (cells < 1).argmax()
            raise CorruptFrame(f"bad frame: {name} {cells[place]} of firing {place} is below 1")
    flags = columns["flags"]
    if flags.max() > _FLAGS_KNOWN:
        place = (flags > _FLAGS_KNOWN).argmax()
        raise CorruptFrame(f"bad frame: flags {flags[place]} of firing {place} are unknown")
    for name, blobs in (("key_offsets", "keys"), ("payload_offsets", "payloads")):
        offsets, length = columns[name], len(columns[blobs])
        if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] != length:
            raise CorruptFrame(f"bad frame: {name} do not rise from 0 to {length}")
    offsets, keys = columns["key_offsets"], columns["keys"]
    for place in range(len(flags)):
        try:
            keys[offsets[place] : offsets[place + 1]].decode()
        except UnicodeDecodeError:
            raise CorruptFrame(f"bad frame: key of firing {place} is not UTF-8") from None
