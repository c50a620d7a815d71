"""Fixed-width integers in big-endian (COPY, msgpack) and little-endian (frame columns) order.

Every pointer may be unaligned; the caller has asked the cursor that the bytes are there.  The C
below is two instructions a call after optimisation, and right on a big-endian host as well.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define MAINSPRING_BE(bits, x) __builtin_bswap##bits(x)
    #define MAINSPRING_LE(bits, x) (x)
    #else
    #define MAINSPRING_BE(bits, x) (x)
    #define MAINSPRING_LE(bits, x) __builtin_bswap##bits(x)
    #endif

    #define MAINSPRING_WORD(bits)                                                          \\
        static inline uint##bits##_t mainspring_load_be##bits(const uint8_t *from) {       \\
            uint##bits##_t word; memcpy(&word, from, sizeof word);                         \\
            return MAINSPRING_BE(bits, word); }                                            \\
        static inline void mainspring_store_be##bits(uint8_t *to, uint##bits##_t word) {   \\
            word = MAINSPRING_BE(bits, word); memcpy(to, &word, sizeof word); }            \\
        static inline uint##bits##_t mainspring_load_le##bits(const uint8_t *from) {       \\
            uint##bits##_t word; memcpy(&word, from, sizeof word);                         \\
            return MAINSPRING_LE(bits, word); }                                            \\
        static inline void mainspring_store_le##bits(uint8_t *to, uint##bits##_t word) {   \\
            word = MAINSPRING_LE(bits, word); memcpy(to, &word, sizeof word); }

    #ifndef MAINSPRING_ENDIAN
    #define MAINSPRING_ENDIAN
    MAINSPRING_WORD(16)
    MAINSPRING_WORD(32)
    MAINSPRING_WORD(64)
    #endif
    """
    uint16_t load_be16 "mainspring_load_be16"(const uint8_t* word) noexcept nogil
    uint32_t load_be32 "mainspring_load_be32"(const uint8_t* word) noexcept nogil
    uint64_t load_be64 "mainspring_load_be64"(const uint8_t* word) noexcept nogil
    uint32_t load_le32 "mainspring_load_le32"(const uint8_t* word) noexcept nogil
    uint64_t load_le64 "mainspring_load_le64"(const uint8_t* word) noexcept nogil
    void store_be16 "mainspring_store_be16"(uint8_t* to, uint16_t word) noexcept nogil
    void store_be32 "mainspring_store_be32"(uint8_t* to, uint32_t word) noexcept nogil
    void store_be64 "mainspring_store_be64"(uint8_t* to, uint64_t word) noexcept nogil
    void store_le32 "mainspring_store_le32"(uint8_t* to, uint32_t word) noexcept nogil
    void store_le64 "mainspring_store_le64"(uint8_t* to, uint64_t word) noexcept nogil
