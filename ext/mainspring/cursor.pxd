"""A bounds-checked place in a run of bytes: the only pointer arithmetic over bytes of the wire.

Every read and every write asks `cursor_take`, which answers NULL unless `count` bytes are there;
`count` may be anything, also negative or 2**63-1.  NULL is an answer and no exception, hence
`noexcept`: what a missing byte means, only the caller knows.  Slices that were taken may be
compared, hashed and validated below.

Invariant: 0 <= offset <= length, and `start` is never NULL (a run of no bytes points anywhere).

Source: the reader of py-pgproto (MagicStack/py-pgproto:frb.pxd), with the check of negative
lengths that it leaves to its callers.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy


cdef extern from *:
    """
    #ifndef MAINSPRING_CURSOR
    #define MAINSPRING_CURSOR
    #include <stdint.h>
    /* Both halves of the 128-bit product: each bit of the answer hangs on all bits of both. */
    static inline uint64_t mainspring_fold(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    /* The high bit of each of eight bytes: zero in ASCII. */
    #define MAINSPRING_HIGH_BITS UINT64_C(0x8080808080808080)
    #endif
    """
    const uint64_t HIGH_BITS "MAINSPRING_HIGH_BITS"
    uint64_t fold "mainspring_fold"(uint64_t a, uint64_t b) noexcept nogil


cdef struct Cursor:
    const uint8_t* start
    int64_t length
    int64_t offset


cdef inline Cursor cursor_over(const uint8_t* start, int64_t length) noexcept nogil:
    """Return a cursor at the first of `length` bytes."""
    cdef Cursor cursor
    cursor.start = start
    cursor.length = length
    cursor.offset = 0
    return cursor


cdef inline int64_t cursor_left(const Cursor* cursor) noexcept nogil:
    """Return how many bytes follow."""
    return cursor.length - cursor.offset


cdef inline const uint8_t* cursor_take(Cursor* cursor, int64_t count) noexcept nogil:
    """Step over `count` bytes and return where they begin; NULL, and no step, if not there."""
    cdef const uint8_t* taken
    # No sum here: `offset + count` could overflow.
    if count < 0 or count > cursor.length - cursor.offset:
        return NULL
    taken = cursor.start + cursor.offset
    cursor.offset += count
    return taken


cdef inline const uint8_t* cursor_at(
    const Cursor* cursor, int64_t offset, int64_t count
) noexcept nogil:
    """Return where `count` bytes at `offset` begin, without a step; NULL if not there."""
    if offset < 0 or offset > cursor.length or count < 0 or count > cursor.length - offset:
        return NULL
    return cursor.start + offset


cdef inline uint8_t* cursor_room(Cursor* cursor, int64_t count) noexcept nogil:
    """Step over `count` bytes of a buffer that the caller owns, to be written; NULL if full."""
    return <uint8_t*> cursor_take(cursor, count)


cdef inline bint cursor_put(Cursor* cursor, const uint8_t* source, int64_t count) noexcept nogil:
    """Write `count` bytes from `source`, which holds as many; return whether there was room."""
    cdef uint8_t* room = cursor_room(cursor, count)
    if room == NULL:
        return False
    memcpy(room, source, <size_t> count)
    return True


cdef inline bint slice_equal(
    const uint8_t* left, const uint8_t* right, int64_t length
) noexcept nogil:
    """Return whether two slices of `length` bytes hold the same."""
    return memcmp(left, right, <size_t> length) == 0


cdef inline uint64_t slice_hash(
    const uint8_t* text, int64_t length, uint64_t seed, uint64_t multiplier
) noexcept nogil:
    """Hash a slice under two secret numbers, so that names cannot be chosen to collide.

    Eight bytes a step through a folded 128-bit product, as in wyhash (Wang Yi); what is left over
    is read as a last word that overlaps the one before, since a copy of 1 to 7 bytes is a call.
    """
    cdef Cursor cursor = cursor_over(text, length)
    cdef uint64_t word = 0
    cdef uint32_t half
    cdef uint64_t state = seed ^ <uint64_t> length
    if length >= 8:
        while cursor_left(&cursor) > 8:
            memcpy(&word, cursor_take(&cursor, 8), 8)
            state = fold(state ^ word, multiplier)
        memcpy(&word, cursor_at(&cursor, length - 8, 8), 8)
    elif length >= 4:
        memcpy(&half, cursor_at(&cursor, 0, 4), 4)
        word = half
        memcpy(&half, cursor_at(&cursor, length - 4, 4), 4)
        word = word << 32 | half
    elif length > 0:
        # First, middle and last are all there are.
        word = cursor_at(&cursor, 0, 1)[0]
        word = word << 8 | cursor_at(&cursor, length // 2, 1)[0]
        word = word << 8 | cursor_at(&cursor, length - 1, 1)[0]
    state = fold(state ^ word, multiplier)
    return fold(state ^ seed, multiplier)


cdef inline bint slice_is_utf8(const uint8_t* text, int64_t length) noexcept nogil:
    """Return whether a slice is UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.

    Source: RFC 3629, section 4 (the table of well-formed byte sequences).
    """
    cdef Cursor cursor = cursor_over(text, length)
    cdef const uint8_t* taken
    cdef uint64_t word
    cdef uint8_t lead
    cdef uint8_t low
    cdef uint8_t high
    cdef int tail_count
    cdef int index
    while cursor_left(&cursor) > 0:
        if cursor_left(&cursor) >= 8:
            taken = cursor_at(&cursor, cursor.offset, 8)
            memcpy(&word, taken, 8)
            if word & HIGH_BITS == 0:
                cursor_take(&cursor, 8)
                continue
        lead = cursor_take(&cursor, 1)[0]
        if lead < 0x80:
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= lead <= 0xDF:
            tail_count = 1
        elif 0xE0 <= lead <= 0xEF:
            tail_count = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            tail_count = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        else:
            return False
        taken = cursor_take(&cursor, tail_count)
        if taken == NULL or not low <= taken[0] <= high:
            return False
        for index in range(1, tail_count):
            if taken[index] & 0xC0 != 0x80:
                return False
    return True
