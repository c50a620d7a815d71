"""Writers of the few msgpack types of a frame, each in its shortest form.

The caller measures with the `*_bytes` functions, makes a buffer of that length and writes through
a cursor over it; to run out of room is a mistake in that sum, hence an AssertionError.

Source: the msgpack specification (github.com/msgpack/msgpack, spec.md).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from mainspring.cursor cimport Cursor, cursor_put, cursor_room
from mainspring.endian cimport store_be16, store_be32, store_be64


cdef inline int64_t uint_bytes(uint64_t value) noexcept nogil:
    """Return how many bytes an unsigned integer takes."""
    if value < 0x80:
        return 1
    if value <= 0xFF:
        return 2
    if value <= 0xFFFF:
        return 3
    return 5 if value >> 32 == 0 else 9


cdef inline int64_t bin_bytes(int64_t length) noexcept nogil:
    """Return how many bytes a bin of `length` bytes takes."""
    return length + (2 if length <= 0xFF else 3 if length <= 0xFFFF else 5)


cdef inline int64_t text_bytes(int64_t length) noexcept nogil:
    """Return how many bytes a text of `length` bytes, at most 255, takes."""
    return length + (1 if length < 32 else 2)


cdef inline uint8_t* write_lead(Cursor* out, uint8_t lead, int64_t word_bytes) except NULL:
    """Write a type byte and return where its `word_bytes` go."""
    cdef uint8_t* room = cursor_room(out, 1 + word_bytes)
    if room == NULL:
        raise AssertionError("the frame is longer than it was measured")
    room[0] = lead
    return &room[1]


cdef inline int write_uint(Cursor* out, uint64_t value) except -1:
    """Write an unsigned integer."""
    if value < 0x80:
        write_lead(out, <uint8_t> value, 0)
    elif value <= 0xFF:
        write_lead(out, 0xCC, 1)[0] = <uint8_t> value
    elif value <= 0xFFFF:
        store_be16(write_lead(out, 0xCD, 2), <uint16_t> value)
    elif value >> 32 == 0:
        store_be32(write_lead(out, 0xCE, 4), <uint32_t> value)
    else:
        store_be64(write_lead(out, 0xCF, 8), value)
    return 0


cdef inline uint8_t* write_bin(Cursor* out, int64_t length) except NULL:
    """Write the head of a bin and return the room for its `length` bytes."""
    cdef uint8_t* room
    if length <= 0xFF:
        write_lead(out, 0xC4, 1)[0] = <uint8_t> length
    elif length <= 0xFFFF:
        store_be16(write_lead(out, 0xC5, 2), <uint16_t> length)
    else:
        store_be32(write_lead(out, 0xC6, 4), <uint32_t> length)
    room = cursor_room(out, length)
    if room == NULL:
        raise AssertionError("the frame is longer than it was measured")
    return room


cdef inline int write_text(Cursor* out, bytes text) except -1:
    """Write a text of at most 255 bytes."""
    cdef int64_t length = PyBytes_GET_SIZE(text)
    if length < 32:
        write_lead(out, <uint8_t> (0xA0 | length), 0)
    else:
        write_lead(out, 0xD9, 1)[0] = <uint8_t> length
    if not cursor_put(out, <const uint8_t*> PyBytes_AS_STRING(text), length):
        raise AssertionError("the frame is longer than it was measured")
    return 0
