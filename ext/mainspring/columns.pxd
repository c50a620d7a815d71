"""Loops over the columns of a frame: checks, and gathers of chosen rows into the wire.

A check answers with the first place that breaks a rule.

`indices`, shape (k,), chooses rows of a batch and its order gives the places, 0 to k - 1.  Only
`first_outside` may see any indices; the others see such that it has passed.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from mainspring.cursor cimport Cursor, cursor_at, cursor_over, cursor_put, cursor_room
from mainspring.endian cimport store_le32, store_le64
from mainspring.msgpack cimport write_bin


cdef inline int64_t first_outside(
    const int64_t[::1] indices, int64_t row_count
) noexcept nogil:
    """Return the first place whose index is no row of the batch; -1 if all are."""
    cdef Py_ssize_t place
    for place in range(indices.shape[0]):
        if not 0 <= indices[place] < row_count:
            return place
    return -1


cdef inline int64_t first_below_one_i64(
    const int64_t[::1] column, const int64_t[::1] indices
) noexcept nogil:
    """Return the first place whose cell is below 1; -1 if none is."""
    cdef Py_ssize_t place
    for place in range(indices.shape[0]):
        if column[indices[place]] < 1:
            return place
    return -1


cdef inline int64_t first_below_one_i32(
    const int32_t[::1] column, const int64_t[::1] indices
) noexcept nogil:
    """Return the first place whose cell is below 1; -1 if none is."""
    cdef Py_ssize_t place
    for place in range(indices.shape[0]):
        if column[indices[place]] < 1:
            return place
    return -1


cdef inline int64_t first_other(
    const int32_t[::1] codes, const int64_t[::1] indices
) noexcept nogil:
    """Return the first place whose code is not that of the first place; -1 if none is."""
    cdef Py_ssize_t place
    for place in range(indices.shape[0]):
        if codes[indices[place]] != codes[indices[0]]:
            return place
    return -1


cdef inline int64_t first_unknown_flag(
    const int16_t[::1] trigger, const uint8_t[::1] catch_up, const int64_t[::1] indices
) noexcept nogil:
    """Return the first place whose trigger or catch_up has no bits in the flags; -1 if none."""
    cdef Py_ssize_t place
    for place in range(indices.shape[0]):
        if not 0 <= trigger[indices[place]] <= 3 or catch_up[indices[place]] > 1:
            return place
    return -1


cdef inline int64_t blob_sum(
    const int64_t[::1] offsets, int64_t blob_bytes, const int64_t[::1] indices
) noexcept nogil:
    """Return the bytes of the chosen blobs; -1 if offsets are not those of `blob_bytes` bytes."""
    cdef Py_ssize_t place
    cdef int64_t total = 0
    for place in range(indices.shape[0]):
        if not 0 <= offsets[indices[place]] <= offsets[indices[place] + 1] <= blob_bytes:
            return -1
        # At most FIRINGS_MAX times a blob that is in memory: no overflow.
        total += offsets[indices[place] + 1] - offsets[indices[place]]
    return total


cdef inline bint are_offsets(const uint32_t[::1] offsets, int64_t blob_bytes) noexcept nogil:
    """Return whether offsets run from 0 to `blob_bytes` without falling."""
    cdef Py_ssize_t place
    if offsets[0] != 0:
        return False
    for place in range(1, offsets.shape[0]):
        if offsets[place] < offsets[place - 1]:
            return False
    return offsets[offsets.shape[0] - 1] == blob_bytes


cdef inline int gather_i64(
    Cursor* out, const int64_t[::1] column, const int64_t[::1] indices
) except -1:
    """Write the chosen cells as one bin."""
    cdef Cursor cells = cursor_over(write_bin(out, 8 * indices.shape[0]), 8 * indices.shape[0])
    cdef Py_ssize_t place
    with nogil:
        for place in range(indices.shape[0]):
            store_le64(cursor_room(&cells, 8), <uint64_t> column[indices[place]])
    return 0


cdef inline int gather_i32(
    Cursor* out, const int32_t[::1] column, const int64_t[::1] indices
) except -1:
    """Write the chosen cells as one bin."""
    cdef Cursor cells = cursor_over(write_bin(out, 4 * indices.shape[0]), 4 * indices.shape[0])
    cdef Py_ssize_t place
    with nogil:
        for place in range(indices.shape[0]):
            store_le32(cursor_room(&cells, 4), <uint32_t> column[indices[place]])
    return 0


cdef inline int gather_flags(
    Cursor* out, const int16_t[::1] trigger, const uint8_t[::1] catch_up,
    const int64_t[::1] indices,
) except -1:
    """Write trigger and catch_up of the chosen rows as one bin of flags."""
    cdef Cursor cells = cursor_over(write_bin(out, indices.shape[0]), indices.shape[0])
    cdef Py_ssize_t place
    with nogil:
        for place in range(indices.shape[0]):
            cursor_room(&cells, 1)[0] = <uint8_t> (
                trigger[indices[place]] | catch_up[indices[place]] << 2
            )
    return 0


cdef inline int gather_blobs(
    Cursor* out, const int64_t[::1] offsets, bytes joined, int64_t blob_bytes,
    const int64_t[::1] indices,
) except -1:
    """Write the chosen blobs: their offsets as one bin, then their bytes as one bin."""
    cdef Cursor source = cursor_over(
        <const uint8_t*> PyBytes_AS_STRING(joined), PyBytes_GET_SIZE(joined)
    )
    cdef int64_t count = indices.shape[0]
    cdef Cursor ends = cursor_over(write_bin(out, 4 * (count + 1)), 4 * (count + 1))
    cdef Cursor blobs = cursor_over(write_bin(out, blob_bytes), blob_bytes)
    cdef Py_ssize_t place
    cdef int64_t start
    cdef int64_t length
    with nogil:
        for place in range(count):
            start = offsets[indices[place]]
            length = offsets[indices[place] + 1] - start
            store_le32(cursor_room(&ends, 4), <uint32_t> blobs.offset)
            cursor_put(&blobs, cursor_at(&source, start, length), length)
        store_le32(cursor_room(&ends, 4), <uint32_t> blobs.offset)
    return 0
