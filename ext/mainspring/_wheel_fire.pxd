"""Expiry: hand out what is due in tick order, cascading on the way where that is due too."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from mainspring._wheel cimport BLOCK, NOTHING, OUTPUT, TICK_NEVER, Wheel
from mainspring._wheel_cascade cimport move_down
from mainspring._wheel_handles cimport forget, is_armed, unpin
from mainspring._wheel_heap cimport sift_down
from mainspring._wheel_slots cimport capacity, drop, is_empty, next_slot, prune, top


cdef inline void move_cursor(Wheel wheel, int64_t tick) noexcept nogil:
    wheel.cursor = tick
    wheel.cursor_position = <uint64_t> tick % <uint64_t> wheel.slots_in[0]


cdef inline bint pop_pending(Wheel wheel) noexcept nogil:
    """Remove the heap's first item; True if it was armed."""
    cdef uint32_t number = <uint32_t> wheel.heap[0].handle
    cdef bint was_armed = is_armed(wheel, number)
    wheel.heap_count -= 1
    wheel.heap[0] = wheel.heap[wheel.heap_count]
    sift_down(wheel.heap, wheel.heap_count, 0)
    forget(wheel, number)
    wheel.armed -= was_armed
    wheel.dead -= not was_armed
    return was_armed


cdef inline Py_ssize_t fire_run(
    Wheel wheel,
    Py_ssize_t begin,
    Py_ssize_t count,
    int64_t[::1] ids,  # OUT
    int64_t[::1] dues,  # OUT
    Py_ssize_t fired,
) noexcept nogil:
    """Copy `count` entries without the dead.  Numbers of one word in a row clear it once."""
    cdef Py_ssize_t end = begin + count
    cdef Py_ssize_t index = begin
    cdef Py_ssize_t first
    cdef uint32_t number, word
    cdef uint64_t bits, gone
    cdef int64_t tick = wheel.cursor
    while index < end:
        word = wheel.entries[index].number >> 6
        bits = wheel.armed_bits[word]
        gone = 0
        first = index
        while index < end:
            number = wheel.entries[index].number
            if number >> 6 != word:
                break
            ids[fired] = wheel.entries[index].id
            dues[fired] = tick
            fired += bits >> (number & 63) & 1
            gone |= <uint64_t> 1 << (number & 63)
            index += 1
        wheel.armed_bits[word] = bits & ~gone
        unpin(wheel, word // (BLOCK // 64), <uint32_t> (index - first))
    return fired


cdef inline Py_ssize_t fire_ring(
    Wheel wheel, int64_t end, int64_t[::1] ids, int64_t[::1] dues, Py_ssize_t fired
) noexcept nogil:
    """Fire the slots of ring 0 before tick `end`."""
    cdef Py_ssize_t before = fired
    cdef Py_ssize_t taken = 0
    cdef Py_ssize_t count
    cdef int64_t tick
    cdef Py_ssize_t slot = 0
    while True:
        tick = next_slot(wheel, 0, &slot)
        if tick >= end:
            break
        wheel.cursor, wheel.cursor_position = tick, slot
        while not is_empty(wheel, slot) and fired < ids.shape[0]:
            count = min(
                capacity(wheel, wheel.slots[slot].head) - wheel.slots[slot].room,
                ids.shape[0] - fired,
            )
            fired = fire_run(wheel, top(wheel, slot), count, ids, dues, fired)
            drop(wheel, slot, <uint32_t> count)
            taken += count
        if not is_empty(wheel, slot):
            wheel.short = OUTPUT
            break
    wheel.armed -= fired - before
    wheel.dead -= taken - (fired - before)
    return fired


cdef inline Py_ssize_t fire_heap(
    Wheel wheel, int64_t end, int64_t[::1] ids, int64_t[::1] dues, Py_ssize_t fired
) noexcept nogil:
    """Fire the heap's timers before tick `end`."""
    while wheel.heap_count and wheel.heap[0].due < end:
        if fired == ids.shape[0]:
            wheel.short = OUTPUT
            break
        ids[fired] = wheel.heap[0].id
        dues[fired] = wheel.heap[0].due
        fired += pop_pending(wheel)
    return fired


cdef inline Py_ssize_t fire_until(
    Wheel wheel,
    int64_t target,
    int64_t[::1] ids,  # OUT
    int64_t[::1] dues,  # OUT
    Py_ssize_t fired,
) noexcept nogil:
    """Fire in tick order from index `fired` on, until `target` is done or room runs short."""
    cdef int64_t tick, edge, pending
    cdef Py_ssize_t slot = 0
    cdef Py_ssize_t coarse = 0
    cdef int level
    wheel.short = NOTHING
    while True:
        edge = TICK_NEVER
        for level in range(1, wheel.level_count):
            tick = next_slot(wheel, level, &slot)
            if tick < edge:
                edge, coarse = tick, slot
        pending = wheel.heap[0].due if wheel.heap_count else TICK_NEVER
        fired = fire_ring(wheel, min(target + 1, edge, pending), ids, dues, fired)
        if wheel.short != NOTHING:
            return fired
        if edge > target and pending > target:
            move_cursor(wheel, max(wheel.cursor, target + 1))
            return fired
        if edge <= pending:
            move_cursor(wheel, edge)
            if not move_down(wheel, coarse):
                return fired
        else:
            # All that was due before the cursor comes before any ring.
            fired = fire_heap(wheel, max(pending + 1, wheel.cursor), ids, dues, fired)
            if wheel.short != NOTHING:
                return fired


cdef inline int64_t next_due(Wheel wheel) noexcept nogil:
    """Earliest tick at which something may be due; dead entries found on the way are dropped."""
    cdef int64_t earliest = TICK_NEVER
    cdef int64_t tick
    cdef Py_ssize_t slot = 0
    cdef int level
    while wheel.heap_count and not is_armed(wheel, <uint32_t> wheel.heap[0].handle):
        pop_pending(wheel)
    if wheel.heap_count:
        earliest = wheel.heap[0].due
    for level in range(wheel.level_count):
        tick = next_slot(wheel, level, &slot)
        while tick < earliest and not prune(wheel, slot):
            tick = next_slot(wheel, level, &slot)
        earliest = min(earliest, tick)
    return earliest
