"""The compiled decoder of a binary COPY and its pure twin give equal answers and equal refusals."""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import _claim, _claim_pure
from mainspring.claim import KINDS, ClaimBatch
from mainspring.errors import CorruptCopy
from mainspring.instants import INFINITY_US

SIGNATURE = b"PGCOPY\n\xff\r\n\x00"
HEADER = SIGNATURE + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x00"
TRAILER = b"\xff\xff"
MINUS_INFINITY_US = -(2**63)
EPOCH_SHIFT_US = 946_684_800_000_000
SCALARS = {"2": ">h", "4": ">i", "8": ">q", "t": ">q", "b": ">B"}
Decoder = Callable[[bytes, str], list[Any]]
TWINS: list[Any] = [
    pytest.param(_claim.decode_copy, id="compiled"),
    pytest.param(_claim_pure.decode_copy, id="pure"),
]


def field(kind: str, cell: Any) -> bytes:
    """Write one field as the server does; a `t` cell is in microseconds since 2000."""
    if cell is None:
        return struct.pack(">i", -1)
    if kind in "cp":
        body = cell.encode() if isinstance(cell, str) else cell
    else:
        body = struct.pack(SCALARS[kind], cell)
    return struct.pack(">i", len(body)) + body


def copy_bytes(kinds: str, rows: Iterable[Sequence[Any]]) -> bytes:
    """Write a whole COPY."""
    count = struct.pack(">h", len(kinds))
    tuples = [
        count + b"".join(field(kind, cell) for kind, cell in zip(kinds, row, strict=True))
        for row in rows
    ]
    return HEADER + b"".join(tuples) + TRAILER


def outcome(decode: Decoder, data: bytes, kinds: str) -> list[Any] | tuple[str, str | None]:
    """Return what a decoder gave as plain values with dtypes, or the message of its refusal."""
    try:
        columns = decode(data, kinds)
    except CorruptCopy as error:
        return error.message, error.hint
    plain: list[Any] = []
    for column in columns:
        array, rest = column if isinstance(column, tuple) else (column, None)
        assert array.flags.c_contiguous
        assert array.flags.aligned
        plain.append((array.dtype.str, array.tolist(), rest))
    return plain


def both(data: bytes, kinds: str) -> list[Any] | tuple[str, str | None]:
    """Return the outcome on which the twins agree."""
    compiled = outcome(_claim.decode_copy, data, kinds)
    assert outcome(_claim_pure.decode_copy, data, kinds) == compiled
    return compiled


def cells(kind: str) -> st.SearchStrategy[Any]:
    limits = {"2": 15, "4": 31, "8": 63}
    if kind in limits:
        bits = limits[kind]
        return st.integers(-(2**bits), 2**bits - 1)
    if kind == "t":
        return st.one_of(
            st.integers(MINUS_INFINITY_US, INFINITY_US - EPOCH_SHIFT_US - 1),
            st.just(INFINITY_US),
        )
    if kind == "b":
        return st.integers(0, 1)
    if kind == "c":
        return st.one_of(st.none(), st.text("aé€\U0001f570", max_size=5))
    return st.binary(max_size=40)


@st.composite
def copies(draw: st.DrawFn) -> tuple[str, list[list[Any]]]:
    kinds = draw(st.text("248tbcp", min_size=1, max_size=8))
    row = st.tuples(*(cells(kind) for kind in kinds)).map(list)
    return kinds, draw(st.lists(row, max_size=6))


@given(copies())
def test_decoding_gives_back_what_was_written(copy: tuple[str, list[list[Any]]]) -> None:
    kinds, rows = copy
    decoded = both(copy_bytes(kinds, rows), kinds)

    for place, kind in enumerate(kinds):
        written = [row[place] for row in rows]
        _dtype, array, rest = decoded[place]
        if kind == "c":
            assert rest == list(dict.fromkeys(text for text in written if text is not None))
            assert written == [None if code < 0 else rest[code] for code in array]
        elif kind == "p":
            assert written == [rest[a:b] for a, b in itertools.pairwise(array)]
        elif kind == "t":
            infinities = {INFINITY_US, MINUS_INFINITY_US}
            assert array == [t if t in infinities else t + EPOCH_SHIFT_US for t in written]
        else:
            assert written == array


@given(copies(), st.data())
def test_twins_agree_on_truncated_bytes_and_refuse_them(
    copy: tuple[str, list[list[Any]]], data: st.DataObject
) -> None:
    kinds, rows = copy
    whole = copy_bytes(kinds, rows)
    length = data.draw(st.integers(0, len(whole) - 1))

    message, _hint = both(whole[:length], kinds)

    assert message.startswith("bad COPY data at byte")


@given(copies(), st.data())
def test_twins_agree_on_flipped_bits(
    copy: tuple[str, list[list[Any]]], data: st.DataObject
) -> None:
    kinds, rows = copy
    mutant = bytearray(copy_bytes(kinds, rows))
    for bit in data.draw(st.lists(st.integers(0, len(mutant) * 8 - 1), min_size=1, max_size=4)):
        mutant[bit // 8] ^= 1 << bit % 8

    both(bytes(mutant), kinds)


@given(
    copies(),
    st.sampled_from([-(2**31), -2, -1, 0, 1, 7, 9, 2**15, 2**31 - 1]),
    st.data(),
)
def test_twins_agree_where_a_word_is_replaced(
    copy: tuple[str, list[list[Any]]], word: int, data: st.DataObject
) -> None:
    kinds, rows = copy
    mutant = bytearray(copy_bytes(kinds, rows))
    at = data.draw(st.integers(11, max(11, len(mutant) - 4)))
    mutant[at : at + 4] = struct.pack(">i", word)

    both(bytes(mutant), kinds)


@given(copies(), copies())
def test_twins_agree_when_the_kinds_are_those_of_another_copy(
    copy: tuple[str, list[list[Any]]], other: tuple[str, list[list[Any]]]
) -> None:
    kinds, rows = copy
    both(copy_bytes(kinds, rows), other[0])


@given(st.binary(max_size=200), st.text("248tbcp", min_size=1, max_size=4))
def test_twins_agree_on_any_bytes_after_a_header(noise: bytes, kinds: str) -> None:
    both(HEADER + noise, kinds)


def encoded(points: list[int]) -> bytes:
    """Write code points as UTF-8 would, surrogates too."""
    return "".join(map(chr, points)).encode("utf-8", "surrogatepass")


@given(
    st.one_of(st.binary(max_size=24), st.lists(st.integers(0, 0x10FFFF), max_size=12).map(encoded))
)
def test_text_is_accepted_exactly_when_python_reads_it_as_utf8(body: bytes) -> None:
    try:
        expected: Any = [("<i4", [0], [body.decode()])]
    except UnicodeDecodeError:
        expected = ("bad COPY data at byte 25, row 0, column 0: text is not UTF-8",)

    actual = both(copy_bytes("c", [[body]]), "c")

    assert expected == (actual[:1] if isinstance(actual, tuple) else actual)


def test_every_lead_byte_of_utf8_is_judged_as_python_judges_it() -> None:
    for lead in range(0x80, 0x100):
        for second in (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF):
            for tail in (b"", b"\x80", b"\xbf\x80", b"\x80\xc0"):
                body = b"12345678" + bytes([lead, second]) + tail
                is_utf8 = True
                try:
                    body.decode()
                except UnicodeDecodeError:
                    is_utf8 = False
                outcome_ = outcome(_claim.decode_copy, copy_bytes("c", [[body]]), "c")
                assert is_utf8 == isinstance(outcome_, list), body


ROW = [
    1, 2, 3, 4, 5, 6, 7, 3, 1, 0, 0, 8, 9, 12, 10, 11,
    "t", "q", "* * * * *", "UTC", "skip", "both", None, "n", b"1",
]  # fmt: skip


def test_every_truncation_of_a_claim_is_refused_alike() -> None:
    whole = copy_bytes(KINDS, [ROW, ROW])
    for length in range(len(whole)):
        message, _hint = both(whole[:length], KINDS)
        assert message.startswith("bad COPY data at byte")


@pytest.mark.parametrize("word", [-(2**31), -2, -1, 0, 3, 2**31 - 1])
def test_every_word_of_a_claim_replaced_is_answered_alike(word: int) -> None:
    whole = copy_bytes(KINDS, [ROW, ROW])
    for at in range(len(HEADER) - 8, len(whole) - 3):
        both(whole[:at] + struct.pack(">i", word) + whole[at + 4 :], KINDS)


@pytest.mark.parametrize(
    ("data", "kinds", "fault"),
    [
        (b"", "8", "byte 0: the signature is missing"),
        (b"PGCOPY\n\xff\r\n\x01" + bytes(8) + TRAILER, "8", "byte 0: the signature is missing"),
        (SIGNATURE + bytes(7), "8", "byte 11: ends inside the header"),
        (
            SIGNATURE + b"\x00\x01\x00\x00" + bytes(4) + TRAILER,
            "8",
            "byte 11: critical flags 0x10000 are set",
        ),
        (
            SIGNATURE + bytes(4) + struct.pack(">i", 3) + TRAILER,
            "8",
            "byte 15: header extension of 3 bytes with 2 left",
        ),
        (
            SIGNATURE + bytes(4) + struct.pack(">i", -1) + TRAILER,
            "8",
            "byte 15: header extension of -1 bytes with 2 left",
        ),
        (HEADER, "8", "byte 19, row 0: ends without a trailer"),
        (HEADER + TRAILER + b"!", "8", "byte 21: 1 bytes after the trailer"),
        (copy_bytes("88", [[1, 2]]), "8", "byte 19, row 0: 2 fields where 1 are due"),
        (
            HEADER + b"\x00\x01" + struct.pack(">i", -2) + TRAILER,
            "c",
            "byte 21, row 0, column 0: length -2 with 2 bytes left",
        ),
        (
            HEADER + b"\x00\x01" + struct.pack(">i", 2**31 - 1) + TRAILER,
            "p",
            "byte 21, row 0, column 0: length 2147483647 with 2 bytes left",
        ),
        (copy_bytes("48", [[1, 2]]), "44", "byte 29, row 0, column 1: length 8 where 4 is due"),
        (copy_bytes("8", [[None]]), "8", "byte 21, row 0, column 0: NULL where there may be none"),
        (copy_bytes("p", [[None]]), "p", "byte 21, row 0, column 0: NULL where there may be none"),
        (copy_bytes("b", [[1], [2]]), "b", "byte 32, row 1, column 0: boolean 2"),
        (
            copy_bytes("t", [[INFINITY_US - EPOCH_SHIFT_US]]),
            "t",
            "byte 25, row 0, column 0: instant 9222425352054775807 us after 2000 does not fit",
        ),
        (copy_bytes("c", [["a"], [b"\xff"]]), "c", "row 1, column 0: text is not UTF-8"),
    ],
)
def test_a_refusal_names_the_place_and_the_fault(data: bytes, kinds: str, fault: str) -> None:
    message, hint = both(data, kinds)

    assert fault in message
    assert hint is not None


def test_an_extension_of_the_header_and_harmless_flags_are_stepped_over() -> None:
    data = SIGNATURE + b"\x00\x00\xff\xff" + struct.pack(">i", 5) + b"later" + TRAILER

    assert both(data, "8") == [("<i8", [], None)]


def test_infinity_stays_infinity_and_the_epoch_moves() -> None:
    instants = [0, INFINITY_US, MINUS_INFINITY_US, INFINITY_US - EPOCH_SHIFT_US - 1, -1]

    assert both(copy_bytes("t", [[t] for t in instants]), "t") == [
        (
            "<i8",
            [EPOCH_SHIFT_US, INFINITY_US, MINUS_INFINITY_US, INFINITY_US - 1, EPOCH_SHIFT_US - 1],
            None,
        )
    ]


@pytest.mark.parametrize("decode", TWINS)
@pytest.mark.parametrize("kinds", ["", "x", "8x", "8" * 1601])
def test_unknown_kinds_are_a_mistake_of_the_caller(decode: Decoder, kinds: str) -> None:
    with pytest.raises(ValueError, match="bad kinds"):
        decode(HEADER + TRAILER, kinds)


@pytest.mark.parametrize("decode", TWINS)
def test_only_bytes_are_taken(decode: Any) -> None:
    with pytest.raises(TypeError):
        decode(bytearray(HEADER + TRAILER), "8")


def test_many_distinct_texts_keep_their_order_of_first_appearance() -> None:
    texts = [f"job-{number * 7919 % 5000}" for number in range(12_000)]

    ((_dtype, codes, values),) = both(copy_bytes("c", [[text] for text in texts]), "c")

    assert values == list(dict.fromkeys(texts))
    assert [values[code] for code in codes] == texts


def test_decoding_makes_no_object_per_row() -> None:
    rows = 50_000
    one = copy_bytes(KINDS, [ROW])[len(HEADER) : -len(TRAILER)]
    data = HEADER + one * rows + TRAILER
    _claim.decode_copy(copy_bytes(KINDS, [ROW]), KINDS)

    before = sys.getallocatedblocks()
    batch = _claim.decode_copy(data, KINDS)
    blocks = sys.getallocatedblocks() - before

    assert len(batch[0]) == rows
    assert blocks < 500


def test_a_batch_is_the_decoded_columns_under_their_names() -> None:
    batch = ClaimBatch.decode(copy_bytes(KINDS, [ROW, [*ROW[:22], "report-{{week}}", "m", b""]]))

    first = batch.row(0)
    assert len(batch) == 2
    assert first.firing_id == 1
    assert first.job_id == 2
    assert (first.due_us, first.scheduled_us) == (EPOCH_SHIFT_US + 3, EPOCH_SHIFT_US + 4)
    assert (first.fence, first.rev, first.attempt, first.trigger) == (5, 6, 7, 3)
    assert (first.catch_up, first.lost_count, first.first_claim) == (True, 0, False)
    assert (first.claimed_us, first.anchor_us) == (EPOCH_SHIFT_US + 8, EPOCH_SHIFT_US + 9)
    assert first.previous_us == EPOCH_SHIFT_US + 12
    assert (first.timeout_s, first.grace_s) == (10, 11)
    assert first[16:] == ("t", "q", "* * * * *", "UTC", "skip", "both", None, "n", b"1")
    assert batch.row(1)[19:] == ("UTC", "skip", "both", "report-{{week}}", "m", b"")


@pytest.mark.parametrize("place", [16, 17, 18, 19, 20, 21, 23])
def test_only_the_template_may_be_null(place: int) -> None:
    broken = [*ROW]
    broken[place] = None

    with pytest.raises(CorruptCopy, match=f"row 1, column {place}: .* is NULL"):
        ClaimBatch.decode(copy_bytes(KINDS, [ROW, broken]))


def test_decoded_arrays_are_the_callers_own() -> None:
    data = copy_bytes("8", [[1], [2]])
    (array,) = _claim.decode_copy(data, "8")

    assert array.flags.owndata
    array[0] = 5
    assert data == copy_bytes("8", [[1], [2]])
    assert np.array_equal(_claim.decode_copy(data, "8")[0], [1, 2])
