"""Jobs changed, paused and resumed over HTTP: each whole, guarded by their ETag, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mainspring.instants import format_instant, parse_instant
from mainspring.model import format_job_id, parse_job_id
from processes.api.stage import JOBS, JSON, Answer, ApiProcess, count_stored, rows_of

pytestmark = pytest.mark.slow

NEVER = f"{JOBS}/{format_job_id(2**62)}"
PROBLEM = "application/problem+json"
OF_THE_STORE = {"rev", "updated_at", "next_run_at"}


def patch(api: ApiProcess, location: str, fields: object, **headers: str) -> Answer:
    return api.call("PATCH", location, json.dumps(fields).encode(), JSON | _names(headers))


def post(api: ApiProcess, path: str, **headers: str) -> Answer:
    return api.call("POST", path, None, _names(headers))


def _names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def made(api: ApiProcess, **changes: object) -> str:
    """Register a job; returns its path."""
    answer = api.register(**changes)
    assert answer.status == 201, answer.value
    return answer.headers["location"]


def read(api: ApiProcess, location: str) -> dict[str, Any]:
    answer = api.call("GET", location)
    assert answer.status == 200, answer.value
    value: dict[str, Any] = answer.value
    assert answer.headers["etag"] == f'"{value["rev"]}"'
    return value


def database_us(dsn: str) -> int:
    ((instant_us,),) = rows_of(
        dsn, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    )
    return int(instant_us)


def number_of(location: str) -> int:
    return parse_job_id(location.rpartition("/")[2])


# Fields ----------------------------------------------------------------------------------------

FIELDS: dict[str, object] = {
    "name": "Bericht-日本",
    "schedule": "30 14 1 1 *",
    "timezone": "America/New_York",
    "task": "other",
    "queue": "mails",
    "payload": {"a": [1, None]},
    "idempotency_key_template": "report-{{week}}",
    "max_retries": 7,
    "retry_backoff": "linear",
    "retry_base_seconds": 6,
    "retry_cap_seconds": 60,
    "timeout_seconds": 12,
    "missed_window": "RUN_ALL",
    "max_missed": 5,
    "misfire_grace_seconds": 0,
    "dst_gap": "skip",
    "dst_overlap": "both",
}


def test_each_field_is_changed_alone_and_all_together(api: ApiProcess) -> None:
    location = made(api)
    first = before = read(api, location)
    for rev, (name, value) in enumerate(FIELDS.items(), 2):
        answer = patch(api, location, {name: value})
        assert answer.status == 200, answer.value
        job = answer.value
        differs = {key for key in job if job[key] != before[key]} - OF_THE_STORE
        assert (differs, job[name], job["rev"]) == ({name}, value, rev)
        assert answer.headers["etag"] == f'"{rev}"'
        assert parse_instant(job["updated_at"]) >= parse_instant(before["updated_at"])
        assert read(api, location) == job
        before = job
    assert before["next_run_at"][4:] == "-01-01T19:30:00Z"

    back = {name: first[name] for name in FIELDS}
    job = patch(api, location, back).value
    assert {**job, **dict.fromkeys(OF_THE_STORE)} == {**first, **dict.fromkeys(OF_THE_STORE)}


def test_a_payload_is_taken_as_a_whole_with_its_order_and_digits(api: ApiProcess) -> None:
    location = made(api, payload={"kept": 1})
    body = b'{"payload": {"z": 2.50, "a": 18446744073709551615}}'
    assert api.call("PATCH", location, body).status == 200
    with api.connect() as connection:
        connection.request("GET", location)
        assert b'"payload":{"z":2.50,"a":18446744073709551615},' in connection.getresponse().read()


def test_null_takes_a_template_back_and_makes_the_task_the_name(api: ApiProcess) -> None:
    location = made(api, task="t", idempotency_key_template="k-{{date}}")
    job = patch(api, location, {"name": "n", "task": None, "idempotency_key_template": None}).value
    assert (job["task"], job["idempotency_key_template"]) == ("n", None)
    assert patch(api, location, {"name": "m"}).value["task"] == "n"


def test_a_changed_schedule_starts_from_now_and_another_field_leaves_it(
    api: ApiProcess, api_dsn: str
) -> None:
    location = made(api, schedule="@every 1h")
    rows_of(
        api_dsn,
        "UPDATE firings SET due_at = '2026-01-01 00:00Z', scheduled_at = '2026-01-01 00:00Z'"
        " WHERE firing_id = %(id)s",
        id=number_of(location),
    )
    job = patch(api, location, {"max_retries": 1}).value
    assert job["next_run_at"] == "2026-01-01T00:00:00Z"
    before_us = database_us(api_dsn)
    job = patch(api, location, {"schedule": "@every 2h"}).value
    ahead_us = parse_instant(job["next_run_at"]) - 7_200_000_000
    assert before_us <= ahead_us <= database_us(api_dsn)
    # What was due and gave way is in the history, and has a name there.
    waits, skipped = api.call("GET", location + "/runs").value
    assert (waits["status"], skipped["status"]) == ("pending", "skipped")
    assert skipped["scheduled_at"] == "2026-01-01T00:00:00Z"
    assert skipped["run_id"].startswith(f"r_{location.rpartition('j_')[2]}_")


def test_a_lease_ends_with_a_change_and_a_run_goes_on(api: ApiProcess, api_dsn: str) -> None:
    """No frame with the old definition can be started, and no run is taken from its worker."""
    leased, running = made(api), made(api)
    ids = [number_of(leased), number_of(running)]
    rows_of(
        api_dsn,
        "UPDATE firings SET fence = 3, attempt = 1, locked_by = 9,"
        " started_at = CASE WHEN firing_id = %(running)s THEN clock_timestamp() END"
        " WHERE firing_id = ANY (%(ids)s)",
        ids=ids,
        running=ids[1],
    )
    for location in (leased, running):
        assert patch(api, location, {"payload": 2}).status == 200
    assert rows_of(
        api_dsn,
        "SELECT fence, locked_by, rev FROM firings WHERE firing_id = ANY (%(ids)s)"
        " ORDER BY firing_id",
        ids=ids,
    ) == [(4, None, 2), (3, 9, 2)]
    assert api.call("GET", running + "/runs").value[0]["status"] == "running"


# Refusals --------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[bytes, int, str, str]] = {
    "unknown field": (b'{"tenant": 1}', 422, "/tenant", "Fields are name, schedule, "),
    "misspelt field": (b'{"max_retry": 1}', 422, "/max_retry", "Did you mean max_retries?"),
    "field of the store": (b'{"next_run_at": null}', 422, "/next_run_at", "Fields are "),
    "status": (b'{"status": "paused"}', 422, "/status", ""),
    "one good and one bad": (b'{"max_retries": 1, "rev": 9}', 422, "/rev", "Fields are "),
    "empty object": (b"{}", 422, "", "Fields are name, schedule, "),
    "no JSON": (b"max_retries=1", 400, "", "one JSON value"),
    "cut JSON": (b'{"max_retries": 1', 400, "", "one JSON value"),
    "empty body": (b"", 400, "", "one JSON value"),
    "array": (b'[{"max_retries": 1}]', 422, "", "Fields are "),
    "null": (b"null", 422, "", "Fields are "),
    "NUL in payload": (b'{"payload": {"note": "a\\u0000b"}}', 422, "/payload/note", ""),
    "NUL in name": (b'{"name": "a\\u0000b"}', 422, "/name", ""),
    "duplicate key": (b'{"name": "x", "name": "y"}', 422, "/name", ""),
    "33 levels": (b'{"payload": ' + b"[" * 32 + b"]" * 32 + b"}", 400, "", ""),
    "bad schedule": (b'{"schedule": "0 25 * * *"}', 422, "/schedule", "0"),
    "never fires": (b'{"schedule": "0 0 31 2 *"}', 422, "/schedule", ""),
    "past one-off": (b'{"schedule": "2020-01-01T00:00:00Z"}', 422, "/schedule", "an instant to"),
    "bad zone": (b'{"timezone": "Mars/Olympus"}', 422, "/timezone", ""),
    "null zone": (b'{"timezone": null}', 422, "/timezone", ""),
    "wrong type": (b'{"max_retries": "1"}', 422, "/max_retries", ""),
    "out of range": (b'{"max_missed": 0}', 422, "/max_missed", "1 to 10000"),
    "cap below the base": (b'{"retry_cap_seconds": 1}', 422, "/retry_cap_seconds", ""),
    "bad policy": (b'{"missed_window": "MAYBE"}', 422, "/missed_window", "SKIP, RUN_ONCE, RUN_ALL"),
    "bad gap": (b'{"dst_gap": "fire"}', 422, "/dst_gap", "next_valid, skip"),
    "bad overlap": (b'{"dst_overlap": "none"}', 422, "/dst_overlap", "first, second, both"),
    "large payload": (b'{"payload": "' + b"p" * 65_535 + b'"}', 422, "/payload", "at most 65536"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_change_is_refused_by_name_and_changes_nothing(api: ApiProcess, case: str) -> None:
    body, status, pointer, hint = REFUSED[case]
    location = made(api)
    before = read(api, location)
    answer = api.call("PATCH", location, body)
    assert (status, pointer) == (answer.status, answer.pointer), answer.value
    assert answer.headers["content-type"] == PROBLEM
    assert "etag" not in answer.headers
    assert hint in answer.value["hint"]
    assert read(api, location) == before


@pytest.mark.parametrize(
    "headers", [{}, {"Content-Type": "text/plain"}, {**JSON, "Content-Encoding": "gzip"}]
)
def test_another_content_type_is_415(api: ApiProcess, headers: dict[str, str]) -> None:
    location = made(api)
    answer = api.call("PATCH", location, b'{"max_retries": 1}', headers)
    assert (answer.status, answer.headers["content-type"]) == (415, PROBLEM)
    assert read(api, location)["rev"] == 1


def chunks_of(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_is_413(api: ApiProcess, is_chunked: bool) -> None:
    location = made(api)
    body = b'{"max_retries": 1}' + b" " * 131_072
    answer = api.call("PATCH", location, chunks_of(body) if is_chunked else body)
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert read(api, location)["rev"] == 1


@pytest.mark.parametrize("query", ["?dry_run=1", "?if_rev=1"])
def test_an_unknown_query_parameter_is_400(api: ApiProcess, query: str) -> None:
    location = made(api)
    for method, path in (("PATCH", ""), ("POST", ":pause"), ("POST", ":resume")):
        answer = api.call(method, location + path + query, b'{"max_retries": 1}')
        assert (answer.status, answer.value["parameter"]) == (400, query[1:].partition("=")[0])
    assert read(api, location)["rev"] == 1


# ETag and If-Match -----------------------------------------------------------------------------


def test_every_answer_with_a_job_has_its_etag_and_a_change_another(api: ApiProcess) -> None:
    registered = api.register()
    location = registered.headers["location"]
    tags = [
        registered.headers["etag"],
        api.call("GET", location).headers["etag"],
        api.call("HEAD", location).headers["etag"],
        patch(api, location, {"max_retries": 1}).headers["etag"],
        api.call("GET", location).headers["etag"],
        post(api, location + ":pause").headers["etag"],
        post(api, location + ":resume").headers["etag"],
    ]
    assert tags == ['"1"', '"1"', '"1"', '"2"', '"2"', '"3"', '"4"']


def test_if_match_with_the_etag_as_it_is_changes_and_with_any_other_does_not(
    api: ApiProcess,
) -> None:
    location = made(api)
    assert patch(api, location, {"max_retries": 1}, If_Match='"1"').status == 200
    before = read(api, location)
    for answer in (
        patch(api, location, {"max_retries": 9}, If_Match='"1"'),
        post(api, location + ":pause", If_Match='"3"'),
        post(api, location + ":resume", If_Match='"999"'),  # nothing to do, and yet another job
    ):
        assert (answer.status, answer.headers["content-type"]) == (412, PROBLEM)
        assert answer.value["type"] == "urn:mainspring:problem:precondition-failed"
        assert "is at rev 2, not " in answer.value["detail"]
        assert answer.value["hint"].startswith("Read it again")
    assert read(api, location) == before
    assert patch(api, location, {"max_retries": 2}, If_Match="*").value["rev"] == 3
    assert post(api, location + ":pause", If_Match=' "3" ').value["status"] == "paused"


@pytest.mark.parametrize(
    "given", ["1", '"x"', 'W/"1"', '"1", "2"', '""', '"01"', '"' + "9" * 200 + '"', "'1'"]
)
def test_an_if_match_that_is_no_etag_of_a_job_is_400(api: ApiProcess, given: str) -> None:
    location = made(api)
    for method, path in (("PATCH", ""), ("POST", ":pause"), ("POST", ":resume")):
        answer = api.call(
            method, location + path, b'{"max_retries": 1}', JSON | {"If-Match": given}
        )
        assert (answer.status, answer.headers["content-type"]) == (400, PROBLEM)
        assert 'If-Match: "3"' in answer.value["hint"]
    assert read(api, location)["rev"] == 1


AT_ONCE = 5
"""As many as a change is decided again, so that none of them can fail by the others."""


def at_once(api: ApiProcess, location: str, changes: list[object], **headers: str) -> list[Answer]:
    gate = threading.Barrier(len(changes))
    answers: list[Answer] = []

    def one(fields: object) -> None:
        with api.connect() as connection:
            connection.connect()
            body = json.dumps(fields).encode()
            gate.wait()
            answers.append(
                api.call("PATCH", location, body, JSON | _names(headers), connection=connection)
            )

    threads = [threading.Thread(target=one, args=(fields,)) for fields in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_changes_of_different_fields_at_once_all_stand(api: ApiProcess) -> None:
    location = made(api)
    changes: list[object] = [
        {"max_retries": 1}, {"payload": "p"}, {"queue": "q"}, {"schedule": "@daily"},
        {"timeout_seconds": 9},
    ]  # fmt: skip
    assert len(changes) == AT_ONCE
    answers = at_once(api, location, changes)
    assert [answer.status for answer in answers] == [200] * AT_ONCE
    assert sorted(answer.value["rev"] for answer in answers) == [2, 3, 4, 5, 6]
    job = read(api, location)
    for fields in changes:
        assert isinstance(fields, dict)
        assert job.items() >= fields.items()


def test_of_changes_at_once_with_the_same_if_match_one_stands(api: ApiProcess) -> None:
    location = made(api)
    changes: list[object] = [{"max_retries": count} for count in range(AT_ONCE)]
    answers = at_once(api, location, changes, If_Match='"1"')
    assert sorted(answer.status for answer in answers) == [200] + [412] * (AT_ONCE - 1)
    (done,) = (answer.value for answer in answers if answer.status == 200)
    assert read(api, location) == done
    assert done["rev"] == 2


# Pause and resume ------------------------------------------------------------------------------


def test_a_pause_and_a_resumption_change_once_however_often_they_come(
    api: ApiProcess, api_dsn: str
) -> None:
    location = made(api, schedule="@hourly")
    for verb, status, etag in ((":pause", "paused", '"2"'), (":resume", "active", '"3"')):
        first = post(api, location + verb)
        again = post(api, location + verb)
        assert (first.status, again.status) == (200, 200)
        assert (first.headers["etag"], again.headers["etag"]) == (etag, etag)
        assert first.value == again.value == read(api, location)
        assert first.value["status"] == status
        assert (first.value["next_run_at"] is None) == (status == "paused")
    now_us = database_us(api_dsn)
    assert 0 < parse_instant(read(api, location)["next_run_at"]) - now_us <= 3_600_000_000
    assert post(api, location + ":resume", If_Match='"3"').headers["etag"] == '"3"'


def test_a_paused_job_is_due_to_nobody_and_what_was_due_is_skipped(
    api: ApiProcess, api_dsn: str
) -> None:
    location = made(api)
    rows_of(
        api_dsn,
        "UPDATE firings SET due_at = '2026-01-01 00:00Z', scheduled_at = '2026-01-01 00:00Z'"
        " WHERE firing_id = %(id)s",
        id=number_of(location),
    )
    assert post(api, location + ":pause").status == 200
    ((due,),) = rows_of(
        api_dsn,
        "SELECT due_at::text FROM firings WHERE firing_id = %(id)s",
        id=number_of(location),
    )
    assert due == "infinity"
    runs = api.call("GET", location + "/runs").value
    (skipped,) = (run for run in runs if run["status"] == "skipped")
    # It has a name although no lease was ever given, so it can end a page.
    name = f"r_{location.rpartition('j_')[2]}_1"
    assert (skipped["scheduled_at"], skipped["run_id"]) == ("2026-01-01T00:00:00Z", name)


def test_a_body_of_a_pause_is_not_asked_for(api: ApiProcess) -> None:
    location = made(api)
    assert api.call("POST", location + ":pause", None, {}).status == 200
    assert (
        api.call("POST", location + ":resume", b"{}", {"Content-Type": "text/plain"}).status == 200
    )


def pass_over(dsn: str, location: str) -> str:
    """Let the instant of a paused one-off pass; returns it."""
    at = "2026-01-01T00:00:00Z"
    rows_of(
        dsn,
        "UPDATE jobs SET schedule = %(at)s, anchor_at = '2025-12-01 00:00Z' WHERE job_id = %(id)s",
        at=at,
        id=number_of(location),
    )
    return at


def test_a_one_off_that_passed_while_it_was_paused(api: ApiProcess, api_dsn: str) -> None:
    """Under SKIP a resumption is refused until something about it is changed; else it runs."""
    soon = format_instant(database_us(api_dsn) + 3_600_000_000)
    location = made(api, schedule=soon, missed_window="SKIP")
    assert post(api, location + ":pause").value["next_run_at"] is None
    at = pass_over(api_dsn, location)
    before = read(api, location)
    answer = post(api, location + ":resume")
    assert (answer.status, answer.headers["content-type"]) == (409, PROBLEM)
    assert (at in answer.value["detail"], "SKIP" in answer.value["detail"]) == (True, True)
    assert answer.value["hint"] == "Give it another schedule first, or delete it."
    assert read(api, location) == before

    assert patch(api, location, {"missed_window": "RUN_ONCE"}).status == 200
    resumed = post(api, location + ":resume").value
    assert (resumed["status"], resumed["next_run_at"]) == ("active", at)


# Paths and methods -----------------------------------------------------------------------------


def test_a_job_that_never_was_is_told_from_one_that_is_gone(api: ApiProcess) -> None:
    gone = made(api)
    assert api.call("DELETE", gone).status == 204
    for method, verb in (("PATCH", ""), ("POST", ":pause"), ("POST", ":resume")):
        answers = [
            api.call(method, location + verb, b'{"max_retries": 1}', JSON | {"If-Match": '"1"'})
            for location in (NEVER, gone)
        ]
        assert [answer.status for answer in answers] == [404, 404]
        never, deleted = (answer.value["detail"] for answer in answers)
        assert never.startswith("no job was ever called j_")
        assert deleted.endswith("is deleted or finished")
        assert api.call(method, f"{JOBS}/x{verb}", b'{"max_retries": 1}').status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("PUT", "", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("PATCH", "/runs", "GET, HEAD, OPTIONS"),
        *((method, ":pause", "OPTIONS, POST") for method in ("GET", "PATCH", "DELETE", "PUT")),
        ("GET", ":resume", "OPTIONS, POST"),
    ],
)
def test_another_method_is_405_and_told_which_are_allowed(
    api: ApiProcess, method: str, path: str, allowed: str
) -> None:
    location = made(api)
    answer = api.call(method, location + path, b'{"max_retries": 1}')
    assert (405, allowed) == (answer.status, answer.headers["allow"])
    assert answer.headers["content-type"] == PROBLEM
    asked = api.call("OPTIONS", location + path)
    assert (204, allowed) == (asked.status, asked.headers["allow"])
    assert read(api, location)["rev"] == 1


@pytest.mark.parametrize("path", [":trigger", ":", ":pause:pause", ":pause/runs", ":Pause"])
def test_a_verb_that_is_not_there_is_404(api: ApiProcess, path: str) -> None:
    location = made(api)
    answer = api.call("POST", location + path)
    assert (answer.status, answer.headers["content-type"]) == (404, PROBLEM)
    assert read(api, location)["rev"] == 1


# Missed windows --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["SKIP", "RUN_ONCE", "RUN_ALL"])
def test_every_policy_for_missed_windows_is_taken_and_shown(api: ApiProcess, policy: str) -> None:
    job = read(api, made(api, missed_window=policy, max_missed=7, misfire_grace_seconds=1))
    assert (job["missed_window"], job["max_missed"], job["misfire_grace_seconds"]) == (policy, 7, 1)


def test_a_one_off_in_the_past_is_refused_under_skip_alone(api: ApiProcess, api_dsn: str) -> None:
    past = "2020-01-01T00:00:00Z"
    before = count_stored(api_dsn)
    refused = api.register(schedule=past, missed_window="SKIP")
    assert (refused.status, refused.pointer) == (422, "/schedule")
    assert "missed_window RUN_ONCE" in refused.value["hint"]
    assert count_stored(api_dsn) == before
    for policy in ("RUN_ONCE", "RUN_ALL"):
        answer = api.register(schedule=past, missed_window=policy)
        assert (answer.status, answer.value["next_run_at"]) == (201, past)
