"""Binary heap of timers by due tick, earliest at index 0, for those that no ring can hold."""

from libc.stdint cimport int64_t, uint64_t


cdef struct Pending:
    int64_t due
    int64_t id
    uint64_t handle


cdef inline void sift_up(Pending[::1] heap, Py_ssize_t index) noexcept nogil:
    """Restore the order after `heap[index]` was written as the new last item."""
    cdef Pending item = heap[index]
    cdef Py_ssize_t parent
    while index > 0:
        parent = (index - 1) >> 1
        if heap[parent].due <= item.due:
            break
        heap[index] = heap[parent]
        index = parent
    heap[index] = item


cdef inline void sift_down(Pending[::1] heap, Py_ssize_t count, Py_ssize_t index) noexcept nogil:
    """Restore the order of the first `count` items below a replaced `heap[index]`."""
    cdef Pending item = heap[index]
    cdef Py_ssize_t child = 2 * index + 1
    while child < count:
        if child + 1 < count and heap[child + 1].due < heap[child].due:
            child += 1
        if item.due <= heap[child].due:
            break
        heap[index] = heap[child]
        index = child
        child = 2 * index + 1
    heap[index] = item
