"""Strict JSON: what is refused, where it is said to be, and that nothing else ever escapes."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import InvalidInput, MalformedBody
from mainspring.instants import parse_instant
from mainspring.model import NewJob
from mainspring.payload import POINTER_LENGTH_MAX, check_json, compact
from mainspring.registration import FIELDS, read_job

NOW_US = parse_instant("2026-06-03T12:00:00Z")
CPU_S_MAX = 0.5  # twenty times what it costs; a quadratic cost would be many seconds
BODY_BYTES = 131_072
PAYLOAD_IN = b'{"name":"x","schedule":"* * * * *","payload":['


def refused(text: bytes, depth_max: int = 32) -> InvalidInput:
    with pytest.raises(InvalidInput) as raised:
        check_json(text, depth_max=depth_max)
    assert raised.value.hint
    return raised.value


@pytest.mark.parametrize(
    "text",
    [
        b"", b" \n ", b"\xef\xbb\xbf{}", b"\xff", b'"\xed\xa0\x80"', b'"\xc0\x80"', b"nul", b"{",
        b"[1,]", b'{"a":1,}', b"{a:1}", b"'a'", b"01", b"1.", b".5", b"+1", b"0x1", b'"\n"',
        b'"\x00"', b'"\\x"', b'"\\u12"', b"[1] x", b"[1][2]", b"// c\n1", b"\x00", b"]", b'"',
        b'"\\', "\N{NO-BREAK SPACE}1".encode(), b"\xff\xfe1\x00",
    ],
)  # fmt: skip
def test_what_is_no_json_is_malformed(text: bytes) -> None:
    assert isinstance(refused(text), MalformedBody)


@pytest.mark.parametrize(
    ("text", "pointer", "reason"),
    [
        (rb'{"note":"a\u0000b"}', "/note", "string contains NUL"),
        (rb'["x","\u0000"]', "/1", "string contains NUL"),
        (rb'{"a":{"b\u0000":1}}', "/a", r"key 'b\x00' contains NUL"),
        (rb'{"a":["\ud800"]}', "/a/0", "string contains the lone surrogate U+D800"),
        (rb'"\udc00\ud800"', "", "string contains the lone surrogate U+DC00"),
        (rb'{"\udfff":1}', "", r"key '\udfff' contains the lone surrogate U+DFFF"),
        (b'{"a":[NaN]}', "/a/0", "NaN is not a JSON number"),
        (b'{"a":-Infinity}', "/a", "-Infinity is not a JSON number"),
        (b"[1e999]", "/0", "number is out of range"),
        (b"[-1e999]", "/0", "number is out of range"),
        (b"[0,18446744073709551616]", "/1", "integer does not fit 64 bits"),
        (b"[-9223372036854775809]", "/0", "integer does not fit 64 bits"),
        (b"[" + b"9" * 5000 + b"]", "/0", "integer does not fit 64 bits"),
        (b'{"a":1,"b":2,"a":1}', "/a", "key 'a' stands twice in one object"),
        (rb'{"x":[{"a":1,"\u0061":2}]}', "/x/0/a", "key 'a' stands twice in one object"),
        (b'{"a/b~c":[1e999]}', "/a~1b~0c/0", "number is out of range"),
    ],
)
def test_json_with_more_than_one_meaning_is_refused_where_it_stands(
    text: bytes, pointer: str, reason: str
) -> None:
    error = refused(text)
    assert (pointer, reason, False) == (
        error.pointer,
        error.message,
        isinstance(error, MalformedBody),
    )


@pytest.mark.parametrize(
    "text",
    [
        rb'"\\u0000"', rb'"\ud83d\ude80"', '"🚀"'.encode(), b"18446744073709551615",
        b"-9223372036854775808", b"1e308", b"-0", b"1E-999", b'{"":{"":1}}', b" [ ] ",
        b'{"a":{"a":1},"b":{"a":1}}', b'"[[[[[[[["', rb'"\"[[[[\\"', b"0." + b"1" * 5000,
    ],
)  # fmt: skip
def test_json_that_has_one_meaning_is_taken(text: bytes) -> None:
    check_json(text, depth_max=2)


def test_depth_counts_brackets_outside_strings_only() -> None:
    check_json(rb'{"[[\"[[":["]]","[["]}', depth_max=2)
    assert "nested 3 deep" in refused(b'{"a":[[]]}', depth_max=2).message
    assert "nested 3 deep" in refused(b"[],[[],[[]]]", depth_max=2).message


def test_a_pointer_that_would_be_too_long_names_an_enclosing_value() -> None:
    text = b'{"a":{"' + b"k" * 300 + b'":[NaN]}}'
    assert refused(text).pointer == "/a"
    deep = b'{"' + b"k" * 50 + b'":'
    error = refused(deep * 30 + b"NaN" + b"}" * 30)
    assert len(error.pointer) <= POINTER_LENGTH_MAX
    assert error.pointer == ("/" + "k" * 50) * 3


def cpu_s_of(text: bytes) -> float:
    begun_s = time.process_time()
    with contextlib.suppress(InvalidInput):
        read_job(text, now_us=NOW_US)
    return time.process_time() - begun_s


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [b"[],", b"1,", b"{},", b'"",', b"1.5,", b"1e5,", b'"a":1,', b'"\\u0041",', b"NaN,", b'\\"',
     b'"', b"\\", b"[", b"{", b'{"a":', b"[[],", b'["\\ud83d\\ude80"],', b"[1],", b",", b"-"],
)  # fmt: skip
def test_no_repetition_of_anything_costs_more_than_a_moment(piece: bytes) -> None:
    repeated = piece * (BODY_BYTES // len(piece))
    for opening, closing in ((b"", b""), (b"[", b"0]"), (PAYLOAD_IN, b"0]}"), (b'"', b'"')):
        text = (opening + repeated)[: BODY_BYTES - len(closing)] + closing
        assert min(cpu_s_of(text) for _ in range(3)) < CPU_S_MAX


def test_a_hundred_thousand_levels_are_malformed_not_a_recursion_error() -> None:
    for opening in (b"[", b'{"a":', b'[{"a":'):
        assert isinstance(refused(opening * 200_000), MalformedBody)


def job_or_refusal(text: bytes) -> NewJob | InvalidInput:
    """Read a registration; anything but a job or an InvalidInput escapes and fails the test."""
    assert min(cpu_s_of(text), cpu_s_of(text)) < CPU_S_MAX
    try:
        return read_job(text, now_us=NOW_US)
    except InvalidInput as error:
        return error


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_end_as_a_job_or_as_invalid_input(text: bytes) -> None:
    job_or_refusal(text)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=30),  # surrogates and NUL included
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELD_NAMES = st.sampled_from(FIELDS) | st.text(max_size=12)
PLAUSIBLE = st.sampled_from(
    ["* * * * *", "@every 10s", "2026-06-08T09:00", "UTC", "Europe/Berlin", "{{week}}", "fixed",
     "RUN_ONCE", "default", 0, 1, 5, 60]
)  # fmt: skip


@settings(deadline=None)
@given(
    st.dictionaries(FIELD_NAMES, VALUES | PLAUSIBLE, max_size=8),
    st.booleans(),
)
def test_arbitrary_json_ends_as_a_job_or_as_invalid_input(
    fields: dict[str, object], is_complete: bool
) -> None:
    if is_complete:
        fields = {"name": "x", "schedule": "* * * * *"} | fields
    text = json.dumps(fields).encode()
    job = job_or_refusal(text)
    if isinstance(job, InvalidInput):
        assert job.hint
        return
    assert json.loads(job.definition.payload) == fields.get("payload")
    assert "\x00" not in job.definition.name + job.definition.payload


@settings(deadline=None)
@given(VALUES.map(lambda value: json.dumps(value, indent=1)).map(str.encode))
def test_compacting_what_was_checked_changes_no_value(text: bytes) -> None:
    try:
        check_json(text, depth_max=32)
    except InvalidInput:
        return
    compacted = compact(text)
    assert json.loads(text) == json.loads(compacted)
    assert len(compacted.encode()) <= len(text)
