"""Decoder of a binary COPY: bytes to a struct of arrays, no Python object per row.

Invariants: wire bytes are read through `cursor` only; the columns grow together, and
`row <= row_max` holds whenever one is written, because no tuple is shorter than its length words
and fixed fields.  The first fault in the order of the bytes is the one reported, as in the pure
twin in `mainspring._claim_pure`, which this module equals on every input.

Not here: what the columns mean.  `mainspring.claim.ClaimBatch` knows that.

Source: PostgreSQL manual, COPY, "Binary Format".
"""

import os

import numpy as np

from mainspring.errors import CorruptCopy

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport (
    INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t,
)
from libc.stdlib cimport calloc, free

from mainspring.cursor cimport (
    Cursor, cursor_at, cursor_left, cursor_over, cursor_put, cursor_take, slice_equal,
)
from mainspring.endian cimport load_be16, load_be32, load_be64
from mainspring.intern cimport Entry, Interned, intern, intern_free

cdef int64_t EPOCH_SHIFT_US = 946_684_800_000_000  # 1970-01-01 to 2000-01-01
cdef bytes SIGNATURE = b"PGCOPY\n\xff\r\n\0"
cdef uint32_t CRITICAL_FLAGS = 0xFFFF0000  # the manual: abort on an unexpected bit among these
cdef int64_t DATA_BYTES_MAX = INT32_MAX  # so that rows, codes and sums of lengths fit anywhere
cdef dict SIZES = {"2": 2, "4": 4, "8": 8, "t": 8, "b": 1, "c": -1, "p": -1}
cdef dict DTYPES = {
    "2": np.int16, "4": np.int32, "8": np.int64, "t": np.int64, "b": np.uint8, "c": np.int32,
    "p": np.int64,
}

# Secret per process: a user who chooses job names must not be able to choose collisions.
cdef uint64_t HASH_SEED = int.from_bytes(os.urandom(8), "little")
cdef uint64_t HASH_MULTIPLIER = int.from_bytes(os.urandom(8), "little") | 1


cdef struct Column:
    # C has no array of memoryviews, so a column is one raw pointer, indexed by row alone.
    Py_UCS4 kind
    int32_t size  # of every field; -1: any
    int16_t* i16
    int32_t* i32
    int64_t* i64  # for `p` the end of each blob in the gathered bytes, offsets[1:]
    uint8_t* u8
    int64_t* blob_start  # `p` only, in the COPY's bytes
    int64_t blob_bytes
    Interned table  # `c` only


cdef int _refuse(
    int64_t offset, int64_t row, int column, const char* fault, int64_t value=0, int64_t other=0
) except -1 with gil:
    """Raise CorruptCopy; `row` and `column` are -1 where there is none."""
    place = f"byte {offset}"
    if row >= 0:
        place += f", row {row}"
    if column >= 0:
        place += f", column {column}"
    raise CorruptCopy(
        f"bad COPY data at {place}: " + fault.decode().format(value, other),
        hint="Read the whole of a COPY in FORMAT binary, with the columns that the kinds name.",
    )


cdef inline int64_t _unix_us(int64_t postgres_us) noexcept nogil:
    """Shift the epoch; both infinities stay.  INT64_MIN + 1 stands for out of range."""
    if postgres_us == INT64_MAX or postgres_us == INT64_MIN:
        return postgres_us
    # Equality is refused too: the sum must not read as infinity.
    if postgres_us >= INT64_MAX - EPOCH_SHIFT_US:
        return INT64_MIN + 1  # no sum can be this small
    return postgres_us + EPOCH_SHIFT_US


cdef inline int _decode_field(
    Cursor* cursor, const Cursor* source, Column* column, int64_t row, int index
) except -1 nogil:
    """Decode one field into `column` at `row`; `source` is the whole COPY."""
    cdef int64_t start = cursor.offset
    cdef const uint8_t* word = cursor_take(cursor, 4)
    cdef const uint8_t* field
    cdef int32_t length
    cdef int64_t instant_us
    if word == NULL:
        return _refuse(start, row, index, b"ends inside a length word")
    length = <int32_t> load_be32(word)
    if length == -1 and column.kind == c"c":
        column.i32[row] = -1
        return 0
    if length == -1:
        return _refuse(start, row, index, b"NULL where there may be none")
    field = cursor_take(cursor, length)
    if field == NULL:
        return _refuse(
            start, row, index, b"length {0} with {1} bytes left", length, cursor_left(cursor)
        )
    if column.size >= 0 and length != column.size:
        return _refuse(start, row, index, b"length {0} where {1} is due", length, column.size)
    start += 4
    if column.kind == c"c":
        column.i32[row] = intern(&column.table, source, start, length)
        if column.i32[row] < 0:
            return _refuse(start, row, index, b"text is not UTF-8")
    elif column.kind == c"8":
        column.i64[row] = <int64_t> load_be64(field)
    elif column.kind == c"t":
        instant_us = _unix_us(<int64_t> load_be64(field))
        if instant_us == INT64_MIN + 1:
            return _refuse(
                start, row, index, b"instant {0} us after 2000 does not fit",
                <int64_t> load_be64(field),
            )
        column.i64[row] = instant_us
    elif column.kind == c"4":
        column.i32[row] = <int32_t> load_be32(field)
    elif column.kind == c"2":
        column.i16[row] = <int16_t> load_be16(field)
    elif column.kind == c"b":
        if field[0] > 1:
            return _refuse(start, row, index, b"boolean {0}", field[0])
        column.u8[row] = field[0]
    else:
        column.blob_start[row] = start
        column.blob_bytes += length  # no overflow: the sum stays below the length of the data
        column.i64[row] = column.blob_bytes
    return 0


cdef int _decode_header(Cursor* cursor, const uint8_t* signature, int64_t length) except -1 nogil:
    """Step over signature, flags and extension."""
    cdef const uint8_t* word = cursor_take(cursor, length)
    cdef uint32_t flags
    cdef int32_t extension_bytes
    if word == NULL or not slice_equal(word, signature, length):
        return _refuse(0, -1, -1, b"the signature is missing")
    word = cursor_take(cursor, 8)
    if word == NULL:
        return _refuse(cursor.offset, -1, -1, b"ends inside the header")
    flags = load_be32(word)
    if flags & CRITICAL_FLAGS:
        return _refuse(cursor.offset - 8, -1, -1, b"critical flags {0:#x} are set", flags)
    extension_bytes = <int32_t> load_be32(&word[4])
    if cursor_take(cursor, extension_bytes) == NULL:
        return _refuse(
            cursor.offset - 4, -1, -1, b"header extension of {0} bytes with {1} left",
            extension_bytes, cursor_left(cursor),
        )
    return 0


cdef int64_t _decode_tuples(
    const Cursor* source, Column* columns, int column_count, int64_t row_max
) except -1 nogil:
    """Decode tuples up to and with the trailer; return how many there were."""
    # A copy whose address does not escape stays in registers: a third of the time.
    cdef Cursor cursor = source[0]
    cdef int64_t row = 0
    cdef const uint8_t* word
    cdef int16_t count
    cdef int index
    while True:
        word = cursor_take(&cursor, 2)
        if word == NULL:
            return _refuse(cursor.offset, row, -1, b"ends without a trailer")
        count = <int16_t> load_be16(word)
        if count == -1:
            break
        if count != column_count:
            return _refuse(
                cursor.offset - 2, row, -1, b"{0} fields where {1} are due", count, column_count
            )
        assert row <= row_max  # row_max whole tuples fit, and the start of one more
        for index in range(column_count):
            _decode_field(&cursor, source, &columns[index], row, index)
        row += 1
    if cursor_left(&cursor) != 0:
        return _refuse(
            cursor.offset, -1, -1, b"{0} bytes after the trailer", cursor_left(&cursor)
        )
    return row


cdef list _new_arrays(str kinds, Column* columns, int64_t capacity):
    """Return one array per column, and two for `p`, and point `columns` at them."""
    cdef int64_t[::1] i64
    cdef int32_t[::1] i32
    cdef int16_t[::1] i16
    cdef uint8_t[::1] u8
    cdef int index
    cdef str kind
    arrays = []
    for index, kind in enumerate(kinds):
        columns[index].kind = ord(kind)
        columns[index].size = SIZES[kind]
        columns[index].table.seed = HASH_SEED
        columns[index].table.multiplier = HASH_MULTIPLIER
        array = np.empty(capacity + (kind == "p"), DTYPES[kind])
        arrays.append(array)
        if kind == "2":
            i16 = array
            columns[index].i16 = &i16[0]
        elif kind == "b":
            u8 = array
            columns[index].u8 = &u8[0]
        elif kind in "4c":
            i32 = array
            columns[index].i32 = &i32[0]
        else:
            i64 = array
            columns[index].i64 = &i64[0]
        if kind == "p":
            i64[0] = 0
            columns[index].i64 = &i64[1]
            starts = np.empty(capacity, np.int64)
            arrays.append(starts)
            i64 = starts
            columns[index].blob_start = &i64[0]
    return arrays


cdef list _values(Interned* table, const Cursor* source):
    """Return the interned texts by code."""
    cdef Entry* entry
    cdef int32_t code
    values = []
    for code in range(table.entry_count):
        entry = &table.entries[code]
        text = cursor_at(source, entry.offset, entry.length)
        values.append((<const char*> text)[:entry.length].decode("utf-8"))
    return values


cdef bytes _blobs(Column* column, const Cursor* source, int64_t row_count):
    """Return the blobs of a column, end to end."""
    cdef bytes gathered = PyBytes_FromStringAndSize(NULL, column.blob_bytes)
    cdef Cursor out = cursor_over(<const uint8_t*> PyBytes_AS_STRING(gathered), column.blob_bytes)
    cdef int64_t row
    cdef int64_t length
    cdef int64_t end = 0
    with nogil:
        for row in range(row_count):
            length = column.i64[row] - end
            end = column.i64[row]
            cursor_put(&out, cursor_at(source, column.blob_start[row], length), length)
    return gathered


def decode_copy(bytes data not None, str kinds not None):
    """Decode the bytes of one `COPY ... TO STDOUT (FORMAT binary)`.

    See the twin in `mainspring._claim_pure` for the contract.

    Notes
    -----
    Releases the GIL while it walks the tuples.  Costs O(bytes); allocates arrays for the most
    tuples that `data` could hold and shrinks them in place.
    """
    cdef int column_count = <int> len(kinds)
    cdef Cursor cursor
    cdef int64_t row_bytes_min = 2 + 4 * column_count
    cdef int64_t row_max
    cdef int64_t row_count
    cdef Column* columns
    cdef int index
    if not kinds or kinds.strip("".join(SIZES)) or column_count > 1_600:
        raise ValueError(f"bad kinds {kinds!r}: 1 to 1600 letters out of 248tbcp are due")
    for kind in kinds:
        row_bytes_min += max(<int> SIZES[kind], 0)
    if PyBytes_GET_SIZE(data) > DATA_BYTES_MAX:
        _refuse(0, -1, -1, b"{0} bytes are more than {1}", PyBytes_GET_SIZE(data), DATA_BYTES_MAX)
    cursor = cursor_over(<const uint8_t*> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    _decode_header(&cursor, <const uint8_t*> PyBytes_AS_STRING(SIGNATURE), len(SIGNATURE))
    row_max = cursor_left(&cursor) // row_bytes_min
    columns = <Column*> calloc(<size_t> column_count, sizeof(Column))
    if columns == NULL:
        raise MemoryError
    try:
        arrays = _new_arrays(kinds, columns, row_max + 1)
        with nogil:
            row_count = _decode_tuples(&cursor, columns, column_count, row_max)
        decoded = []
        remaining = iter(arrays)
        for index, kind in enumerate(kinds):
            array = next(remaining)
            if kind == "p":
                next(remaining)
                blobs = _blobs(&columns[index], &cursor, row_count)
            # In place, hence without a check for other references: only `columns` has one, and
            # that is not looked at again.
            array.resize(row_count + (kind == "p"), refcheck=False)
            if kind == "p":
                decoded.append((array, blobs))
            elif kind == "c":
                decoded.append((array, _values(&columns[index].table, &cursor)))
            else:
                decoded.append(array)
        return decoded
    finally:
        for index in range(column_count):
            intern_free(&columns[index].table)
        free(columns)
