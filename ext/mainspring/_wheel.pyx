"""Hierarchical timing wheel: hands out the ids whose due tick has come.

(a) Level by delay.  Ring 0 has one slot per tick and holds timers due in fewer ticks than it has
    slots; a slot of ring n spans all of ring n - 1.  The cursor is the first tick not fired yet,
    so a ring timer satisfies cursor <= due < cursor + horizon, and the slots of a coarse ring
    that hold timers begin at the cursor or later: no two laps ever share a slot.
(b) What no ring can hold, already due or beyond the horizon, waits in a binary heap.
(c) A slot is a stack of chunks of 16-byte entries out of one arena: four chunks of 4 entries,
    then four of 8, ... up to 4096, so that about one eighth of a slot is slack at most.  Free
    chunks are kept per size and used again; the arena grows by a quarter and never shrinks.
(d) Handles are numbers with a generation (_wheel_handles.pxd).  Cancelling clears a bit; the dead
    entry goes when it comes to the top of its slot, or when the dead outnumber half of the armed
    and all slots are swept.
(e) Insertion brings timers of neighbouring slots together first (_wheel_insert.pxd), so that the
    arena is written, and later read, in runs; it begins at the arena's start when that is empty.
(f) A nogil function that runs out of room changes nothing further, says in `short` what it lacks
    and returns how far it came; the caller grows that under the GIL and calls again.

Not thread safe: no method may run while another runs on the same wheel.
Limits: 2**28 entries, 2**32 numbers in use, and those of mainspring._wheel_contract.

Jobs mostly fire, unlike network timeouts, which are mostly cancelled.  Hence vectors and dead
entries instead of linked lists.

Source: Varghese & Lauck 1987, sections 5 and 6.2; but slots are found by bitmap, not by ticking.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from mainspring._wheel_cancel cimport cancel_current
from mainspring._wheel_cascade cimport cascade_early
from mainspring._wheel_fire cimport fire_until, move_cursor, next_due
from mainspring._wheel_heap cimport Pending
from mainspring._wheel_insert cimport put_staged, stage, take_handles, unpin_staged

cimport cython

import numpy as np

from mainspring import _wheel_contract as contract

cdef extern from *:
    """
    #ifndef MAINSPRING_DEBUG_BUILD
    #define MAINSPRING_DEBUG_BUILD 0
    #endif
    """
    int MAINSPRING_DEBUG_BUILD

BUILD = "debug" if MAINSPRING_DEBUG_BUILD else "release"

cdef uint32_t wheel_count = 0

ENTRY = np.dtype([("id", np.int64), ("number", np.uint32), ("due_low", np.uint32)])
SLOT = np.dtype([("head", np.uint32), ("room", np.uint32)])
PENDING = np.dtype([("due", np.int64), ("id", np.int64), ("handle", np.uint64)])


cdef object resized(view, Py_ssize_t size):
    """Resize the array behind `view` in place, new items are 0; the view must be replaced."""
    array = view.base
    array.resize(size, refcheck=False)
    return array


@cython.final
cdef class Wheel:
    """The compiled wheel; mainspring.wheel.PureWheel states the contract."""

    def __cinit__(self, now_tick, *, geometry=contract.DEFAULT_GEOMETRY):
        global wheel_count
        cdef Py_ssize_t base = 0
        cdef int64_t span = 1
        self.geometry = contract.checked_geometry(geometry)
        self.now = contract.checked_start(now_tick)
        self.level_count = len(self.geometry)
        for level in range(self.level_count):
            self.slots_in[level] = self.geometry[level]
            self.ticks_in[level] = span
            self.base[level] = base
            self.aside_of[level] = -1
            self.pass_at[level] = 0
            span *= self.slots_in[level]
            base += (self.slots_in[level] + 63) & ~63
        self.slot_count = base
        self.group_shift = 0
        while base >> self.group_shift >= GROUP_COUNT:
            self.group_shift += 1
        slots = np.zeros(base + contract.LEVELS_MAX, SLOT)
        slots["head"] = UNIT_NONE
        self.slots = slots
        self.occupied = np.zeros(base // 64 + 1, np.uint64)
        self.entries, self.links = np.zeros(0, ENTRY), np.zeros(0, np.uint32)
        self.unit_count = self.expected = 0
        self.clear_arena()
        self.heap, self.heap_count = np.zeros(0, PENDING), 0
        self.armed_bits, self.pins = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
        self.generations = np.zeros(0, np.uint32)
        self.blocks_used = self.block_count = self.blocks_free = 0
        self.block, self.block_taken, self.free_block = BLOCK_NONE, BLOCK, BLOCK_NONE
        self.armed = self.dead = 0
        move_cursor(self, self.now + 1)
        # Steps of the golden ratio keep the generations of different wheels far apart, so that
        # a handle of a wheel that was thrown away means nothing to its successor.
        wheel_count += 1
        self.first_generation = wheel_count * <uint32_t> 0x9E3779B1

    @property
    def now_tick(self):
        return self.now

    def __len__(self):
        return self.armed

    def nbytes(self):
        return (
            self.slots.nbytes + self.occupied.nbytes + self.entries.nbytes + self.links.nbytes
            + self.heap.nbytes + self.armed_bits.nbytes + self.pins.nbytes
            + self.generations.nbytes
        )

    def insert(self, ids, due_ticks):
        contract.checked_timers(ids, due_ticks)
        cdef Py_ssize_t count = len(ids)
        cdef const int64_t[::1] id_view = ids
        cdef const int64_t[::1] due_view = due_ticks
        handles = np.empty(count, np.uint64)
        cdef uint64_t[::1] handle_view = handles
        cdef Pending[::1] staged = np.empty(min(count, SLICE), PENDING)
        cdef Py_ssize_t begin, size, done
        self.reserve_numbers(count)
        if self.armed == 0 and self.dead == 0:
            self.clear_arena()
        for begin in range(0, count, SLICE):
            size, done = min(SLICE, count - begin), 0
            self.expected = count - begin
            with nogil:
                take_handles(self, handle_view[begin : begin + size])
                stage(
                    self, id_view[begin : begin + size], due_view[begin : begin + size],
                    handle_view[begin : begin + size], staged,
                )
            while True:
                with nogil:
                    done = put_staged(self, staged, size, done)
                if done == size:
                    break
                try:
                    self.grow()
                except MemoryError:
                    with nogil:
                        cancel_current(self, handle_view[: begin + size])
                        unpin_staged(self, staged, size, done)
                    raise
        self.expected = 0
        return handles

    def cancel(self, handles):
        cdef const uint64_t[::1] view = contract.checked_column("handles", handles, np.uint64)
        cdef Py_ssize_t cancelled
        with nogil:
            cancelled = cancel_current(self, view)
        return cancelled

    def advance(self, now_tick, limit=contract.TICK_MAX):
        cdef int64_t target = contract.checked_target(self.now, now_tick)
        cdef Py_ssize_t most = min(contract.checked_count("limit", limit), self.armed)
        cdef Py_ssize_t size = max(1, min(most, OUTPUT_MIN))
        cdef Py_ssize_t fired = 0
        cdef int64_t[::1] ids = np.empty(size, np.int64)
        cdef int64_t[::1] due_ticks = np.empty(size, np.int64)
        while True:
            with nogil:
                fired = fire_until(self, target, ids, due_ticks, fired)
            if self.short == NOTHING or fired == most:
                break
            try:
                if self.short == OUTPUT:
                    size = min(most, 4 * size)
                    ids, due_ticks = resized(ids, size), resized(due_ticks, size)
                else:
                    self.grow()
            except MemoryError:
                if fired == 0:
                    raise
                break  # what was taken must be handed out; the rest stays due
        self.now = target
        return resized(ids, fired), resized(due_ticks, fired)

    def next_due_tick(self):
        cdef int64_t tick
        with nogil:
            tick = next_due(self)
        return None if tick == TICK_NEVER else tick

    def cascade(self, budget):
        cdef Py_ssize_t moved = 0
        cdef int64_t left = contract.checked_count("budget", budget)
        while True:
            self.short = NOTHING
            with nogil:
                cascade_early(self, &left, &moved)
            if self.short == NOTHING:
                return moved
            self.grow()

    cdef clear_arena(self):
        """Use the arena from its start again, in order; there is no entry in it."""
        self.units_used = 0
        for size in range(CLASS_COUNT):
            self.free_units[size] = UNIT_NONE

    cdef grow(self):
        """Make more of what ran short, or raise MemoryError and leave everything as it was."""
        cdef Py_ssize_t size
        if self.short == HEAP:
            size = self.heap_count + self.heap_count // 4 + 64
            self.heap = resized(self.heap, size)
        elif self.short == ARENA:
            size = UNITS_MAX + max(
                self.unit_count + self.unit_count // 4,
                self.units_used + self.expected // UNIT_ENTRIES,
            )
            if size > UNIT_NONE:
                raise MemoryError("a wheel holds at most 2**28 entries")
            self.entries = resized(self.entries, size * UNIT_ENTRIES)
            self.links = resized(self.links, size)
            self.unit_count = size
        self.short = NOTHING

    cdef reserve_numbers(self, Py_ssize_t count):
        """Have blocks for `count` more handle numbers, or raise MemoryError."""
        cdef Py_ssize_t lacking = (
            count // BLOCK + 1 - self.blocks_free - (self.block_count - self.blocks_used)
        )
        if lacking <= 0:
            return
        cdef Py_ssize_t size = self.block_count + max(lacking, self.block_count // 4)
        if size > BLOCKS_MAX:
            raise MemoryError("a wheel has at most 2**32 handle numbers in use")
        self.armed_bits = resized(self.armed_bits, size * (BLOCK // 64))
        self.pins = resized(self.pins, size)
        self.generations = resized(self.generations, size)
        self.generations.base[self.block_count:] = self.first_generation
        self.block_count = size
