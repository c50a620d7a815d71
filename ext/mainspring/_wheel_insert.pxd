"""Insertion of a batch: number the timers, bring neighbours together, file them."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from mainspring._wheel cimport BLOCK, GROUP_COUNT, Entry, Wheel
from mainspring._wheel_handles cimport open_block, take_numbers, unpin
from mainspring._wheel_heap cimport Pending
from mainspring._wheel_slots cimport put, slot_for


cdef inline void take_handles(Wheel wheel, uint64_t[::1] handles) noexcept nogil:  # OUT
    """Arm a handle for each item; there are numbers enough, see Wheel.reserve_numbers."""
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t count, index
    cdef uint64_t handle
    while done < handles.shape[0]:
        if wheel.block_taken == BLOCK:
            open_block(wheel)
        count = min(handles.shape[0] - done, BLOCK - wheel.block_taken)
        handle = (
            <uint64_t> wheel.generations[wheel.block] << 32
            | (wheel.block * BLOCK + wheel.block_taken)
        )
        for index in range(count):
            handles[done + index] = handle + index
        take_numbers(wheel, <uint32_t> count)
        done += count


cdef inline void stage(
    Wheel wheel,
    const int64_t[::1] ids,  # IN
    const int64_t[::1] dues,  # IN
    const uint64_t[::1] handles,  # IN
    Pending[::1] staged,  # OUT, shape (SLICE,)
) noexcept nogil:
    """Copy timers to `staged`, neighbours in the rings together where that can pay.

    One pass of a radix sort, with so few groups that each group's end stays in the cache.
    """
    cdef Py_ssize_t[GROUP_COUNT + 1] ends
    cdef Py_ssize_t count = dues.shape[0]
    cdef Py_ssize_t descents = 0
    cdef Py_ssize_t group, previous = 0
    cdef Py_ssize_t index, target
    for index in range(GROUP_COUNT + 1):
        ends[index] = 0
    for index in range(count):
        group = slot_for(wheel, dues[index]) >> wheel.group_shift
        ends[group + 1] += 1
        descents += group < previous
        previous = group
    if descents <= count // 16:
        for index in range(count):
            staged[index] = Pending(dues[index], ids[index], handles[index])
        return
    for index in range(GROUP_COUNT):
        ends[index + 1] += ends[index]
    for index in range(count):
        group = slot_for(wheel, dues[index]) >> wheel.group_shift
        target = ends[group]
        ends[group] += 1
        staged[target] = Pending(dues[index], ids[index], handles[index])


cdef inline Py_ssize_t put_staged(
    Wheel wheel, const Pending[::1] staged, Py_ssize_t count, Py_ssize_t done
) noexcept nogil:
    """File from `staged[done]` to `count`; return how far it came before room ran short."""
    cdef Entry entry
    while done < count:
        entry = Entry(staged[done].id, <uint32_t> staged[done].handle, <uint32_t> staged[done].due)
        if not put(wheel, &entry, staged[done].due):
            break
        done += 1
    return done


cdef inline void unpin_staged(
    Wheel wheel, const Pending[::1] staged, Py_ssize_t count, Py_ssize_t done
) noexcept nogil:
    """Give up the cancelled timers from `staged[done]` to `count`, which have no entry."""
    wheel.dead -= count - done
    while done < count:
        unpin(wheel, <uint32_t> staged[done].handle // BLOCK, 1)
        done += 1
