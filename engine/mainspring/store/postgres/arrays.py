"""NumPy columns as Postgres array parameters, and back, without a Python object per row.

Each value class says which Postgres type a column becomes.  Its binary dumper lays the array's wire
format out with one structured dtype; the text dumper serves COPY, whose parameters must be written
into the statement, and writes digits and commas only.  Instants are int64 microseconds since
1970; Postgres counts from 2000 and keeps the ends of int64 for its infinities.

Source: PostgreSQL, src/backend/utils/adt/arrayfuncs.c, array_recv; timestamp.h.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from psycopg import Connection, pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader

from mainspring.instants import INFINITY_US, MINUS_INFINITY_US

EPOCH_SHIFT_US: Final = 946_684_800_000_000
"""From 1970-01-01 to 2000-01-01, where Postgres counts from."""

_INT8_ARRAY_OID: Final = 1016
_TIMESTAMPTZ_OID: Final = 1184
_TIMESTAMPTZ_ARRAY_OID: Final = 1185
_HEAD: Final = struct.Struct("!iiiii")  # dimensions, has NULL, element oid, length, lower bound
_INT8: Final = struct.Struct("!q")
_NULL: Final = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True, eq=False)
class Bigints:
    """A column as bigint[]."""

    values: ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """A column as integer[]; `OverflowError` where a value does not fit."""

    values: ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class Booleans:
    """A column as boolean[]."""

    values: ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """A column of microseconds as timestamptz[]; `INFINITY_US` becomes 'infinity'."""

    values: ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column as text[], None for NULL.  Values are clean: see `text.clean_text`."""

    values: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Instant:
    """One timestamptz, in microseconds since 1970."""

    value_us: int


def _to_wire(instants_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Shift to Postgres' epoch; both infinities stay where they are."""
    is_finite = (instants_us != INFINITY_US) & (instants_us != MINUS_INFINITY_US)
    return np.where(is_finite, instants_us - EPOCH_SHIFT_US, instants_us)


def _from_wire(wire: NDArray[np.int64]) -> NDArray[np.int64]:
    is_finite = (wire != INFINITY_US) & (wire != MINUS_INFINITY_US)
    return np.where(is_finite, wire + EPOCH_SHIFT_US, wire)


def _int64s(values: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)


class _FixedDumper(Dumper):
    """Lays out an array of fixed-width elements without NULLs."""

    format = pq.Format.BINARY
    element_oid: ClassVar[int]
    element: ClassVar[str]  # NumPy's name of the element on the wire

    def column(self, obj: Any) -> NDArray[Any]:
        """Return the elements as they go out, still in the machine's byte order."""
        raise NotImplementedError

    def dump(self, obj: Any) -> Buffer | None:
        column = self.column(obj)
        if not len(column):
            return struct.pack("!iii", 0, 0, self.element_oid)
        rows = np.empty(len(column), np.dtype([("length", ">i4"), ("value", self.element)]))
        rows["length"] = rows.dtype["value"].itemsize
        rows["value"] = column
        return _HEAD.pack(1, 0, self.element_oid, len(column), 1) + rows.tobytes()


class _BigintsDumper(_FixedDumper):
    oid = _INT8_ARRAY_OID
    element_oid = 20
    element = ">i8"

    def column(self, obj: Bigints) -> NDArray[np.int64]:
        return _int64s(obj.values)


class _IntegersDumper(_FixedDumper):
    oid = 1007
    element_oid = 23
    element = ">i4"

    def column(self, obj: Integers) -> NDArray[np.int64]:
        column = _int64s(obj.values)
        if len(column) and (column.max() > 2**31 - 1 or column.min() < -(2**31)):
            raise OverflowError(f"{column.max()} or {column.min()} does not fit an integer column")
        return column


class _BooleansDumper(_FixedDumper):
    oid = 1000
    element_oid = 16
    element = "u1"

    def column(self, obj: Booleans) -> NDArray[np.bool_]:
        return np.asarray(obj.values, np.bool_)


class _InstantsDumper(_FixedDumper):
    oid = _TIMESTAMPTZ_ARRAY_OID
    element_oid = _TIMESTAMPTZ_OID
    element = ">i8"

    def column(self, obj: Instants) -> NDArray[np.int64]:
        return _to_wire(_int64s(obj.values))


class _TextsDumper(Dumper):
    format = pq.Format.BINARY
    oid = 1009

    def dump(self, obj: Texts) -> Buffer | None:
        values = obj.values
        if not values:
            return struct.pack("!iii", 0, 0, 25)
        if not any(value is not None for value in values):  # no handler said anything
            return _HEAD.pack(1, 1, 25, len(values), 1) + _NULL * len(values)
        parts = [_HEAD.pack(1, 1, 25, len(values), 1)]
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                encoded = value.encode()
                parts += (len(encoded).to_bytes(4, "big"), encoded)
        return b"".join(parts)


class _InstantDumper(Dumper):
    format = pq.Format.BINARY
    oid = _TIMESTAMPTZ_OID

    def dump(self, obj: Instant) -> Buffer | None:
        return _INT8.pack(int(_to_wire(np.array(obj.value_us, np.int64))))


class _BigintsTextDumper(Dumper):
    """For COPY: digits, signs and commas need no escaping."""

    oid = _INT8_ARRAY_OID

    def dump(self, obj: Bigints) -> Buffer | None:
        return ("{" + ",".join(map(str, _int64s(obj.values).tolist())) + "}").encode()


class _InstantTextDumper(Dumper):
    """For COPY: ISO 8601 in UTC, or an infinity."""

    oid = _TIMESTAMPTZ_OID

    def dump(self, obj: Instant) -> Buffer | None:
        if obj.value_us == INFINITY_US:
            return b"infinity"
        if obj.value_us == MINUS_INFINITY_US:
            return b"-infinity"
        return f"{np.datetime64(obj.value_us, 'us')}Z".encode()


class _InstantLoader(Loader):
    """timestamptz as microseconds since 1970; datetime cannot hold infinity."""

    format = pq.Format.BINARY

    def load(self, data: Buffer) -> int:
        (wire,) = _INT8.unpack(data)
        is_finite = MINUS_INFINITY_US < wire < INFINITY_US
        return int(wire + EPOCH_SHIFT_US if is_finite else wire)


class _BigintsLoader(Loader):
    """bigint[] without NULLs as int64, shape (n,)."""

    format = pq.Format.BINARY

    def load(self, data: Buffer) -> NDArray[np.int64]:
        if len(data) < _HEAD.size:
            return np.empty(0, np.int64)
        rows = np.frombuffer(
            data, np.dtype([("length", ">i4"), ("value", ">i8")]), offset=_HEAD.size
        )
        return rows["value"].astype(np.int64)


class _InstantsLoader(_BigintsLoader):
    """timestamptz[] without NULLs as int64 microseconds since 1970."""

    def load(self, data: Buffer) -> NDArray[np.int64]:
        return _from_wire(super().load(data))


def register_arrays(connection: Connection[Any]) -> None:
    """Teach a connection these value classes, and instants as integers in binary results."""
    adapters = connection.adapters
    adapters.register_dumper(Bigints, _BigintsTextDumper)
    adapters.register_dumper(Instant, _InstantTextDumper)
    # The last one registered for a class is what a plain %s chooses: binary.
    adapters.register_dumper(Bigints, _BigintsDumper)
    adapters.register_dumper(Integers, _IntegersDumper)
    adapters.register_dumper(Booleans, _BooleansDumper)
    adapters.register_dumper(Instants, _InstantsDumper)
    adapters.register_dumper(Texts, _TextsDumper)
    adapters.register_dumper(Instant, _InstantDumper)
    adapters.register_loader(_TIMESTAMPTZ_OID, _InstantLoader)
    adapters.register_loader(_TIMESTAMPTZ_ARRAY_OID, _InstantsLoader)
    adapters.register_loader(_INT8_ARRAY_OID, _BigintsLoader)
