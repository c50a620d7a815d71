"""Occupancy bitmaps: find, set and clear positions of a ring in 64-bit words.

Every ring starts at a word of its own, so that one array of words serves all levels.
"""

from libc.stdint cimport int64_t, uint64_t


cdef extern from *:
    """
    #define mainspring_ctz64(word) __builtin_ctzll(word)
    """
    int mainspring_ctz64(uint64_t word) noexcept nogil


cdef inline void set_bit(uint64_t[::1] words, Py_ssize_t bit) noexcept nogil:
    words[bit >> 6] |= <uint64_t> 1 << (bit & 63)


cdef inline void clear_bit(uint64_t[::1] words, Py_ssize_t bit) noexcept nogil:
    words[bit >> 6] &= ~(<uint64_t> 1 << (bit & 63))


cdef inline int64_t next_set(
    const uint64_t[::1] words, Py_ssize_t base, int64_t start, int64_t count
) noexcept nogil:
    """Distance from position `start` to the first set one, around a ring of `count`, or -1.

    `base` is the bit of the ring's position 0, a multiple of 64.  `start` itself counts, as 0.
    """
    cdef Py_ssize_t first = base >> 6
    cdef Py_ssize_t last = (base + count - 1) >> 6
    cdef Py_ssize_t start_word = (base + start) >> 6
    cdef Py_ssize_t index = start_word
    cdef uint64_t from_start = ~<uint64_t> 0 << (start & 63)
    cdef uint64_t word = words[index] & from_start
    while word == 0 and index < last:
        index += 1
        word = words[index]
    if word != 0:
        return ((index - first) << 6) + mainspring_ctz64(word) - start
    for index in range(first, start_word + 1):
        word = words[index]
        if index == start_word:
            word &= ~from_start
        if word != 0:
            return ((index - first) << 6) + mainspring_ctz64(word) + count - start
    return -1
