"""A bounded memo of next occurrences: C, no Python object, no probing.

Two-way sets: a question may stand in one of two places, the one asked last in front; a third
question of the same set drops the older one.  So the bound is exact, forgetting costs nothing, and
a wrong answer is impossible: a place holds its whole question.

A question is the serial number of an expression in its zone, and an instant.  Serial numbers start
at 1 and are never used again, so an answer cannot outlive what it was computed from; 0 marks a
free place.

Source: D. Patterson and J. Hennessy, "Computer Organization and Design", set-associative caches;
S. Vigna, SplitMix64, for the mixing of bits.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

cdef struct Remembered:
    uint64_t serial
    int64_t after_us
    int64_t next_us

cdef struct MemoTable:
    Remembered* places      # two a set
    uint64_t set_mask       # number of sets, a power of two, less one

cdef inline void forget_all(MemoTable* table) noexcept nogil:
    memset(table.places, 0, 2 * (table.set_mask + 1) * sizeof(Remembered))

cdef inline Remembered* set_of(
    const MemoTable* table, uint64_t serial, int64_t after_us
) noexcept nogil:
    """Return the first of the two places of a question."""
    cdef uint64_t mixed = <uint64_t>after_us + serial * <uint64_t>0x9E3779B97F4A7C15
    mixed = (mixed ^ (mixed >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    mixed = (mixed ^ (mixed >> 27)) * <uint64_t>0x94D049BB133111EB
    return table.places + 2 * ((mixed ^ (mixed >> 31)) & table.set_mask)

cdef inline bint recall(
    Remembered* places, uint64_t serial, int64_t after_us, int64_t* next_us
) noexcept nogil:
    """Give the answer to a question that one of its two places holds."""
    cdef Remembered asked
    if places[0].serial == serial and places[0].after_us == after_us:
        next_us[0] = places[0].next_us
        return True
    if places[1].serial == serial and places[1].after_us == after_us:
        asked = places[1]
        places[1] = places[0]
        places[0] = asked
        next_us[0] = asked.next_us
        return True
    return False

cdef inline void remember(
    Remembered* places, uint64_t serial, int64_t after_us, int64_t next_us
) noexcept nogil:
    """Put an answer in front, and drop the older one of its set."""
    places[1] = places[0]
    places[0] = Remembered(serial, after_us, next_us)
