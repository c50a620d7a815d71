"""Slots: stacks of chunks out of one arena, newest entry on top, the order inside undefined."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from mainspring._wheel cimport (
    ARENA, HEAP, STEP_LAST, UNIT_BITS, UNIT_ENTRIES, TICK_NEVER, UNIT_NONE, Entry, Wheel,
)
from mainspring._wheel_bitmap cimport clear_bit, next_set, set_bit
from mainspring._wheel_handles cimport forget, is_armed
from mainspring._wheel_heap cimport Pending, sift_up


cdef inline Py_ssize_t capacity(Wheel wheel, uint32_t unit) noexcept nogil:
    return UNIT_ENTRIES << (wheel.links[unit] >> (UNIT_BITS + 2))


cdef inline Py_ssize_t top(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """Index of the newest entry of a slot that has one."""
    return <Py_ssize_t> wheel.slots[slot].head * UNIT_ENTRIES + wheel.slots[slot].room


cdef inline bint is_empty(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    return wheel.slots[slot].head == UNIT_NONE


cdef inline bint add_chunk(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """Put an empty chunk on top; False, and nothing done, if the arena is full."""
    cdef uint32_t head = wheel.slots[slot].head
    cdef uint32_t unit
    cdef int step = 0
    cdef int size
    if head != UNIT_NONE:
        step = min(<int> (wheel.links[head] >> UNIT_BITS) + 1, <int> STEP_LAST)
    size = step >> 2
    unit = wheel.free_units[size]
    if unit != UNIT_NONE:
        wheel.free_units[size] = wheel.links[unit] & UNIT_NONE
    elif wheel.units_used + (1 << size) <= wheel.unit_count:
        unit = <uint32_t> wheel.units_used
        wheel.units_used += 1 << size
    else:
        wheel.short = ARENA
        return False
    wheel.links[unit] = <uint32_t> step << UNIT_BITS | head
    wheel.slots[slot].head = unit
    wheel.slots[slot].room = UNIT_ENTRIES << size
    set_bit(wheel.occupied, slot)
    return True


cdef inline void bring_back(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """Give a slot that has just become empty the timers that were set aside from it."""
    cdef Py_ssize_t aside
    cdef int level
    for level in range(1, wheel.level_count):
        if wheel.aside_of[level] != slot:
            continue
        wheel.aside_of[level] = -1
        aside = wheel.slot_count + level
        if not is_empty(wheel, aside):  # a sweep may have emptied it
            wheel.slots[slot] = wheel.slots[aside]
            wheel.slots[aside].head = UNIT_NONE
            wheel.slots[aside].room = 0
            clear_bit(wheel.occupied, aside)
            set_bit(wheel.occupied, slot)


cdef inline void drop_chunk(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """Free the slot's head chunk, whose entries are all dropped."""
    cdef uint32_t unit = wheel.slots[slot].head
    cdef uint32_t older = wheel.links[unit] & UNIT_NONE
    cdef int size = wheel.links[unit] >> (UNIT_BITS + 2)
    wheel.links[unit] = wheel.free_units[size]
    wheel.free_units[size] = unit
    wheel.slots[slot].head = older
    wheel.slots[slot].room = 0
    if older == UNIT_NONE:
        clear_bit(wheel.occupied, slot)
        bring_back(wheel, slot)


cdef inline void drop(Wheel wheel, Py_ssize_t slot, uint32_t count) noexcept nogil:
    """Take the newest `count` entries, all in the head chunk, off the slot."""
    wheel.slots[slot].room += count
    if wheel.slots[slot].room == capacity(wheel, wheel.slots[slot].head):
        drop_chunk(wheel, slot)


cdef inline void drop_dead(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """Take the newest entry, a dead one, off the slot."""
    forget(wheel, wheel.entries[top(wheel, slot)].number)
    wheel.dead -= 1
    drop(wheel, slot, 1)


cdef inline bint prune(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """Drop dead entries until the newest one is armed; False if the slot is empty then."""
    while not is_empty(wheel, slot):
        if is_armed(wheel, wheel.entries[top(wheel, slot)].number):
            return True
        drop_dead(wheel, slot)
    return False


cdef inline void sweep_slot(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """Drop all dead entries, in place: the newest ones fill the holes."""
    cdef uint32_t unit
    cdef Py_ssize_t index, end
    if not prune(wheel, slot):
        return
    unit = wheel.slots[slot].head
    while unit != UNIT_NONE:
        index = <Py_ssize_t> unit * UNIT_ENTRIES
        end = index + capacity(wheel, unit)
        if unit == wheel.slots[slot].head:
            index = top(wheel, slot)
        while index < end:
            # The top is armed and everything between it and `index` too, so that what is dropped
            # below never reaches `index`.
            if not is_armed(wheel, wheel.entries[index].number):
                forget(wheel, wheel.entries[index].number)
                wheel.dead -= 1
                wheel.entries[index] = wheel.entries[top(wheel, slot)]
                drop(wheel, slot, 1)
                prune(wheel, slot)
            index += 1
        unit = wheel.links[unit] & UNIT_NONE


cdef inline bint push(Wheel wheel, Py_ssize_t slot, const Entry *entry) noexcept nogil:
    if wheel.slots[slot].room == 0 and not add_chunk(wheel, slot):
        return False
    wheel.slots[slot].room -= 1
    wheel.entries[top(wheel, slot)] = entry[0]
    return True


# Rings: which slot, and when.


cdef inline Py_ssize_t slot_for(Wheel wheel, int64_t due) noexcept nogil:
    """The slot of a due tick seen from the cursor; `slot_count` stands for the heap."""
    cdef int64_t delay, position
    cdef int level
    if due < wheel.cursor:  # asked first: the difference could overflow
        return wheel.slot_count
    delay = due - wheel.cursor
    if delay < wheel.slots_in[0]:
        position = wheel.cursor_position + delay
        return position - wheel.slots_in[0] if position >= wheel.slots_in[0] else position
    for level in range(1, wheel.level_count):
        if delay < wheel.ticks_in[level] * wheel.slots_in[level]:
            position = <uint64_t> due // <uint64_t> wheel.ticks_in[level]
            return wheel.base[level] + <uint64_t> position % <uint64_t> wheel.slots_in[level]
    return wheel.slot_count


cdef inline int64_t due_of(Wheel wheel, const Entry *entry) noexcept nogil:
    """The due tick of a ring's entry: cursor <= due < cursor + 2**31."""
    return wheel.cursor + <uint32_t> (entry.due_low - <uint32_t> wheel.cursor)


cdef inline int64_t next_slot(Wheel wheel, int level, Py_ssize_t *slot) noexcept nogil:
    """First tick of the next occupied slot of a ring, or TICK_NEVER if there is none."""
    cdef uint64_t ticks = wheel.ticks_in[level]
    cdef uint64_t count = wheel.slots_in[level]
    cdef uint64_t number = wheel.cursor
    cdef uint64_t position = wheel.cursor_position
    cdef int64_t distance
    if level > 0:
        number = (number + ticks - 1) // ticks
        position = number % count
    distance = next_set(wheel.occupied, wheel.base[level], position, count)
    if distance < 0:
        return TICK_NEVER
    position += distance
    slot[0] = wheel.base[level] + (position - count if position >= count else position)
    return (number + distance) * ticks


cdef inline bint put(Wheel wheel, const Entry *entry, int64_t due) noexcept nogil:
    """File an entry by its delay; False, and nothing done, if room ran short."""
    cdef Py_ssize_t slot = slot_for(wheel, due)
    if slot != wheel.slot_count:
        return push(wheel, slot, entry)
    if wheel.heap_count == wheel.heap.shape[0]:
        wheel.short = HEAP
        return False
    wheel.heap[wheel.heap_count] = Pending(due, entry.id, entry.number)
    wheel.heap_count += 1
    sift_up(wheel.heap, wheel.heap_count - 1)
    return True
