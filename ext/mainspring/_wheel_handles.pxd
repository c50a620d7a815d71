"""Handles: generation << 32 | number, one armed bit per number, numbers given out in blocks.

A block is used again, under the next generation, once none of its numbers is in an entry; until
then a number belongs to one timer only.  So a stale handle finds its bit cleared or its block in
another generation, unless 2**32 generations of one block went by.  Generation 0 is never used,
hence no handle is 0.
"""

from libc.stdint cimport uint32_t, uint64_t
from mainspring._wheel cimport BLOCK, BLOCK_NONE, Wheel
from mainspring._wheel_bitmap cimport clear_bit


cdef inline bint is_armed(Wheel wheel, uint32_t number) noexcept nogil:
    return wheel.armed_bits[number >> 6] >> (number & 63) & 1


cdef inline bint is_current(Wheel wheel, uint64_t handle) noexcept nogil:
    """Whether `handle` is that of an armed timer; any 64 bits may be asked about."""
    cdef uint32_t number = <uint32_t> handle
    cdef uint32_t block = number // BLOCK
    return (
        block < wheel.blocks_used
        and wheel.generations[block] == handle >> 32
        and is_armed(wheel, number)
    )


cdef inline void free_block(Wheel wheel, uint32_t block) noexcept nogil:
    wheel.generations[block] += 1
    if wheel.generations[block] == 0:
        wheel.generations[block] = 1
    wheel.pins[block] = wheel.free_block
    wheel.free_block = block
    wheel.blocks_free += 1


cdef inline void open_block(Wheel wheel) noexcept nogil:
    """Go on to the next block of numbers; there is one, see Wheel.reserve_numbers."""
    if wheel.block != BLOCK_NONE and wheel.pins[wheel.block] == 0:
        free_block(wheel, wheel.block)  # all of it fired while it was open
    if wheel.free_block != BLOCK_NONE:
        wheel.block = wheel.free_block
        wheel.free_block = wheel.pins[wheel.block]
        wheel.blocks_free -= 1
    else:
        wheel.block = <uint32_t> wheel.blocks_used
        wheel.blocks_used += 1
    wheel.pins[wheel.block] = 0
    wheel.block_taken = 0


cdef inline void take_numbers(Wheel wheel, uint32_t count) noexcept nogil:
    """Arm the next `count` numbers of the open block, which has as many left."""
    cdef uint32_t number = wheel.block * BLOCK + wheel.block_taken
    cdef uint32_t bits
    wheel.block_taken += count
    wheel.pins[wheel.block] += count
    wheel.armed += count
    while count > 0:
        bits = min(count, 64 - (number & 63))
        wheel.armed_bits[number >> 6] |= (~<uint64_t> 0 >> (64 - bits)) << (number & 63)
        number += bits
        count -= bits


cdef inline void unpin(Wheel wheel, uint32_t block, uint32_t count) noexcept nogil:
    """Note that `count` numbers of the block, bits cleared, are in no entry any more."""
    wheel.pins[block] -= count
    if wheel.pins[block] == 0 and block != wheel.block:
        free_block(wheel, block)


cdef inline void forget(Wheel wheel, uint32_t number) noexcept nogil:
    """Note that no entry carries this number any more."""
    clear_bit(wheel.armed_bits, number)
    unpin(wheel, number // BLOCK, 1)
