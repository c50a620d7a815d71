"""What a wheel is made of.  _wheel.pyx explains the design, letters (a) to (f)."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from mainspring._wheel_heap cimport Pending

cimport cython

cdef enum:
    LEVELS_MAX = 8
    UNIT_ENTRIES = 4  # smallest chunk; chunks are addressed in these units
    UNIT_BITS = 26  # of a link; the rest is the chunk's step
    UNIT_NONE = 0x3FFFFFF
    UNITS_MAX = 1024  # of one chunk
    STEP_LAST = 43  # step = 4 * size class + number within the class
    CLASS_COUNT = 11
    BLOCK = 512  # handle numbers in a block: 8 words of armed bits, one cache line
    BLOCK_NONE = 0x7FFFFFFF
    BLOCKS_MAX = 0x7FFFFF  # 2**32 numbers
    SLICE = 65536  # timers staged at a time
    GROUP_COUNT = 256  # of slots, for staging
    DEAD_MIN = 4096  # dead entries not worth a sweep
    OUTPUT_MIN = 1024

cdef extern from *:
    """
    #define MAINSPRING_TICK_NEVER INT64_MAX
    """
    const int64_t TICK_NEVER "MAINSPRING_TICK_NEVER"

cdef enum Short:  # what ran short, so that a nogil function returned early
    NOTHING
    ARENA
    HEAP
    OUTPUT

cdef struct Entry:
    int64_t id
    uint32_t number  # of its handle
    uint32_t due_low  # low half of the due tick; the cursor gives the rest

cdef struct Slot:
    uint32_t head  # newest chunk, the only one that may be part filled
    uint32_t room  # free entries in it: those from `room` on are in use


@cython.final
cdef class Wheel:
    cdef readonly tuple geometry
    cdef int64_t now
    cdef int64_t cursor, cursor_position  # first tick not fired, and its slot in ring 0

    cdef int level_count
    cdef int64_t slots_in[LEVELS_MAX]
    cdef int64_t ticks_in[LEVELS_MAX]  # ticks that one slot of the level spans
    cdef Py_ssize_t base[LEVELS_MAX]  # index of the level's slot 0, a multiple of 64
    cdef Py_ssize_t slot_count  # aside slots follow: slot_count + level, see _wheel_cascade
    cdef Py_ssize_t aside_of[LEVELS_MAX]  # the slot whose timers were set aside, or -1
    cdef int64_t pass_at[LEVELS_MAX]  # no early pass over the level before this cursor
    cdef Slot[::1] slots
    cdef uint64_t[::1] occupied  # one bit per slot

    cdef Entry[::1] entries
    cdef uint32_t[::1] links  # per chunk: step << UNIT_BITS | next chunk of slot or free list
    cdef Py_ssize_t units_used, unit_count
    cdef uint32_t free_units[CLASS_COUNT]

    cdef Pending[::1] heap
    cdef Py_ssize_t heap_count

    cdef uint64_t[::1] armed_bits
    cdef uint32_t[::1] pins  # per block: its numbers in entries; of a free block: the next one
    cdef uint32_t[::1] generations
    cdef Py_ssize_t blocks_used, blocks_free, block_count
    cdef uint32_t block, block_taken, free_block, first_generation

    cdef Py_ssize_t armed, dead
    cdef Py_ssize_t expected  # entries the current batch may still need
    cdef int group_shift  # slot >> group_shift < GROUP_COUNT
    cdef Short short

    cdef clear_arena(self)
    cdef grow(self)
    cdef reserve_numbers(self, Py_ssize_t count)
