"""Due firings as a struct of arrays, decoded from the binary COPY that leased them.

`decode_copy` turns the bytes of one COPY into arrays without a Python object per row;
`ClaimBatch` gives the columns of the claim their names.  `MAINSPRING_PURE=1` chooses the twin
`_claim_pure` instead of the compiled `_claim`; both answer alike on every input, also on corrupt
bytes, where they raise the same error.

Invariants: all columns of a batch are C-contiguous and equally long; a batch is never changed.

Not here: which rows are due, and what becomes of them.

Source: PostgreSQL manual, COPY, "Binary Format".
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mainspring.errors import CorruptCopy

if os.environ.get("MAINSPRING_PURE") == "1":
    from mainspring._claim_pure import decode_copy
else:
    try:
        from mainspring._claim import decode_copy
    except ImportError as error:
        raise ImportError(
            "mainspring._claim is not compiled; run `make ext`, or set MAINSPRING_PURE=1"
        ) from error

__all__ = ["KINDS", "Blobs", "ClaimBatch", "ClaimRow", "Codes", "decode_copy"]

KINDS: Final = "88tt8442b2b" + "ttt44" + "ccccccccp"
"""The kind of each column of a ClaimBatch, in order; what a letter means, see `_claim_pure`.

The claim statement returns exactly these columns.
"""

_DTYPES: Final[dict[str, type[np.generic]]] = {
    "2": np.int16,
    "4": np.int32,
    "8": np.int64,
    "t": np.int64,
    "b": np.uint8,
    "c": np.int32,
    "p": np.int64,
}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """A column of repeating texts, dictionary-encoded.

    `codes` is int32, shape (n,), -1 for NULL.  `values` are the distinct texts; a batch that was
    taken out of another one uses some of them only.
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> str | None:
        code = self.codes[index]
        return None if code < 0 else self.values[code]

    @staticmethod
    def of(texts: Sequence[str | None]) -> Codes:
        """Encode `texts`, values in order of first appearance."""
        known: dict[str, int] = {}
        codes = [-1 if text is None else known.setdefault(text, len(known)) for text in texts]
        return Codes(np.array(codes, np.int32), tuple(known))

    def take(self, indices: NDArray[np.int64]) -> Codes:
        """Return the texts at `indices`."""
        return Codes(self.codes[indices], self.values)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Blobs:
    """A column of byte strings, end to end.

    `offsets` is int64, shape (n + 1,), from 0, never falling; blob i is
    `joined[offsets[i]:offsets[i + 1]]`.
    """

    offsets: NDArray[np.int64]
    joined: bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        if not -len(self) <= index < len(self):
            raise IndexError(f"blob {index} of {len(self)}")
        index %= len(self)
        return self.joined[self.offsets[index] : self.offsets[index + 1]]

    @staticmethod
    def of(blobs: Sequence[bytes]) -> Blobs:
        """Join `blobs`."""
        offsets = np.zeros(len(blobs) + 1, np.int64)
        np.cumsum([len(blob) for blob in blobs], out=offsets[1:])
        return Blobs(offsets, b"".join(blobs))

    def take(self, indices: NDArray[np.int64]) -> Blobs:
        """Return the blobs at `indices`."""
        starts = self.offsets[:-1][indices]
        lengths = self.offsets[1:][indices] - starts
        offsets = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Where each byte comes from: its place in the result, moved by its blob.
        sources = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Blobs(offsets, np.frombuffer(self.joined, np.uint8)[sources].tobytes())


class ClaimRow(NamedTuple):
    """One firing of a batch as Python values; see `ClaimBatch` for the meaning."""

    firing_id: int
    job_id: int
    due_us: int
    scheduled_us: int
    fence: int
    rev: int
    attempt: int
    trigger: int
    catch_up: bool
    lost_count: int
    first_claim: bool
    claimed_us: int
    anchor_us: int
    previous_us: int
    timeout_s: int
    grace_s: int
    task: str
    queue: str
    schedule: str
    zone: str
    dst_gap: str
    dst_overlap: str
    template: str | None
    name: str
    payload: bytes


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ClaimBatch:
    """Leased firings, one array per column, shape (n,).

    Instants are microseconds since the Unix epoch, `INFINITY_US` for 'infinity';
    `previous_us` is -2**63 where no firing of the job ran before.  `trigger` holds
    values of `model.Trigger`; `catch_up` and `first_claim` 0 or 1; `payload` JSON texts in UTF-8.
    Only `template` may hold NULL.

    Raises
    ------
    ValueError
        If a column has the wrong type or another length than the first.
    """

    firing_id: NDArray[np.int64]
    job_id: NDArray[np.int64]
    due_us: NDArray[np.int64]
    scheduled_us: NDArray[np.int64]
    fence: NDArray[np.int64]
    rev: NDArray[np.int32]
    attempt: NDArray[np.int32]
    trigger: NDArray[np.int16]
    catch_up: NDArray[np.uint8]
    lost_count: NDArray[np.int16]
    first_claim: NDArray[np.uint8]
    claimed_us: NDArray[np.int64]
    anchor_us: NDArray[np.int64]
    previous_us: NDArray[np.int64]
    timeout_s: NDArray[np.int32]
    grace_s: NDArray[np.int32]
    task: Codes
    queue: Codes
    schedule: Codes
    zone: Codes
    dst_gap: Codes
    dst_overlap: Codes
    template: Codes
    name: Codes
    payload: Blobs

    def __post_init__(self) -> None:
        for name, kind in zip(ClaimRow._fields, KINDS, strict=True):
            column = getattr(self, name)
            array = column
            if kind == "c" and isinstance(column, Codes):
                array = column.codes
            elif kind == "p" and isinstance(column, Blobs):
                array = column.offsets
            if (
                not isinstance(array, np.ndarray)
                or array.dtype != _DTYPES[kind]
                or not array.flags.c_contiguous
                or (kind in "cp" and array is column)
            ):
                raise ValueError(f"column {name} is not of kind {kind!r}")
            if len(column) != len(self):
                raise ValueError(f"column {name} has {len(column)} rows where {len(self)} are due")

    def __len__(self) -> int:
        return len(self.firing_id)

    @staticmethod
    def decode(data: bytes) -> ClaimBatch:
        """Decode the claim's COPY, whose columns are KINDS; raises `CorruptCopy`."""
        return _name(decode_copy(data, KINDS))

    @staticmethod
    def empty() -> ClaimBatch:
        """Return a batch of no rows."""
        return ClaimBatch.from_rows(())

    @staticmethod
    def from_rows(rows: Sequence[ClaimRow]) -> ClaimBatch:
        """Turn rows into a batch.

        Raises
        ------
        OverflowError
            If a value does not fit its column.
        """
        columns: dict[str, Any] = {}
        for place, (name, kind) in enumerate(zip(ClaimRow._fields, KINDS, strict=True)):
            cells: list[Any] = [row[place] for row in rows]
            if kind == "c":
                columns[name] = Codes.of(cells)
            elif kind == "p":
                columns[name] = Blobs.of(cells)
            else:
                columns[name] = np.array(cells, _DTYPES[kind])
        return ClaimBatch(**columns)

    def take(self, indices: NDArray[np.int64]) -> ClaimBatch:
        """Return the rows at `indices`, int64, shape (k,), in that order; repeats are allowed."""
        columns: dict[str, Any] = {}
        for name, kind in zip(ClaimRow._fields, KINDS, strict=True):
            column = getattr(self, name)
            columns[name] = column.take(indices) if kind in "cp" else column[indices]
        return ClaimBatch(**columns)

    def replace(self, **columns: Any) -> ClaimBatch:
        """Return a batch with other `columns`; the rest is shared with this one."""
        return dataclasses.replace(self, **columns)

    def row(self, index: int) -> ClaimRow:
        """Return one row as Python values, for tests and error texts."""
        cells: list[Any] = []
        for name, kind in zip(ClaimRow._fields, KINDS, strict=True):
            cell = getattr(self, name)[index]
            if kind == "b":
                cell = bool(cell)
            elif kind not in "cp":
                cell = int(cell)
            cells.append(cell)
        return ClaimRow(*cells)


def _name(decoded: list[Any]) -> ClaimBatch:
    """Give decoded columns their names; refuse NULL where the meaning forbids it."""
    columns: dict[str, Any] = {}
    named = zip(ClaimRow._fields, KINDS, decoded, strict=True)
    for place, (name, kind, column) in enumerate(named):
        if kind == "c":
            codes, values = column
            if name != "template" and len(codes) and codes.min() < 0:
                row = int(codes.argmin())
                raise CorruptCopy(f"bad COPY data at row {row}, column {place}: {name} is NULL")
            columns[name] = Codes(codes, tuple(values))
        else:
            columns[name] = Blobs(*column) if kind == "p" else column
    return ClaimBatch(**columns)
