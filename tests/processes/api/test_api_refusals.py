"""Bad input ends as a problem that names the field, never as a 5xx, and stores nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from processes.api.stage import EXAMPLE, JOBS, JSON, ApiProcess, count_stored

pytestmark = pytest.mark.slow

GOOD = b'{"name": "x", "schedule": "0 9 * * 1"}'


def with_fields(**changes: object) -> bytes:
    return json.dumps({"name": "x", "schedule": "0 9 * * 1"} | changes).encode()


def with_payload(text: bytes) -> bytes:
    return GOOD[:-1] + b', "payload": ' + text + b"}"


REFUSED = {
    "unknown field": (with_fields(tenant_id=1), 422, "/tenant_id"),
    "field of the server's own": (with_fields(next_run_at="2027-01-01T00:00:00Z"), 422,
                                  "/next_run_at"),
    "lease field": (with_fields(locked_by=1, fence=2), 422, "/locked_by"),
    "wrong type": (with_fields(name=5), 422, "/name"),
    "number as text": (with_fields(max_retries="3"), 422, "/max_retries"),
    "negative number": (with_fields(max_retries=-1), 422, "/max_retries"),
    "float for integer": (with_fields(timeout_seconds=1.5), 422, "/timeout_seconds"),
    "missing name": (b'{"schedule": "0 9 * * 1"}', 422, "/name"),
    "missing schedule": (b'{"name": "x"}', 422, "/schedule"),
    "bad schedule": (with_fields(schedule="0 25 * * *"), 422, "/schedule"),
    "schedule that never fires": (with_fields(schedule="0 0 31 2 *"), 422, "/schedule"),
    "random schedule": (with_fields(schedule="R * * * *"), 422, "/schedule"),
    "long schedule": (with_fields(schedule="1," * 20_000 + "2 * * * *"), 422, "/schedule"),
    "date that does not exist": (with_fields(schedule="2026-02-30T00:00:00Z"), 422, "/schedule"),
    "bad zone": (with_fields(timezone="Mars/Olympus"), 422, "/timezone"),
    "zone of the host": (with_fields(timezone="localtime"), 422, "/timezone"),
    "zone that is a path": (with_fields(timezone="../../etc/passwd"), 422, "/timezone"),
    "bad template": (with_fields(idempotency_key_template="{{k.__class__}}"), 422,
                     "/idempotency_key_template"),
    "bad policy": (with_fields(missed_window="MAYBE"), 422, "/missed_window"),
    "past one-off under SKIP": (with_fields(schedule="2020-01-01T00:00:00Z", missed_window="SKIP"),
                                422, "/schedule"),
    "no missed occurrences": (with_fields(max_missed=0), 422, "/max_missed"),
    "bad gap": (with_fields(dst_gap="first"), 422, "/dst_gap"),
    "bad overlap": (with_fields(dst_overlap="skip"), 422, "/dst_overlap"),
    "bad backoff": (with_fields(retry_backoff="random"), 422, "/retry_backoff"),
    "NUL in payload": (with_fields(payload={"note": "a\x00b"}), 422, "/payload/note"),
    "NUL in payload key": (with_fields(payload={"a\x00b": 1}), 422, "/payload"),
    "NUL in name": (with_fields(name="a\x00b"), 422, "/name"),
    "raw NUL": (b'{"name": "a\x00b", "schedule": "0 9 * * 1"}', 400, ""),
    "lone surrogate escaped": (with_fields(payload=["\ud800"]), 422, "/payload/0"),
    "lone surrogate in name": (with_fields(name="\udc00"), 422, "/name"),
    "lone surrogate raw": (with_payload(b'"\xed\xa0\x80"'), 400, ""),
    "NaN": (with_payload(b'{"n": NaN}'), 422, "/payload/n"),
    "Infinity": (with_payload(b"[1, Infinity]"), 422, "/payload/1"),
    "number out of range": (with_payload(b"1e999"), 422, "/payload"),
    "integer beyond 64 bits": (with_payload(b"[18446744073709551616]"), 422, "/payload/0"),
    "duplicate key": (b'{"name": "x", "name": "y", "schedule": "0 9 * * 1"}', 422, "/name"),
    "duplicate key in payload": (with_payload(b'{"a": {"b": 1, "b": 2}}'), 422, "/payload/a/b"),
    "empty name": (with_fields(name=""), 422, "/name"),
    "blank name": (with_fields(name="   "), 422, "/name"),
    "name of 100,000 characters": (with_fields(name="n" * 100_000), 422, "/name"),
    "control character in name": (with_fields(name="a\nb"), 422, "/name"),
    "large payload": (with_fields(payload="p" * 65_535), 422, "/payload"),
    "empty body": (b"", 400, ""),
    "no JSON": (b"name=x", 400, ""),
    "cut JSON": (GOOD[:-5], 400, ""),
    "two values": (GOOD + GOOD, 400, ""),
    "array": (b"[" + GOOD + b"]", 422, ""),
    "null": (b"null", 422, ""),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, 400, ""),
    "UTF-16": (GOOD.decode().encode("utf-16"), 400, ""),
    "latin-1": ('{"name": "é", "schedule": "0 9 * * 1"}'.encode("latin-1"), 400, ""),
    "33 levels": (with_payload(b"[" * 32 + b"]" * 32), 400, ""),
    "60,000 levels": (with_payload(b"[" * 60_000 + b"]" * 60_000), 400, ""),
    "130,000 opening brackets": (b"[" * 130_000, 400, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_by_name_and_stores_nothing(
    api: ApiProcess, api_dsn: str, case: str
) -> None:
    body, status, pointer = REFUSED[case]
    before = count_stored(api_dsn)
    answer = api.call("POST", JOBS, body)
    assert (status, pointer) == (answer.status, answer.pointer)
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "pointer", "hint"} == answer.value.keys()
    assert answer.value["status"] == status
    assert "location" not in answer.headers
    assert before == count_stored(api_dsn)
    assert api.call("GET", "/livez").status == 200


def test_the_neighbour_of_what_is_refused_is_taken(api: ApiProcess, api_dsn: str) -> None:
    before = count_stored(api_dsn)
    for body in (
        GOOD,
        with_payload(b"[" * 31 + b"]" * 31),
        with_fields(payload="p" * 65_534),
        with_fields(name="n" * 200),
        b"\n " + GOOD + b"\r\n",
    ):
        assert api.call("POST", JOBS, body).status == 201
    assert count_stored(api_dsn) == before + 10


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_another_content_type_is_415(
    api: ApiProcess, api_dsn: str, headers: dict[str, str]
) -> None:
    before = count_stored(api_dsn)
    answer = api.call("POST", JOBS, GOOD, headers)
    assert (415, before) == (answer.status, count_stored(api_dsn))
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("content_type", ["application/json;charset=UTF-8", "Application/JSON"])
def test_the_content_type_is_read_as_http_defines_it(api: ApiProcess, content_type: str) -> None:
    assert api.call("POST", JOBS, GOOD, {"Content-Type": content_type}).status == 201


def chunks_of(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


@pytest.mark.parametrize("length_bytes", [131_073, 10_000_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_is_413_announced_or_chunked(
    api: ApiProcess, api_dsn: str, length_bytes: int, is_chunked: bool
) -> None:
    before = count_stored(api_dsn)
    body = GOOD + b" " * (length_bytes - len(GOOD))
    answer = api.call("POST", JOBS, chunks_of(body) if is_chunked else body)
    assert (413, before) == (answer.status, count_stored(api_dsn))
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_of_exactly_the_limit_is_taken(api: ApiProcess, is_chunked: bool) -> None:
    body = GOOD + b" " * (131_072 - len(GOOD))
    assert api.call("POST", JOBS, chunks_of(body) if is_chunked else body).status == 201


def test_a_length_over_the_limit_is_refused_before_leave_to_send(api: ApiProcess) -> None:
    head = f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    received = api.talk(head.encode() + b"Content-Length: 9999999\r\nExpect: 100-continue\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length : 5\r\n",
        b"X: a\x00b\r\n",
    ],
)
def test_ambiguous_framing_is_refused_and_the_connection_closed(
    api: ApiProcess, api_dsn: str, lines: bytes
) -> None:
    before = count_stored(api_dsn)
    head = f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    smuggled = f"DELETE {JOBS}/j_1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    received = api.talk(head + lines + b"\r\n0\r\n\r\n" + smuggled)
    assert received.count(b"HTTP/1.1 ") == 1
    assert received.startswith(b"HTTP/1.1 400 ")
    assert before == count_stored(api_dsn)


def test_no_answer_shows_a_trace_sql_or_another_origin(api: ApiProcess) -> None:
    for body, _, _ in REFUSED.values():
        with api.connect() as connection:
            connection.request("POST", JOBS, body, {**JSON, "Origin": "https://evil.example"})
            response = connection.getresponse()
            text = response.read().decode()
        for word in ("Traceback", "psycopg", "INSERT", "SELECT", ".py"):
            assert word not in text
        names = {name.lower() for name, _ in response.getheaders()}
        assert not {name for name in names if name.startswith("access-control") or name == "server"}


def test_the_example_of_the_documentation_is_taken(api: ApiProcess) -> None:
    assert api.call("POST", JOBS, json.dumps(EXAMPLE).encode()).status == 201
