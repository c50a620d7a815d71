"""The compiled frame codec and its pure twin write the same bytes and refuse the same ones."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import _frame, _frame_pure, frame
from mainspring.errors import CorruptFrame
from model.frame_samples import arguments

FIELDS = [field.name for field in dataclasses.fields(frame.Frame)]
FIRST_COLUMN = 8
Fields = list[Any]


def outcome(decode: Callable[[bytes], Any], data: bytes) -> list[Any] | CorruptFrame:
    """Return what a decoder gave as plain values with dtypes, or its refusal."""
    try:
        values = decode(data)
    except CorruptFrame as error:
        return error
    plain: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray):
            flags = value.flags
            assert flags.owndata
            assert flags.aligned
            assert flags.c_contiguous
            assert not flags.writeable
            plain.append((value.dtype.str, value.tolist()))
        else:
            plain.append((type(value), value))
    return plain


def both(data: bytes) -> list[Any] | CorruptFrame:
    """Return the outcome on which the twins agree; messages too, if the bytes are msgpack."""
    compiled, pure = outcome(_frame.decode, data), outcome(_frame_pure.decode, data)
    if not isinstance(compiled, CorruptFrame):
        assert pure == compiled
        return compiled
    assert isinstance(pure, CorruptFrame)
    try:
        msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return compiled
    assert (pure.message, pure.hint) == (compiled.message, compiled.hint)
    return compiled


def fields_of(count: int = 2) -> Fields:
    """Return the fields of a good frame, to be broken and packed."""
    return [
        frame.VERSION,
        9,
        1,
        0,
        3,
        "default",
        "send-report",
        count,
        *(struct.pack(f"<{count}q", *range(1, count + 1)) for _ in range(7)),
        *(struct.pack(f"<{count}i", *range(1, count + 1)) for _ in range(3)),
        bytes([5] * count),
        struct.pack(f"<{count + 1}I", *([0] * count), 1),
        b"k",
        struct.pack(f"<{count + 1}I", *range(count + 1)),
        b"1" * count,
    ]


def packed(fields: Fields) -> bytes:
    return msgspec.msgpack.encode(fields)


def place_of(name: str) -> int:
    """Return where a field stands on the wire; the frame has version and n besides."""
    names = ["version", *FIELDS[:6], "n", *FIELDS[6:]]
    return names.index(name)


@given(arguments(), st.data())
def test_twins_agree_on_truncated_frames_and_refuse_them(
    args: dict[str, Any], data: st.DataObject
) -> None:
    whole = frame.encode(**args)

    assert isinstance(both(whole[: data.draw(st.integers(0, len(whole) - 1))]), CorruptFrame)


@given(arguments(), st.data())
def test_twins_agree_on_flipped_bits(args: dict[str, Any], data: st.DataObject) -> None:
    mutant = bytearray(frame.encode(**args))
    for bit in data.draw(st.lists(st.integers(0, len(mutant) * 8 - 1), min_size=1, max_size=3)):
        mutant[bit // 8] ^= 1 << bit % 8

    both(bytes(mutant))


@given(
    arguments(),
    st.data(),
    st.sampled_from([b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff", b"\xff", b"\0", b"\xc6\xff\xff"]),
)
def test_twins_agree_where_bytes_are_replaced(
    args: dict[str, Any], data: st.DataObject, noise: bytes
) -> None:
    whole = frame.encode(**args)
    at = data.draw(st.integers(0, len(whole) - 1))

    both(whole[:at] + noise + whole[at + len(noise) :])


@given(st.integers(0, 22), st.data())
def test_twins_agree_where_a_field_is_replaced(place: int, data: st.DataObject) -> None:
    fields = fields_of()
    values = st.one_of(
        st.none(),
        st.booleans(),
        st.floats(),
        st.integers(-(2**63), 2**64 - 1),
        st.sampled_from([0, 1, 2, 3, -1, 4096, 4097, 32_767, 32_768, 2**63 - 1, 2**63]),
        st.binary(max_size=20),
        st.text("a€", max_size=260),
        st.lists(st.integers(0, 1), max_size=2),
    )
    fields[place] = data.draw(values)

    both(packed(fields))


@given(st.binary(max_size=60))
def test_twins_agree_on_any_bytes(noise: bytes) -> None:
    both(noise)


def test_every_truncation_is_refused_by_both() -> None:
    whole = packed(fields_of())
    assert isinstance(both(whole), list)
    for length in range(len(whole)):
        assert isinstance(both(whole[:length]), CorruptFrame)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("version", 1, "version 1 where 2 is due"),
        ("version", "1", "version is not an integer"),
        ("leader", 0, "leader 0 is outside 1 to 9223372036854775807"),
        ("leader", 2**63, "leader 9223372036854775808 is outside"),
        ("leader", True, "leader is not an integer"),
        ("leader", 9.0, "leader is not an integer"),
        ("frame_no", 0, "frame_no 0 is outside"),
        ("frame_no", -(2**40), "frame_no -1099511627776 is outside"),
        ("shard", -1, "shard -1 is outside 0 to 32767"),
        ("shard", -100, "shard -100 is outside 0 to 32767"),
        ("shard", -30_000, "shard -30000 is outside 0 to 32767"),
        ("shard", -(2**31), "shard -2147483648 is outside 0 to 32767"),
        ("shard", 32_768, "shard 32768 is outside 0 to 32767"),
        ("term", 0, "term 0 is outside"),
        ("queue", b"default", "queue is not text"),
        ("queue", "", "queue has 0 bytes where 1 to 255 are due"),
        ("task", "t" * 256, "task has 256 bytes where 1 to 255 are due"),
        ("n", 0, "n 0 is outside 1 to 4096"),
        ("n", 4_097, "n 4097 is outside 1 to 4096"),
        ("firing_id", struct.pack("<2q", 1, 0), "firing_id 0 of firing 1 is below 1"),
        ("firing_id", "12345678" * 2, "firing_id is not binary"),
        ("job_id", struct.pack("<2q", -5, 1), "job_id -5 of firing 0 is below 1"),
        ("fence", struct.pack("<2q", 1, 0), "fence 0 of firing 1 is below 1"),
        ("scheduled_us", bytes(15), "scheduled_us has 15 bytes where 16 are due"),
        ("due_us", bytes(24), "due_us has 24 bytes where 16 are due"),
        ("next_us", b"", "next_us has 0 bytes where 16 are due"),
        ("rev", bytes(16), "rev has 16 bytes where 8 are due"),
        ("attempt", struct.pack("<2i", 1, 0), "attempt 0 of firing 1 is below 1"),
        ("timeout_s", struct.pack("<2i", -1, 1), "timeout_s -1 of firing 0 is below 1"),
        ("flags", b"\x07\x08", "flags 8 of firing 1 are unknown"),
        ("flags", b"\x07", "flags has 1 bytes where 2 are due"),
        ("key_offsets", struct.pack("<3I", 0, 2, 1), "key_offsets do not rise from 0 to 1"),
        ("key_offsets", struct.pack("<3I", 1, 1, 1), "key_offsets do not rise from 0 to 1"),
        ("key_offsets", struct.pack("<3I", 0, 0, 2), "key_offsets do not rise from 0 to 1"),
        ("keys", b"", "key_offsets do not rise from 0 to 0"),
        ("keys", b"\xff", "key of firing 1 is not UTF-8"),
        ("payload_offsets", struct.pack("<2I", 0, 2), "payload_offsets has 8 bytes where 12"),
        ("payload_offsets", struct.pack("<3I", 0, 2**32 - 1, 2), "payload_offsets do not rise"),
        ("payloads", b"111", "payload_offsets do not rise from 0 to 3"),
        ("payloads", None, "payloads is not binary"),
    ],
)
def test_a_refusal_names_the_field_and_its_value(name: str, value: Any, fault: str) -> None:
    fields = fields_of()
    fields[place_of(name)] = value

    refusal = both(packed(fields))

    assert isinstance(refusal, CorruptFrame)
    assert fault in refusal.message


def test_a_key_may_not_be_cut_inside_a_character() -> None:
    fields = fields_of()
    fields[place_of("keys")] = "é".encode()
    fields[place_of("key_offsets")] = struct.pack("<3I", 0, 1, 2)

    refusal = both(packed(fields))

    assert isinstance(refusal, CorruptFrame)
    assert refusal.message == "bad frame: key of firing 0 is not UTF-8"


def test_another_version_is_named_whatever_follows_it() -> None:
    refusal = both(packed([3, {"quite": "another"}, None]))

    assert isinstance(refusal, CorruptFrame)
    assert refusal.message == "bad frame: version 3 where 2 is due"
    assert refusal.hint is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x90",
        b"\xc1",
        b"\x80",
        b"\xdd\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff\x01",
        b"\x91" * 200_000,
        packed(fields_of()) + b"\0",
        packed(fields_of()[:-1]),
        packed([*fields_of(), 0]),
        packed(fields_of()).replace(b"default", b"\xffefault"),
        bytes(16 * 1024 * 1024 + 1),
    ],
    ids=range(12),
)
def test_what_is_no_frame_is_refused_by_both(data: bytes) -> None:
    assert isinstance(both(data), CorruptFrame)


def wide(value: Any) -> bytes:
    """Write a value in the widest form msgpack has for it."""
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value)) + value.encode()
    return b"\xc6" + struct.pack(">I", len(value)) + value


@pytest.mark.parametrize(("lead", "form"), [(0xCC, ">B"), (0xCD, ">H"), (0xCE, ">I"), (0xCF, ">Q")])
def test_every_width_of_every_type_is_read(lead: int, form: str) -> None:
    fields = fields_of()
    narrow = both(packed(fields))
    signed = bytes([lead + 4]) + struct.pack(form.lower(), 9)
    for leader in (bytes([lead]) + struct.pack(form, 9), signed):
        body = b"".join(map(wide, fields))
        body = body.replace(wide(9), leader, 1)
        for head in (b"\xdc\x00\x17", b"\xdd\x00\x00\x00\x17"):
            assert narrow == both(head + body)
    queue = fields[5].encode()
    for text in (b"\xa7" + queue, b"\xd9\x07" + queue, b"\xda\x00\x07" + queue):
        assert narrow == both(b"\xdc\x00\x17" + b"".join(map(wide, fields[:5])) + text
                              + b"".join(map(wide, fields[6:])))  # fmt: skip
    last = fields[-1]
    for binary in (b"\xc4\x02" + last, b"\xc5\x00\x02" + last):
        assert narrow == both(b"\xdc\x00\x17" + b"".join(map(wide, fields[:-1])) + binary)


def test_a_frame_is_read_from_a_memoryview_and_outlives_its_buffer() -> None:
    buffer = bytearray(packed(fields_of()))
    decoded = frame.decode(memoryview(buffer))
    buffer[:] = bytes(len(buffer))

    assert decoded.firing_id.tolist() == [1, 2]
    assert decoded.payload(1) == b"1"
    assert (decoded.key(0), decoded.key(1)) == ("", "k")
    assert (decoded.trigger(0), decoded.catch_up(0)) == (1, True)
