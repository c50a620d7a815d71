"""Frames of firings: a claim's columns to wire bytes and back, no Python object per firing.

(a) Readers for the few msgpack types of a frame, of every width (the writers are in `msgpack`).
(b) What of a batch `encode` refuses (the loops are in `columns`).  (c) `encode` measures the
frame, then gathers the chosen rows straight into it.  (d) `decode` checks everything before it
answers.

Invariants: the wire is read and written through `cursor` only; an index into a batch is used
only after (b) has passed it; `encode` refuses what `decode` would.  The pure twin
`mainspring._frame_pure` equals this module on every input.

Source: docs/frame.md; the msgpack specification (github.com/msgpack/msgpack, spec.md).
"""

import numpy as np

from mainspring.errors import CorruptFrame

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy

from mainspring.columns cimport (
    are_offsets, blob_sum, first_below_one_i32, first_below_one_i64, first_other, first_outside,
    first_unknown_flag, gather_blobs, gather_flags, gather_i32, gather_i64,
)
from mainspring.cursor cimport Cursor, cursor_left, cursor_over, cursor_take, slice_is_utf8
from mainspring.endian cimport (
    load_be16, load_be32, load_be64, load_le32, load_le64, store_be16,
)
from mainspring.msgpack cimport (
    bin_bytes, text_bytes, uint_bytes, write_lead, write_text, write_uint,
)

cdef enum:
    VERSION = 2
    FIELD_COUNT = 23
    FIRINGS_MAX = 4_096
    TEXT_BYTES_MAX = 255
    FRAME_BYTES_MAX = 16 * 1024 * 1024
    SHARD_MAX = 32_767
    FLAGS_KNOWN = 7  # bits 0-1 trigger, bit 2 catch_up

cdef object ID_MAX = 2**63 - 1


# ------------------------------------------------------------------------------- (a) readers

cdef const uint8_t* _take(Cursor* cursor, int64_t count, str name) except NULL:
    cdef const uint8_t* taken = cursor_take(cursor, count)
    if taken == NULL:
        raise CorruptFrame(f"bad frame: ends inside {name}")
    return taken


cdef int64_t _read_size(Cursor* cursor, int width, str name) except -1:
    """Read a length or count of `width` bytes."""
    cdef const uint8_t* word = _take(cursor, width, name)
    if width == 1:
        return word[0]
    return load_be16(word) if width == 2 else load_be32(word)


cdef object _read_int(Cursor* cursor, str name, object low, object high):
    """Read an integer of any width, `low` to `high`."""
    cdef uint8_t lead = _take(cursor, 1, name)[0]
    cdef object value  # inferred it would be the widest of the C types: unsigned
    if lead < 0x80:
        value = lead
    elif lead >= 0xE0:
        value = <int8_t> lead
    elif lead == 0xCC:
        value = _take(cursor, 1, name)[0]
    elif lead == 0xCD:
        value = load_be16(_take(cursor, 2, name))
    elif lead == 0xCE:
        value = load_be32(_take(cursor, 4, name))
    elif lead == 0xCF:
        value = load_be64(_take(cursor, 8, name))
    elif lead == 0xD0:
        value = <int8_t> _take(cursor, 1, name)[0]
    elif lead == 0xD1:
        value = <int16_t> load_be16(_take(cursor, 2, name))
    elif lead == 0xD2:
        value = <int32_t> load_be32(_take(cursor, 4, name))
    elif lead == 0xD3:
        value = <int64_t> load_be64(_take(cursor, 8, name))
    else:
        raise CorruptFrame(f"bad frame: {name} is not an integer")
    if not low <= value <= high:
        raise CorruptFrame(f"bad frame: {name} {value} is outside {low} to {high}")
    return value


cdef str _read_text(Cursor* cursor, str name):
    cdef uint8_t lead = _take(cursor, 1, name)[0]
    cdef int64_t length
    cdef const uint8_t* text
    if 0xA0 <= lead <= 0xBF:
        length = lead & 0x1F
    elif 0xD9 <= lead <= 0xDB:
        length = _read_size(cursor, 1 << (lead - 0xD9), name)
    else:
        raise CorruptFrame(f"bad frame: {name} is not text")
    text = _take(cursor, length, name)
    if not slice_is_utf8(text, length):
        raise CorruptFrame(f"bad frame: {name} is not UTF-8")
    if not 1 <= length <= TEXT_BYTES_MAX:
        raise CorruptFrame(
            f"bad frame: {name} has {length} bytes where 1 to {TEXT_BYTES_MAX} are due"
        )
    return (<const char*> text)[:length].decode("utf-8")


cdef const uint8_t* _read_bin(Cursor* cursor, str name, int64_t* length) except NULL:
    """Read a bin; `length` is in and out: what is due, -1 for any, and what was found."""
    cdef uint8_t lead = _take(cursor, 1, name)[0]
    cdef const uint8_t* taken
    cdef int64_t found
    if not 0xC4 <= lead <= 0xC6:
        raise CorruptFrame(f"bad frame: {name} is not binary")
    found = _read_size(cursor, 1 << (lead - 0xC4), name)
    taken = _take(cursor, found, name)
    if length[0] >= 0 and found != length[0]:
        raise CorruptFrame(f"bad frame: {name} has {found} bytes where {length[0]} are due")
    length[0] = found
    return taken


# -------------------------------------------------------------------------------- (b) checks

cdef int _check_rows(object batch, const int64_t[::1] indices, int64_t row_count) except -1:
    """Raise ValueError unless `decode` would take the chosen rows."""
    cdef int64_t place = first_outside(indices, row_count)
    cdef const int64_t[::1] ids
    cdef const int32_t[::1] counts
    if place >= 0:
        raise ValueError(f"firing {place}: {indices[place]} is no row of a batch of {row_count}")
    for name in ("firing_id", "job_id", "fence"):
        ids = getattr(batch, name)
        place = first_below_one_i64(ids, indices)
        if place >= 0:
            raise ValueError(f"{name} {ids[indices[place]]} of firing {place} is below 1")
    for name in ("attempt", "timeout_s"):
        counts = getattr(batch, name)
        place = first_below_one_i32(counts, indices)
        if place >= 0:
            raise ValueError(f"{name} {counts[indices[place]]} of firing {place} is below 1")
    place = first_unknown_flag(batch.trigger, batch.catch_up, indices)
    if place >= 0:
        raise ValueError(f"trigger or catch_up of firing {place} has no bits in the flags")
    return 0


cdef int _check_name(str name, str text, object column, const int64_t[::1] indices) except -1:
    """Raise ValueError unless the chosen rows all hold `text` in a Codes column."""
    cdef int64_t place = first_other(column.codes, indices)
    if place >= 0:
        raise ValueError(f"firing {place} has another {name} than firing 0")
    if column[indices[0]] != text:
        raise ValueError(f"the firings have {name} {column[indices[0]]!r}, not {text!r}")
    return 0


# -------------------------------------------------------------------------------- (c) encode

def encode(
    uint64_t leader, uint64_t frame_no, uint64_t shard, uint64_t term, str queue not None,
    str task not None, object batch not None, const int64_t[::1] indices not None,
    const int64_t[::1] next_us not None, const int64_t[::1] key_offsets not None,
    bytes keys not None,
):
    """Write a frame; `mainspring.frame.encode` has the contract and has checked the header.

    `key_offsets`, shape (k + 1,), are those of `keys`, one for each of `indices`.
    """
    cdef int64_t count = indices.shape[0]
    cdef int64_t payload_bytes
    cdef int64_t frame_bytes
    cdef int64_t[::1] every = np.arange(count)
    cdef bytes frame
    cdef Cursor out
    cdef bytes queue_text = queue.encode()
    cdef bytes task_text = task.encode()
    cdef const int64_t[::1] payload_offsets = batch.payload.offsets
    cdef bytes payloads = batch.payload.joined
    _check_rows(batch, indices, next_us.shape[0])
    _check_name("queue", queue, batch.queue, indices)
    _check_name("task", task, batch.task, indices)
    payload_bytes = blob_sum(payload_offsets, PyBytes_GET_SIZE(payloads), indices)
    if payload_bytes < 0:
        raise ValueError("the payload offsets of the batch do not fit its payloads")
    frame_bytes = (
        3 + uint_bytes(VERSION) + uint_bytes(leader) + uint_bytes(frame_no) + uint_bytes(shard)
        + uint_bytes(term) + text_bytes(len(queue_text)) + text_bytes(len(task_text))
        + uint_bytes(count) + 7 * bin_bytes(8 * count) + 3 * bin_bytes(4 * count)
        + bin_bytes(count) + 2 * bin_bytes(4 * (count + 1)) + bin_bytes(len(keys))
        + bin_bytes(payload_bytes)
    )
    if frame_bytes > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {frame_bytes} bytes is above {FRAME_BYTES_MAX}")
    frame = PyBytes_FromStringAndSize(NULL, frame_bytes)
    out = cursor_over(<const uint8_t*> PyBytes_AS_STRING(frame), frame_bytes)
    store_be16(write_lead(&out, 0xDC, 2), FIELD_COUNT)
    write_uint(&out, VERSION)
    write_uint(&out, leader)
    write_uint(&out, frame_no)
    write_uint(&out, shard)
    write_uint(&out, term)
    write_text(&out, queue_text)
    write_text(&out, task_text)
    write_uint(&out, <uint64_t> count)
    for name in ("firing_id", "job_id", "fence", "scheduled_us", "due_us", "previous_us"):
        gather_i64(&out, getattr(batch, name), indices)
    gather_i64(&out, next_us, indices)
    for name in ("rev", "attempt", "timeout_s"):
        gather_i32(&out, getattr(batch, name), indices)
    gather_flags(&out, batch.trigger, batch.catch_up, indices)
    gather_blobs(&out, key_offsets, keys, len(keys), every)
    gather_blobs(&out, payload_offsets, payloads, payload_bytes, indices)
    assert cursor_left(&out) == 0, "the frame is shorter than it was measured"
    return frame


# -------------------------------------------------------------------------------- (d) decode

cdef object _read_i64(Cursor* cursor, str name, int64_t count):
    cdef int64_t length = 8 * count
    cdef Cursor cells
    cdef const uint8_t* taken = _read_bin(cursor, name, &length)
    cdef int64_t[::1] column
    cdef Py_ssize_t place
    array = np.empty(count, np.int64)
    column = array
    cells = cursor_over(taken, length)
    with nogil:
        for place in range(count):
            column[place] = <int64_t> load_le64(cursor_take(&cells, 8))
    array.flags.writeable = False
    return array


cdef object _read_words(Cursor* cursor, str name, int64_t count, object dtype):
    """Read int32 or uint32."""
    cdef int64_t length = 4 * count
    cdef Cursor cells
    cdef const uint8_t* taken = _read_bin(cursor, name, &length)
    cdef uint32_t[::1] column
    cdef Py_ssize_t place
    array = np.empty(count, dtype)
    column = array.view(np.uint32)
    cells = cursor_over(taken, length)
    with nogil:
        for place in range(count):
            column[place] = load_le32(cursor_take(&cells, 4))
    array.flags.writeable = False
    return array


cdef object _read_flags(Cursor* cursor, int64_t count):
    cdef int64_t length = count
    cdef const uint8_t* taken = _read_bin(cursor, "flags", &length)
    cdef uint8_t[::1] column
    array = np.empty(count, np.uint8)
    column = array
    memcpy(&column[0], taken, <size_t> count)
    array.flags.writeable = False
    return array


cdef bytes _read_blob(Cursor* cursor, str name):
    cdef int64_t length = -1
    cdef const uint8_t* taken = _read_bin(cursor, name, &length)
    return PyBytes_FromStringAndSize(<const char*> taken, length)


cdef int64_t _read_field_count(Cursor* cursor) except -1:
    cdef uint8_t lead = _take(cursor, 1, "the array's head")[0]
    if 0x90 <= lead <= 0x9F:
        return lead & 0x0F
    if lead == 0xDC or lead == 0xDD:
        return _read_size(cursor, 2 << (lead - 0xDC), "the array's head")
    raise CorruptFrame("bad frame: it is not an array")


cdef int _check_columns(tuple columns, int64_t count) except -1:
    """Raise CorruptFrame where a cell breaks a rule; what breaks rules as a field has done so."""
    cdef int64_t[::1] every = np.arange(count)
    cdef const uint8_t[::1] flags = columns[10]
    cdef const uint32_t[::1] key_offsets = columns[11]
    cdef bytes keys = columns[12]
    cdef Cursor cursor = cursor_over(
        <const uint8_t*> PyBytes_AS_STRING(keys), PyBytes_GET_SIZE(keys)
    )
    cdef int64_t length
    cdef int64_t place
    for index, name in ((0, "firing_id"), (1, "job_id"), (2, "fence")):
        _refuse_cell(name, columns[index], first_below_one_i64(columns[index], every))
    for index, name in ((8, "attempt"), (9, "timeout_s")):
        _refuse_cell(name, columns[index], first_below_one_i32(columns[index], every))
    for place in range(count):
        if flags[place] > FLAGS_KNOWN:
            raise CorruptFrame(f"bad frame: flags {flags[place]} of firing {place} are unknown")
    for index, name in ((11, "key_offsets"), (13, "payload_offsets")):
        if not are_offsets(columns[index], len(columns[index + 1])):
            raise CorruptFrame(f"bad frame: {name} do not rise from 0 to {len(columns[index + 1])}")
    for place in range(count):
        length = <int64_t> key_offsets[place + 1] - key_offsets[place]
        if not slice_is_utf8(cursor_take(&cursor, length), length):
            raise CorruptFrame(f"bad frame: key of firing {place} is not UTF-8")
    return 0


cdef int _refuse_cell(str name, object column, int64_t place) except -1:
    """Raise CorruptFrame for the cell at `place`, if there is one."""
    if place >= 0:
        raise CorruptFrame(f"bad frame: {name} {column[place]} of firing {place} is below 1")
    return 0


def decode(const uint8_t[::1] data not None):
    """Read a frame; return the values of `mainspring.frame.Frame`, in order.

    `mainspring.frame.decode` has the contract.
    """
    cdef Cursor cursor
    cdef uint8_t nothing = 0
    if data.shape[0] > FRAME_BYTES_MAX:
        raise CorruptFrame(f"bad frame: {data.shape[0]} bytes are more than {FRAME_BYTES_MAX}")
    cursor = cursor_over(&data[0] if data.shape[0] else &nothing, data.shape[0])
    field_count = _read_field_count(&cursor)
    if field_count == 0:
        raise CorruptFrame(f"bad frame: 0 fields where {FIELD_COUNT} are due")
    version = _read_int(&cursor, "version", -ID_MAX - 1, 2 * ID_MAX + 1)
    if version != VERSION:
        raise CorruptFrame(
            f"bad frame: version {version} where {VERSION} is due",
            hint="Bring schedulers and workers to releases that speak the same version.",
        )
    if field_count != FIELD_COUNT:
        raise CorruptFrame(f"bad frame: {field_count} fields where {FIELD_COUNT} are due")
    header = (
        _read_int(&cursor, "leader", 1, ID_MAX),
        _read_int(&cursor, "frame_no", 1, ID_MAX),
        _read_int(&cursor, "shard", 0, SHARD_MAX),
        _read_int(&cursor, "term", 1, ID_MAX),
        _read_text(&cursor, "queue"),
        _read_text(&cursor, "task"),
    )
    count = _read_int(&cursor, "n", 1, FIRINGS_MAX)
    columns = (
        _read_i64(&cursor, "firing_id", count),
        _read_i64(&cursor, "job_id", count),
        _read_i64(&cursor, "fence", count),
        _read_i64(&cursor, "scheduled_us", count),
        _read_i64(&cursor, "due_us", count),
        _read_i64(&cursor, "previous_us", count),
        _read_i64(&cursor, "next_us", count),
        _read_words(&cursor, "rev", count, np.int32),
        _read_words(&cursor, "attempt", count, np.int32),
        _read_words(&cursor, "timeout_s", count, np.int32),
        _read_flags(&cursor, count),
        _read_words(&cursor, "key_offsets", count + 1, np.uint32),
        _read_blob(&cursor, "keys"),
        _read_words(&cursor, "payload_offsets", count + 1, np.uint32),
        _read_blob(&cursor, "payloads"),
    )
    if cursor_left(&cursor):
        raise CorruptFrame(f"bad frame: {cursor_left(&cursor)} bytes after it")
    _check_columns(columns, count)
    return header + columns
