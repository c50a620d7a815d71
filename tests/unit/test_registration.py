"""Registrations: defaults, rules of each field, and the first occurrence."""

from __future__ import annotations

import json

import pytest

from mainspring.errors import InvalidInput, InvalidSchedule, InvalidTemplate
from mainspring.instants import INSTANT_MAX_US, format_instant, parse_instant
from mainspring.model import Backoff, Definition, DstGap, DstOverlap, MissedWindow
from mainspring.registration import FIELDS, RANGES, JobIn, Limits, job_from, job_in, read_job

NOW_US = parse_instant("2026-06-03T12:00:00Z")

BASE = {"name": "report", "schedule": "0 9 * * 1"}


def body(**changes: object) -> bytes:
    return json.dumps(BASE | changes).encode()


def refused(text: bytes) -> InvalidInput:
    with pytest.raises(InvalidInput) as raised:
        read_job(text, now_us=NOW_US)
    assert raised.value.hint
    return raised.value


def test_a_registration_with_every_field_keeps_every_field() -> None:
    job = read_job(
        b"""{"name": "send-weekly-report", "task": "reports:weekly", "queue": "slow",
        "schedule": "0 9 * * 1", "timezone": "America/New_York",
        "payload": {"report_type": "weekly"}, "idempotency_key_template": "report-{{week}}",
        "max_retries": 7, "retry_backoff": "linear", "retry_base_seconds": 2,
        "retry_cap_seconds": 60, "timeout_seconds": 120, "missed_window": "RUN_ONCE",
        "max_missed": 5, "misfire_grace_seconds": 0}""",
        now_us=NOW_US,
    )
    assert job.definition == Definition(
        name="send-weekly-report",
        task="reports:weekly",
        queue="slow",
        schedule="0 9 * * 1",
        timezone="America/New_York",
        payload='{"report_type":"weekly"}',
        idempotency_key_template="report-{{week}}",
        max_retries=7,
        retry_backoff=Backoff.LINEAR,
        retry_base_seconds=2,
        retry_cap_seconds=60,
        timeout_seconds=120,
        missed_window=MissedWindow.RUN_ONCE,
        max_missed=5,
        misfire_grace_seconds=0,
    )
    assert (format_instant(job.first_us), job.anchor_us, job.is_once) == (
        "2026-06-08T13:00:00Z",
        NOW_US,
        False,
    )


def test_what_is_left_out_has_the_documented_default_and_the_task_is_the_name() -> None:
    expected = Definition(
        name="report",
        task="report",
        queue="default",
        schedule="0 9 * * 1",
        timezone="UTC",
        payload="null",
        idempotency_key_template=None,
        max_retries=3,
        retry_backoff=Backoff.EXPONENTIAL,
        retry_base_seconds=5,
        retry_cap_seconds=3600,
        timeout_seconds=300,
        missed_window=MissedWindow.RUN_ONCE,
        max_missed=100,
        misfire_grace_seconds=60,
    )
    assert expected == read_job(body(), now_us=NOW_US).definition


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        ("* * * * *", "2026-06-03T12:01:00Z"),
        ("@every 90s", "2026-06-03T12:01:30Z"),
        ("@daily", "2026-06-04T00:00:00Z"),
    ],
)
def test_a_repeating_schedule_first_fires_strictly_after_now(schedule: str, first: str) -> None:
    job = read_job(body(schedule=schedule), now_us=NOW_US)
    assert (first, False) == (format_instant(job.first_us), job.is_once)


@pytest.mark.parametrize(
    "instant",
    [
        "2026-06-03T11:59:58Z",
        "2026-06-03T12:00:00Z",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
    ],
)
def test_a_one_off_keeps_its_instant_also_a_past_one(instant: str) -> None:
    job = read_job(body(schedule=instant), now_us=NOW_US)
    assert (instant, True) == (format_instant(job.first_us), job.is_once)


def test_a_one_off_without_an_offset_is_local_time_of_its_zone() -> None:
    job = read_job(body(schedule="2026-06-08T09:00", timezone="Asia/Tokyo"), now_us=NOW_US)
    assert format_instant(job.first_us) == "2026-06-08T00:00:00Z"


def test_every_counts_from_its_own_registration() -> None:
    text = body(schedule="@every 10s")
    firsts = [read_job(text, now_us=NOW_US + shift_us).first_us for shift_us in (0, 1, 7_000_000)]
    assert [NOW_US + 10_000_000 + shift_us for shift_us in (0, 1, 7_000_000)] == firsts


def test_a_schedule_without_an_occurrence_left_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="no occurrence") as raised:
        read_job(body(), now_us=INSTANT_MAX_US)
    assert raised.value.pointer == "/schedule"


@pytest.mark.parametrize(
    "name",
    ["x", "a" * 78, "a" * 200, "🚀" * 200, "Bericht-日本-🚀", "cafe\N{COMBINING ACUTE ACCENT}",
     "  two words ", "\N{LATIN SMALL LETTER E WITH ACUTE}t", "🏳️\N{ZERO WIDTH JOINER}🌈"],
)  # fmt: skip
def test_a_name_is_kept_byte_for_byte(name: str) -> None:
    definition = read_job(body(name=name), now_us=NOW_US).definition
    assert (name, name) == (definition.name, definition.task)


@pytest.mark.parametrize("field", ["name", "task"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        (" \t ", "holds only blanks"),
        ("\N{IDEOGRAPHIC SPACE}", "holds only blanks"),
        ("a" * 201, "has 201 characters"),
        ("a" * 100_000, "has 100000 characters"),
        ("line\nbreak", "control character U+000A at column 5"),
        ("del\x7f", "control character U+007F at column 4"),
        ("c1\x85x", "control character U+0085 at column 3"),
        ("a\N{LINE SEPARATOR}b", "control character U+2028 at column 2"),
    ],
)
def test_a_name_or_task_out_of_bounds_is_refused(field: str, text: str, reason: str) -> None:
    error = refused(body(**{field: text}))
    assert (f"/{field}", True) == (error.pointer, reason in error.message)


@pytest.mark.parametrize("queue", ["", "a b", "a" * 101, "ü", "a/b", "q\n"])
def test_a_queue_of_other_characters_is_refused(queue: str) -> None:
    assert refused(body(queue=queue)).pointer == "/queue"


@pytest.mark.parametrize("field", RANGES)
def test_each_number_is_taken_at_both_ends_of_its_range_and_refused_beyond(field: str) -> None:
    low, high = RANGES[field]
    neighbours = {"retry_base_seconds": {"retry_cap_seconds": 604_800},
                  "retry_cap_seconds": {"retry_base_seconds": 0}}.get(field, {})  # fmt: skip
    for number in (low, high):
        job = read_job(body(**neighbours, **{field: number}), now_us=NOW_US)
        assert number == getattr(job.definition, field)
    for number in (low - 1, high + 1, 2**63 - 1, -(2**63)):
        error = refused(body(**neighbours, **{field: number}))
        assert (f"/{field}", f"{field} is {number}, not in {low}..{high}") == (
            error.pointer,
            error.message,
        )


def test_a_cap_below_the_base_is_refused() -> None:
    assert refused(body(retry_base_seconds=10, retry_cap_seconds=9)).pointer == "/retry_cap_seconds"
    assert refused(body(retry_base_seconds=3601)).pointer == "/retry_cap_seconds"


@pytest.mark.parametrize("policy", MissedWindow)
def test_every_policy_on_missed_windows_is_taken(policy: MissedWindow) -> None:
    job = read_job(body(missed_window=policy), now_us=NOW_US)
    assert job.definition.missed_window is policy


@pytest.mark.parametrize("policy", [MissedWindow.RUN_ONCE, MissedWindow.RUN_ALL])
def test_a_one_off_in_the_past_is_due_at_its_own_instant(policy: MissedWindow) -> None:
    past = format_instant(NOW_US - 2_000_000)
    job = read_job(body(schedule=past, missed_window=policy), now_us=NOW_US)
    assert job.first_us == NOW_US - 2_000_000


def test_a_one_off_in_the_past_that_would_be_skipped_is_refused() -> None:
    error = refused(body(schedule=format_instant(NOW_US - 2_000_000), missed_window="SKIP"))
    assert error.pointer == "/schedule"
    assert "RUN_ONCE" in (error.hint or "")
    now = body(schedule=format_instant(NOW_US), missed_window="SKIP")
    assert read_job(now, now_us=NOW_US).first_us == NOW_US


def test_dst_options_are_enumerations() -> None:
    definition = read_job(body(dst_gap="skip", dst_overlap="both"), now_us=NOW_US).definition
    assert (definition.dst_gap, definition.dst_overlap) == (DstGap.SKIP, DstOverlap.BOTH)
    error = refused(body(dst_gap="later"))
    assert error.pointer == "/dst_gap"
    assert "next_valid, skip" in (error.hint or "")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"tenant_id": 1}, "/tenant_id"),
        ({"next_run_at": "2026-06-08T13:00:00Z"}, "/next_run_at"),
        ({"locked_by": 3}, "/locked_by"),
        ({"a/b~c": 1}, "/a~1b~0c"),
        ({"name": 5}, "/name"),
        ({"name": None}, "/name"),
        ({"schedule": ["0 9 * * 1"]}, "/schedule"),
        ({"timezone": 1}, "/timezone"),
        ({"timezone": "posixrules"}, "/timezone"),
        ({"timezone": "localtime"}, "/timezone"),
        ({"timezone": "../UTC"}, "/timezone"),
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"schedule": "R * * * *"}, "/schedule"),
        ({"schedule": "0 0 30 2 *"}, "/schedule"),
        ({"schedule": "* * * * * *"}, "/schedule"),
        ({"schedule": "1," * 20_000 + "1 * * * *"}, "/schedule"),
        ({"schedule": "2026-02-30T00:00:00Z"}, "/schedule"),
        ({"max_retries": "3"}, "/max_retries"),
        ({"max_retries": 3.0}, "/max_retries"),
        ({"max_retries": True}, "/max_retries"),
        ({"retry_backoff": "quadratic"}, "/retry_backoff"),
        ({"missed_window": "run_once"}, "/missed_window"),
        ({"idempotency_key_template": "{{k.__class__}}"}, "/idempotency_key_template"),
        ({"idempotency_key_template": "x" * 201}, "/idempotency_key_template"),
        ({"idempotency_key_template": ""}, "/idempotency_key_template"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(changes: dict[str, object], pointer: str) -> None:
    assert pointer == refused(body(**changes)).pointer


@pytest.mark.parametrize("missing", ["name", "schedule"])
def test_a_missing_field_is_named(missing: str) -> None:
    fields = {field: value for field, value in BASE.items() if field != missing}
    error = refused(json.dumps(fields).encode())
    assert (f"/{missing}", f"Object missing required field `{missing}`") == (
        error.pointer,
        error.message,
    )


def test_a_misspelt_field_gets_the_nearest_one_as_a_hint() -> None:
    assert refused(body(Schedule="x")).hint == "Did you mean schedule?"


def test_a_long_unknown_field_makes_no_long_problem() -> None:
    error = refused(body(**{"x" * 50_000: 1}))
    assert max(len(error.message), len(error.pointer)) <= 250


def test_a_template_whose_key_could_be_too_long_for_this_name_is_refused() -> None:
    template = "{{name}}{{name}}"
    read_job(body(name="n" * 100, idempotency_key_template=template), now_us=NOW_US)
    with pytest.raises(InvalidTemplate):
        read_job(body(name="n" * 200, idempotency_key_template=template), now_us=NOW_US)


def test_the_payload_keeps_order_digits_and_escapes_and_loses_blanks() -> None:
    text = body()[:-1] + b', "payload": { "b" : [1, 2.50, 1e5, -0],\n "a": "\\u0041 \xc3\xa9" } }'
    expected = '{"b":[1,2.50,1e5,-0],"a":"\\u0041 é"}'
    assert expected == read_job(text, now_us=NOW_US).definition.payload


def test_the_payload_limit_counts_bytes_of_the_compact_text() -> None:
    limits = Limits(payload_bytes_max=10)

    def text(payload: str) -> bytes:
        fields = json.dumps(BASE | {"payload": payload}, ensure_ascii=False)
        return fields.replace("{", "{  ").encode()

    job = read_job(text("é" * 4), now_us=NOW_US, limits=limits)
    assert job.definition.payload == '"éééé"'
    for payload, length_bytes in (("é" * 5, 12), ("12345678é", 12), ("123456789", 11)):
        with pytest.raises(InvalidInput, match=f"payload has {length_bytes} bytes") as raised:
            read_job(text(payload), now_us=NOW_US, limits=limits)
        assert raised.value.pointer == "/payload"


def test_python_callers_get_the_same_job_as_the_bytes() -> None:
    fields = BASE | {"payload": {"b": [1, None, "é"], "a": True}, "max_retries": 0}
    assert read_job(json.dumps(fields).encode(), now_us=NOW_US).definition.payload == (
        '{"b":[1,null,"\\u00e9"],"a":true}'
    )
    assert job_from(job_in(fields), NOW_US).definition.payload == '{"b":[1,null,"é"],"a":true}'
    for field in set(FIELDS) - {"payload", "task"}:
        from_bytes = getattr(read_job(json.dumps(fields).encode(), now_us=NOW_US).definition, field)
        assert from_bytes == getattr(job_from(job_in(fields), NOW_US).definition, field)


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        (float("nan"), "/payload"),
        ([float("inf")], "/payload/0"),
        (object(), "/payload"),
        ({"k": "\ud800"}, "/payload/k"),
        ({1: "a", "1": "b"}, "/payload/1"),
        ([2**64], "/payload/0"),
        ({"a\x00": 1}, "/payload"),
    ],
)
def test_python_payloads_that_are_no_json_are_refused(payload: object, pointer: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        job_from(job_in(BASE | {"payload": payload}), NOW_US)
    assert pointer == raised.value.pointer


def test_a_payload_nested_too_deep_is_refused_the_same_from_both_sides() -> None:
    def nested(depth: int) -> list[object]:
        value: list[object] = []
        for _ in range(depth - 1):
            value = [value]
        return value

    assert job_from(job_in(BASE | {"payload": nested(31)}), NOW_US)
    assert read_job(body(payload=nested(31)), now_us=NOW_US)
    with pytest.raises(InvalidInput):
        job_from(job_in(BASE | {"payload": nested(32)}), NOW_US)
    assert "nested 33 deep" in refused(body(payload=nested(32))).message
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidInput):
        job_in(BASE | {"payload": endless})


def test_python_callers_hear_of_wrong_and_unknown_fields() -> None:
    for fields, pointer in (({"name": 5}, "/name"), ({"Name": "x"}, "/Name")):
        with pytest.raises(InvalidInput) as raised:
            job_in(BASE | fields)
        assert pointer == raised.value.pointer


def test_a_struct_built_by_hand_is_checked_as_well() -> None:
    with pytest.raises(InvalidInput) as raised:
        job_from(JobIn(name="a\x00b", schedule="* * * * *"), NOW_US)
    assert raised.value.pointer == "/name"
