"""Cancellation: clear the armed bits; sweep when the dead entries have become too many."""

from libc.stdint cimport uint32_t, uint64_t
from mainspring._wheel cimport DEAD_MIN, Wheel
from mainspring._wheel_bitmap cimport clear_bit
from mainspring._wheel_handles cimport forget, is_armed, is_current
from mainspring._wheel_heap cimport sift_down
from mainspring._wheel_slots cimport sweep_slot


cdef inline void sweep(Wheel wheel) noexcept nogil:
    """Drop all dead entries."""
    cdef Py_ssize_t kept = 0
    cdef Py_ssize_t slot, index
    for slot in range(wheel.slots.shape[0]):
        sweep_slot(wheel, slot)
    for index in range(wheel.heap_count):
        if is_armed(wheel, <uint32_t> wheel.heap[index].handle):
            wheel.heap[kept] = wheel.heap[index]
            kept += 1
        else:
            forget(wheel, <uint32_t> wheel.heap[index].handle)
    wheel.dead -= wheel.heap_count - kept
    wheel.heap_count = kept
    for index in range(kept // 2 - 1, -1, -1):
        sift_down(wheel.heap, kept, index)


cdef inline Py_ssize_t cancel_current(Wheel wheel, const uint64_t[::1] handles) noexcept nogil:
    """Disarm those that are current; return how many."""
    cdef Py_ssize_t cancelled = 0
    cdef Py_ssize_t index
    for index in range(handles.shape[0]):
        if is_current(wheel, handles[index]):
            clear_bit(wheel.armed_bits, <uint32_t> handles[index])
            cancelled += 1
    wheel.armed -= cancelled
    wheel.dead += cancelled
    if wheel.dead > DEAD_MIN + wheel.armed // 2:
        sweep(wheel)
    return cancelled
