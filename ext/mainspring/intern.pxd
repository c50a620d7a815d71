"""Interning table over slices of bytes: equal texts get one code, codes count from 0.

A zeroed `Interned` with `seed` and an odd `multiplier` set is an empty table.  Slices are kept as
places in the source, which must outlive the table; UTF-8 is checked once per distinct text.
`intern_free` gives the memory back, also after an error.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from mainspring.cursor cimport Cursor, cursor_at, slice_equal, slice_hash, slice_is_utf8


cdef struct Entry:
    uint64_t hash
    int64_t offset
    int64_t length


cdef struct Interned:
    # Open addressing, linear probing, at most half full: slots hold codes, -1 is free.
    int32_t* slots
    int64_t slot_count
    Entry* entries  # by code, slot_count / 2 of them
    int32_t entry_count
    uint64_t seed
    uint64_t multiplier
    int32_t last_code  # neighbours often share a value


cdef inline int _no_memory() except -1 with gil:
    raise MemoryError


cdef inline int _grow(Interned* table) except -1 nogil:
    """Double the table; every code keeps its value."""
    cdef int64_t slot_count = 64 if table.slot_count == 0 else table.slot_count * 2
    cdef int32_t* slots = <int32_t*> malloc(<size_t> slot_count * sizeof(int32_t))
    cdef Entry* entries = <Entry*> realloc(
        table.entries, <size_t> (slot_count // 2) * sizeof(Entry)
    )
    cdef int64_t slot
    cdef int32_t code
    if entries != NULL:
        table.entries = entries
    if slots == NULL or entries == NULL:
        free(slots)
        return _no_memory()
    memset(slots, 0xFF, <size_t> slot_count * sizeof(int32_t))
    for code in range(table.entry_count):
        slot = <int64_t> (entries[code].hash & <uint64_t> (slot_count - 1))
        while slots[slot] >= 0:
            slot = (slot + 1) & (slot_count - 1)
        slots[slot] = code
    free(table.slots)
    table.slots = slots
    table.slot_count = slot_count
    return 0


cdef inline int32_t intern(
    Interned* table, const Cursor* source, int64_t offset, int64_t length
) except -2 nogil:
    """Return the code of the slice, which the caller has checked to be there; -1: not UTF-8."""
    cdef const uint8_t* text = cursor_at(source, offset, length)
    cdef uint64_t hashed
    cdef int64_t slot
    cdef int32_t code
    cdef Entry* entry
    if table.entry_count > 0:
        entry = &table.entries[table.last_code]
        if (
            entry.length == length
            and slice_equal(cursor_at(source, entry.offset, length), text, length)
        ):
            return table.last_code
    if table.entry_count * 2 >= table.slot_count:
        _grow(table)
    hashed = slice_hash(text, length, table.seed, table.multiplier)
    slot = <int64_t> (hashed & <uint64_t> (table.slot_count - 1))
    while table.slots[slot] >= 0:
        code = table.slots[slot]
        entry = &table.entries[code]
        if (
            entry.hash == hashed and entry.length == length
            and slice_equal(cursor_at(source, entry.offset, length), text, length)
        ):
            table.last_code = code
            return code
        slot = (slot + 1) & (table.slot_count - 1)
    if not slice_is_utf8(text, length):
        return -1
    # Codes fit: row_max is at most INT32_MAX, and a row brings at most one new value.
    code = table.entry_count
    entry = &table.entries[code]
    entry.hash = hashed
    entry.offset = offset
    entry.length = length
    table.slots[slot] = code
    table.entry_count += 1
    table.last_code = code
    return code


cdef inline void intern_free(Interned* table) noexcept nogil:
    """Give back what the table allocated."""
    free(table.slots)
    free(table.entries)
