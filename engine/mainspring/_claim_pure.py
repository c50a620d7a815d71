"""The pure twin of `_claim`: a binary COPY to a struct of arrays, slowly and readably.

Equals the compiled decoder on every input; tests hold the two together.

Source: PostgreSQL manual, COPY, "Binary Format".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mainspring.errors import CorruptCopy
from mainspring.instants import INFINITY_US

Column: TypeAlias = (
    NDArray[Any] | tuple[NDArray[np.int32], list[str]] | tuple[NDArray[np.int64], bytes]
)

_EPOCH_SHIFT_US: Final = 946_684_800_000_000  # 1970-01-01 to 2000-01-01
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_CRITICAL_FLAGS: Final = 0xFFFF0000  # the manual: abort on an unexpected bit among these
_DATA_BYTES_MAX: Final = 2**31 - 1
_COLUMNS_MAX: Final = 1_600  # of Postgres
_DTYPES: Final[dict[str, type[np.generic]]] = {
    "2": np.int16,
    "4": np.int32,
    "8": np.int64,
    "t": np.int64,
    "b": np.uint8,
    "c": np.int32,
    "p": np.int64,
}
_FIXED: Final = {
    "2": struct.Struct(">h"),
    "4": struct.Struct(">i"),
    "8": struct.Struct(">q"),
    "t": struct.Struct(">q"),
    "b": struct.Struct(">B"),
}


class _Cursor:
    """A bounds-checked place in bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.offset = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.offset

    def take(self, count: int) -> bytes | None:
        if not 0 <= count <= self.left:
            return None
        self.offset += count
        return self._data[self.offset - count : self.offset]


def _fault(offset: int, row: int | None, column: int | None, fault: str) -> CorruptCopy:
    place = f"byte {offset}"
    if row is not None:
        place += f", row {row}"
    if column is not None:
        place += f", column {column}"
    return CorruptCopy(
        f"bad COPY data at {place}: {fault}",
        hint="Read the whole of a COPY in FORMAT binary, with the columns that the kinds name.",
    )


def decode_copy(data: bytes, kinds: str) -> list[Column]:
    """Decode the bytes of one `COPY ... TO STDOUT (FORMAT binary)`.

    Parameters
    ----------
    data
        In.  All of it, from the signature to the trailer; at most 2**31 - 1 bytes.
    kinds
        In.  One letter per column:

        - `2`, `4`, `8`: int2, int4, int8, to int16, int32, int64, shape (n,);
        - `t`: timestamptz, to int64 microseconds since the Unix epoch, shape (n,), both
          infinities to the ends of int64;
        - `b`: bool, to uint8, shape (n,), 0 or 1;
        - `c`: text, to (codes, values): int32, shape (n,), and the distinct texts in order of
          first appearance; NULL is code -1;
        - `p`: text or bytea, to (offsets, joined): int64, shape (n + 1,), and bytes.

    Returns
    -------
    list
        One entry per column, its arrays owned by the caller.  No tuples give arrays of length 0.

    Raises
    ------
    CorruptCopy
        At the first byte that is not as it must be, named by offset, row and column from 0: too
        short, NULL other than in `c`, a wrong count or length, a critical flag (also that of
        OIDs), a boolean above 1, an instant that does not fit after the shift, text that is not
        UTF-8, no trailer, or bytes after it.
    ValueError
        If `kinds` is empty, too long or holds another letter.

    Source: PostgreSQL manual, COPY, "Binary Format".
    """
    if not isinstance(data, bytes):
        raise TypeError(f"data is {type(data).__name__}, not bytes")
    if not kinds or kinds.strip("".join(_DTYPES)) or len(kinds) > _COLUMNS_MAX:
        raise ValueError(f"bad kinds {kinds!r}: 1 to 1600 letters out of 248tbcp are due")
    if len(data) > _DATA_BYTES_MAX:
        raise _fault(0, None, None, f"{len(data)} bytes are more than {_DATA_BYTES_MAX}")
    cursor = _Cursor(data)
    _skip_header(cursor)
    cells: list[list[Any]] = [[] for _ in kinds]
    for row in _rows(cursor, len(kinds)):
        for column, kind in enumerate(kinds):
            cells[column].append(_decode_field(cursor, kind, row, column))
    return [_column(kind, cells[column]) for column, kind in enumerate(kinds)]


def _skip_header(cursor: _Cursor) -> None:
    if cursor.take(len(_SIGNATURE)) != _SIGNATURE:
        raise _fault(0, None, None, "the signature is missing")
    words = cursor.take(8)
    if words is None:
        raise _fault(cursor.offset, None, None, "ends inside the header")
    flags, extension_bytes = struct.unpack(">Ii", words)
    if flags & _CRITICAL_FLAGS:
        raise _fault(cursor.offset - 8, None, None, f"critical flags {flags:#x} are set")
    if cursor.take(extension_bytes) is None:
        fault = f"header extension of {extension_bytes} bytes with {cursor.left} left"
        raise _fault(cursor.offset - 4, None, None, fault)


def _rows(cursor: _Cursor, column_count: int) -> Iterator[int]:
    """Yield the number of each tuple with the cursor at its first field, up to the trailer."""
    row = 0
    while (word := cursor.take(2)) is not None:
        (count,) = struct.unpack(">h", word)
        if count == -1:
            if cursor.left:
                raise _fault(cursor.offset, None, None, f"{cursor.left} bytes after the trailer")
            return
        if count != column_count:
            fault = f"{count} fields where {column_count} are due"
            raise _fault(cursor.offset - 2, row, None, fault)
        yield row
        row += 1
    raise _fault(cursor.offset, row, None, "ends without a trailer")


def _decode_field(cursor: _Cursor, kind: str, row: int, column: int) -> Any:
    start = cursor.offset
    word = cursor.take(4)
    if word is None:
        raise _fault(start, row, column, "ends inside a length word")
    length = int.from_bytes(word, "big", signed=True)
    if length == -1:
        if kind == "c":
            return None
        raise _fault(start, row, column, "NULL where there may be none")
    field = cursor.take(length)
    if field is None:
        raise _fault(start, row, column, f"length {length} with {cursor.left} bytes left")
    if kind in _FIXED and length != _FIXED[kind].size:
        raise _fault(start, row, column, f"length {length} where {_FIXED[kind].size} is due")
    try:
        return _decode_value(field, kind)
    except ValueError as error:
        fault = "text is not UTF-8" if kind == "c" else str(error)
        raise _fault(start + 4, row, column, fault) from None


def _decode_value(field: bytes, kind: str) -> Any:
    if kind == "p":
        return field
    if kind == "c":
        return field.decode()
    (value,) = _FIXED[kind].unpack(field)
    if kind == "b" and value > 1:
        raise ValueError(f"boolean {value}")
    if kind == "t" and value not in {INFINITY_US, -INFINITY_US - 1}:
        # Equality is refused too: the sum must not read as infinity.
        if value + _EPOCH_SHIFT_US >= INFINITY_US:
            raise ValueError(f"instant {value} us after 2000 does not fit")
        value += _EPOCH_SHIFT_US
    return value


def _column(kind: str, cells: list[Any]) -> Column:
    if kind == "c":
        known: dict[str, int] = {}
        codes = [-1 if text is None else known.setdefault(text, len(known)) for text in cells]
        return np.array(codes, np.int32), list(known)
    if kind == "p":
        offsets = np.zeros(len(cells) + 1, np.int64)
        np.cumsum([len(blob) for blob in cells], out=offsets[1:])
        return offsets, b"".join(cells)
    return np.array(cells, _DTYPES[kind])
