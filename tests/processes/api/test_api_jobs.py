"""Jobs over HTTP: registered, read, deleted, each exactly as sent."""

from __future__ import annotations

import json
import threading

import pytest

from mainspring.instants import format_instant, parse_instant
from mainspring.model import format_job_id, parse_job_id
from processes.api.stage import EXAMPLE, JOBS, ApiProcess, rows_of

pytestmark = pytest.mark.slow


def database_us(dsn: str) -> int:
    ((instant_us,),) = rows_of(
        dsn, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    )
    return int(instant_us)


def test_a_registration_answers_with_id_next_time_and_location(api: ApiProcess) -> None:
    answer = api.call("POST", JOBS, json.dumps(EXAMPLE).encode())
    assert (201, {"job_id", "next_run_at"}) == (answer.status, answer.value.keys())
    assert answer.headers["location"] == f"{JOBS}/{answer.value['job_id']}"
    assert answer.headers["content-type"] == "application/json"
    assert parse_job_id(answer.value["job_id"])
    assert answer.value["next_run_at"][10:] in {"T13:00:00Z", "T14:00:00Z"}  # Monday, 9 there


def test_a_job_is_read_with_every_field(api: ApiProcess, api_dsn: str) -> None:
    before_us = database_us(api_dsn)
    registered = api.call("POST", JOBS, json.dumps(EXAMPLE).encode())
    after_us = database_us(api_dsn)
    shown = api.call("GET", registered.headers["location"])
    assert shown.status == 200
    job = dict(shown.value)
    created_us, updated_us = (parse_instant(job.pop(key)) for key in ("created_at", "updated_at"))
    assert before_us <= created_us <= updated_us <= after_us
    assert job == EXAMPLE | {
        "job_id": registered.value["job_id"],
        "task": "send-weekly-report",
        "queue": "default",
        "retry_base_seconds": 5,
        "retry_cap_seconds": 3600,
        "max_missed": 100,
        "misfire_grace_seconds": 60,
        "dst_gap": "next_valid",
        "dst_overlap": "first",
        "status": "active",
        "next_run_at": registered.value["next_run_at"],
        "rev": 1,
    }


def test_a_schedule_of_every_second_is_first_due_after_its_registration(api: ApiProcess) -> None:
    for _ in range(20):
        job = api.call("GET", api.register(schedule="@every 1s").headers["location"]).value
        assert parse_instant(job["next_run_at"]) > parse_instant(job["created_at"])


@pytest.mark.parametrize(
    "name",
    ["a" * 78, "Bericht-日本-🚀", "cafe\N{COMBINING ACUTE ACCENT}", "  blanks  ",
     "'; DROP TABLE jobs--", "\\x00 %s {0} $1", "🏳️\N{ZERO WIDTH JOINER}🌈",
     "<script>alert(1)</script>"],
)  # fmt: skip
def test_a_name_comes_back_byte_for_byte(api: ApiProcess, api_dsn: str, name: str) -> None:
    location = api.register(name=name).headers["location"]
    job = api.call("GET", location).value
    assert (name, name) == (job["name"], job["task"])
    ((stored,),) = rows_of(
        api_dsn,
        "SELECT convert_to(name, 'UTF8') FROM jobs WHERE job_id = %(id)s",
        id=parse_job_id(job["job_id"]),
    )
    assert name.encode() == stored


def test_a_payload_comes_back_with_its_order_and_digits(api: ApiProcess) -> None:
    payload = b'{"z": 1, "a": [2.50, 1e5, 18446744073709551615], "\\u00e9": null}'
    body = b'{"name": "x", "schedule": "0 9 * * 1", "payload": ' + payload + b"}"
    location = api.call("POST", JOBS, body).headers["location"]
    with api.connect() as connection:
        connection.request("GET", location)
        text = connection.getresponse().read()
    assert b'"payload":{"z":1,"a":[2.50,1e5,18446744073709551615],"\\u00e9":null},' in text


@pytest.mark.parametrize(
    ("ahead_us", "is_exact"), [(-2_000_000, True), (60 * 86_400_000_000, True), (1_234, True)]
)
def test_a_one_off_is_due_at_exactly_its_instant_past_or_far(
    api: ApiProcess, api_dsn: str, ahead_us: int, is_exact: bool
) -> None:
    at = format_instant(database_us(api_dsn) + ahead_us)
    registered = api.register(schedule=at)
    assert (201, at) == (registered.status, registered.value["next_run_at"])
    assert api.call("GET", registered.headers["location"]).value["next_run_at"] == at
    ((pending,),) = (api.call("GET", registered.headers["location"] + "/runs").value,)
    assert (at, "pending", None) == (pending["scheduled_at"], pending["status"], pending["run_id"])


def test_a_one_off_at_the_end_of_time_is_stored_exactly(api: ApiProcess) -> None:
    registered = api.register(schedule="9999-12-31T23:59:59Z")
    job = api.call("GET", registered.headers["location"])
    assert (job.status, job.value["next_run_at"]) == (200, "9999-12-31T23:59:59Z")


def test_deletion_answers_204_again_and_again_and_the_job_is_gone(api: ApiProcess) -> None:
    location = api.register().headers["location"]
    answers = [api.call("DELETE", location) for _ in range(3)]
    assert [(answer.status, answer.value) for answer in answers] == [(204, None)] * 3
    gone = api.call("GET", location)
    assert (gone.status, gone.headers["content-type"]) == (404, "application/problem+json")
    assert f"{location}/runs" in gone.value["hint"]
    assert (
        (runs := api.call("GET", location + "/runs")).status,
        runs.value,
    ) == (200, [])


def test_deletion_while_a_run_goes_on_hides_the_job_at_once(api: ApiProcess, api_dsn: str) -> None:
    registered = api.register()
    job_id = parse_job_id(registered.value["job_id"])
    rows_of(
        api_dsn,
        "UPDATE firings SET started_at = clock_timestamp(), locked_by = 1, attempt = 1, fence = 1"
        " WHERE firing_id = %(id)s",
        id=job_id,
    )
    location = registered.headers["location"]
    assert [api.call("DELETE", location).status for _ in range(2)] == [204, 204]
    assert api.call("GET", location).status == 404
    (run,) = api.call("GET", location + "/runs").value
    assert ("running", "h_1", f"r_{registered.value['job_id'][2:]}_1") == (
        run["status"],
        run["worker_id"],
        run["run_id"],
    )


NEVER = format_job_id(2**62)


@pytest.mark.parametrize(
    "job_id",
    [NEVER, "j_", "j_0", "j_01", "j_u", "x", "1", "J_1", "j_" + "z" * 13, "j_" + "1" * 5000,
     "%00", "%ff%fe", "j_%F0%9F%9A%80", "..", "j_1%2F..", "%27%20OR%201=1"],
)  # fmt: skip
def test_an_id_never_given_out_is_404_for_every_method(api: ApiProcess, job_id: str) -> None:
    for method, path in (
        ("GET", ""), ("DELETE", ""), ("GET", "/runs"), ("PATCH", ""), ("POST", ":pause"),
        ("POST", ":resume"),
    ):  # fmt: skip
        body = b'{"max_retries": 1}' if method == "PATCH" else None
        answer = api.call(method, f"{JOBS}/{job_id}{path}", body)
        assert (
            answer.status,
            answer.headers["content-type"],
        ) == (404, "application/problem+json")
        assert answer.value["status"] == 404
        assert answer.value["hint"]


def test_an_unknown_id_is_named(api: ApiProcess) -> None:
    assert NEVER in api.call("GET", f"{JOBS}/{NEVER}").value["detail"]
    assert "'j_ou'" in api.call("GET", f"{JOBS}/j_ou").value["detail"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", JOBS, "OPTIONS, POST"),
        ("PUT", JOBS, "OPTIONS, POST"),
        ("POST", JOBS + "/j_1", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("PUT", JOBS + "/j_1", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("DELETE", JOBS + "/j_1/runs", "GET, HEAD, OPTIONS"),
        ("TRACE", "/livez", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_method_is_405_and_told_which_are_allowed(
    api: ApiProcess, method: str, path: str, allowed: str
) -> None:
    answer = api.call(method, path)
    assert (405, allowed) == (answer.status, answer.headers["allow"])
    assert answer.headers["content-type"] == "application/problem+json"
    asked = api.call("OPTIONS", path)
    assert (204, allowed, None) == (asked.status, asked.headers["allow"], asked.value)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", JOBS + "/", JOBS + "/j_1/", "//livez", "/docs"]
)
def test_another_path_is_a_404_problem_and_never_a_redirect(api: ApiProcess, path: str) -> None:
    answer = api.call("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


def test_head_answers_as_get_without_a_body(api: ApiProcess) -> None:
    location = api.register().headers["location"]
    for path, status in ((location, 200), (f"{JOBS}/{NEVER}", 404), ("/livez", 200)):
        get, head = api.call("GET", path), api.call("HEAD", path)
        assert (status, get.headers["content-length"], None) == (
            head.status,
            head.headers["content-length"],
            head.value,
        )


@pytest.mark.parametrize("path", [JOBS + "/j_1", "/livez", "/readyz"])
def test_an_unknown_query_parameter_is_400_and_named(api: ApiProcess, path: str) -> None:
    answer = api.call("GET", path + "?verbose=1")
    assert (answer.status, answer.value["parameter"]) == (400, "verbose")
    assert api.call("POST", JOBS + "?dry_run=1", json.dumps(EXAMPLE).encode()).status == 400


def test_health_is_live_and_ready(api: ApiProcess) -> None:
    assert (
        (live := api.call("GET", "/livez")).status,
        live.value,
    ) == (200, {"status": "live"})
    assert (
        (ready := api.call("GET", "/readyz")).status,
        ready.value,
    ) == (200, {"status": "ready"})


def test_fifty_registrations_at_once_are_fifty_jobs(api: ApiProcess, api_dsn: str) -> None:
    ((before,),) = rows_of(api_dsn, "SELECT count(*) FROM jobs")
    ids: dict[int, str] = {}
    gate = threading.Barrier(50)

    def register(number: int) -> None:
        with api.connect() as connection:
            connection.connect()
            gate.wait()
            body = json.dumps({"name": f"job {number}", "schedule": "0 9 * * 1"}).encode()
            answer = api.call("POST", JOBS, body, connection=connection)
            assert answer.status == 201
            ids[number] = answer.value["job_id"]

    threads = [threading.Thread(target=register, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids.values())) == 50
    for number, job_id in ids.items():  # no answer went to another request
        assert api.call("GET", f"{JOBS}/{job_id}").value["name"] == f"job {number}"
    ((after,),) = rows_of(api_dsn, "SELECT count(*) FROM jobs")
    assert before + 50 == after


def test_a_connection_serves_many_requests_after_refusals(api: ApiProcess) -> None:
    with api.connect() as connection:
        for body, status in ((b"{", 400), (json.dumps(EXAMPLE).encode(), 201), (b"{}", 422)) * 3:
            assert status == api.call("POST", JOBS, body, connection=connection).status
