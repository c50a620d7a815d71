"""Cascades: a coarse slot's timers move to finer rings, when it begins or early.

Of ring n only the slot that begins next can hold timers within reach of ring n - 1.  An early pass
takes that slot from the top: what is in reach moves down, the rest is set aside in a slot outside
the rings and becomes the slot's stack again when the slot is empty (_wheel_slots.bring_back, so
that an empty slot never has timers set aside).  A pass begins when the slot is half its span
ahead, and again at half of the distance left, so that a timer is looked at about twice.
"""

from libc.stdint cimport int64_t
from mainspring._wheel cimport NOTHING, Entry, Wheel
from mainspring._wheel_handles cimport is_armed
from mainspring._wheel_slots cimport (
    drop, drop_dead, due_of, is_empty, next_slot, push, put, top,
)


cdef inline bint move_down(Wheel wheel, Py_ssize_t slot) noexcept nogil:
    """File all of a coarse slot anew.  False if room ran short: make room and call again."""
    cdef Entry entry
    while not is_empty(wheel, slot):
        entry = wheel.entries[top(wheel, slot)]
        if not is_armed(wheel, entry.number):
            drop_dead(wheel, slot)
        elif put(wheel, &entry, due_of(wheel, &entry)):
            drop(wheel, slot, 1)
        else:
            return False
    return True


cdef inline bint run_pass(
    Wheel wheel, int level, Py_ssize_t slot, int64_t *left, Py_ssize_t *moved
) noexcept nogil:
    """Look at up to `left` timers of the slot; True if that was all of it."""
    cdef Entry entry
    cdef int64_t due
    cdef bint was_aside
    while left[0] > 0:
        left[0] -= 1
        entry = wheel.entries[top(wheel, slot)]
        due = due_of(wheel, &entry)
        was_aside = wheel.aside_of[level] == slot
        if not is_armed(wheel, entry.number):
            drop_dead(wheel, slot)
        elif due < wheel.cursor + wheel.ticks_in[level]:
            if not put(wheel, &entry, due):
                return False
            moved[0] += 1
            drop(wheel, slot, 1)
        else:
            if not push(wheel, wheel.slot_count + level, &entry):
                return False
            wheel.aside_of[level] = slot
            was_aside = True
            drop(wheel, slot, 1)
        if is_empty(wheel, slot) or (was_aside and wheel.aside_of[level] != slot):
            return True
    return False


cdef inline void cascade_early(Wheel wheel, int64_t *left, Py_ssize_t *moved) noexcept nogil:
    """Run the passes that are due until `left` is used up or `wheel.short` says what to grow."""
    cdef int64_t begin, ahead
    cdef Py_ssize_t slot = 0
    cdef int level
    for level in range(1, wheel.level_count):
        begin = next_slot(wheel, level, &slot)
        ahead = begin - wheel.cursor
        if ahead >= wheel.ticks_in[level]:
            continue
        if wheel.aside_of[level] != slot and (
            wheel.cursor < wheel.pass_at[level] or ahead > wheel.ticks_in[level] // 2
        ):
            continue
        if left[0] > 0 and run_pass(wheel, level, slot, left, moved):
            wheel.pass_at[level] = wheel.cursor + (ahead + 1) // 2
        if wheel.short != NOTHING:
            return
