"""The history of a job over HTTP: order, pages, and the form of each kind of run."""

from __future__ import annotations

import base64
import re
import struct
from typing import Any

import pytest

from mainspring.model import format_run_id, parse_job_id
from processes.api.stage import ApiProcess, rows_of

pytestmark = pytest.mark.slow

RUN_COUNT = 1_205

FIELDS = {
    "run_id", "job_id", "scheduled_at", "started_at", "finished_at", "status", "attempt",
    "worker_id", "error", "output", "catch_up", "trigger",
}  # fmt: skip


@pytest.fixture(scope="module")
def location(api: ApiProcess, api_dsn: str) -> str:
    """A job with a long history: five attempts for each scheduled_at, a pending run on top."""
    registered = api.register(schedule="2030-01-01T00:00:00Z")
    rows_of(
        api_dsn,
        """INSERT INTO job_runs (recorded_at, firing_id, fence, job_id, scheduled_at, started_at,
            finished_at, worker_id, attempt, status, trigger, catch_up, error, output)
        SELECT clock_timestamp(), %(id)s, n, %(id)s,
            '2026-01-01'::timestamptz + make_interval(mins => n / 5),
            '2026-01-01', '2026-01-01 00:00:01.5', 7, n %% 5 + 1, 'failed', 0, false, 'boom', NULL
        FROM generate_series(1, %(count)s) AS n""",
        id=parse_job_id(registered.value["job_id"]),
        count=RUN_COUNT,
    )
    return registered.headers["location"]


def pages_of(api: ApiProcess, path: str) -> list[list[dict[str, Any]]]:
    """Follow the links to the end."""
    pages = []
    while path:
        answer = api.call("GET", path)
        assert answer.status == 200
        pages.append(answer.value)
        link = answer.headers.get("link", "")
        found = re.fullmatch(r'<([^>]*)>; rel="next"', link)
        assert bool(found) == bool(link)
        path = found[1] if found else ""
    return pages


def test_the_default_page_is_the_newest_twenty_with_a_link(api: ApiProcess, location: str) -> None:
    answer = api.call("GET", location + "/runs")
    assert (len(answer.value), answer.value[0]["status"]) == (20, "pending")
    assert answer.headers["link"].startswith(f"<{location}/runs?limit=20&cursor=")
    assert {frozenset(FIELDS)} == {frozenset(run) for run in answer.value}


@pytest.mark.parametrize(("limit", "page_count"), [(500, 3), (201, 6), (402, 3), (1, None)])
def test_pages_hold_every_run_once_newest_first(
    api: ApiProcess, location: str, limit: int, page_count: int | None
) -> None:
    if page_count is None:  # a page of one links to the next
        first = api.call("GET", f"{location}/runs?limit=1")
        second = api.call("GET", first.headers["link"][1:].partition(">")[0])
        assert first.value != second.value
        return
    pages = pages_of(api, f"{location}/runs?limit={limit}")
    runs = [run for page in pages for run in page]
    assert (page_count, RUN_COUNT + 1) == (len(pages), len(runs))
    keys = [(run["scheduled_at"], run["attempt"]) for run in runs]
    assert keys == sorted(keys, reverse=True)
    assert len({run["run_id"] for run in runs}) == RUN_COUNT + 1
    assert {limit} == {len(page) for page in pages[:-1]}


def test_a_page_that_ends_with_the_last_run_links_nowhere(api: ApiProcess, location: str) -> None:
    pages = pages_of(api, f"{location}/runs?limit=402")
    assert [len(page) for page in pages] == [402, 402, 402]


def test_runs_recorded_while_paging_shift_no_page(api: ApiProcess, api_dsn: str) -> None:
    registered = api.register()
    job_id = parse_job_id(registered.value["job_id"])
    insert = (
        "INSERT INTO job_runs (recorded_at, firing_id, fence, job_id, scheduled_at, attempt,"
        " status, trigger, catch_up) SELECT clock_timestamp(), %(id)s, n, %(id)s,"
        " '2026-01-01'::timestamptz + make_interval(mins => n), 1, 'success', 0, false"
        " FROM generate_series(%(low)s::integer, %(high)s::integer) AS n"
    )
    rows_of(api_dsn, insert, id=job_id, low=1, high=10)
    first = api.call("GET", registered.headers["location"] + "/runs?limit=5")
    rows_of(api_dsn, insert, id=job_id, low=11, high=20)
    second = api.call("GET", first.headers["link"][1:].partition(">")[0])
    fences = [int(run["run_id"].rpartition("_")[2], 32) for run in second.value]
    assert fences == [6, 5, 4, 3, 2]


def test_each_kind_of_run_has_its_form(api: ApiProcess, api_dsn: str) -> None:
    registered = api.register()
    name = registered.value["job_id"]
    job_id = parse_job_id(name)
    rows_of(
        api_dsn,
        """INSERT INTO job_runs (recorded_at, firing_id, fence, job_id, scheduled_at, started_at,
            finished_at, worker_id, attempt, status, missed_count, trigger, catch_up, error, output)
        VALUES
        (clock_timestamp(), %(id)s, 3, %(id)s, '2026-06-08 13:00Z', '2026-06-08 13:00:00.25Z',
            '2026-06-08 13:00:01Z', 33, 2, 'dead', 0, 0, true, 'boom', NULL),
        (clock_timestamp(), %(other)s, 4, %(id)s, '2026-06-07 13:00Z', '2026-06-08 13:00Z',
            '2026-06-08 13:00:01Z', 1, 1, 'success', 0, 3, false, NULL, '"ok"'),
        (clock_timestamp(), %(id)s, 5, %(id)s, '2026-06-06 13:00Z', NULL, NULL, NULL, 0, 'missed',
            17, 0, false, NULL, NULL)""",
        id=job_id,
        other=job_id + 1_000_000,
    )
    pending, dead, success, missed = api.call("GET", registered.headers["location"] + "/runs").value
    assert pending == {
        "run_id": None, "job_id": name, "scheduled_at": registered.value["next_run_at"],
        "started_at": None, "finished_at": None, "status": "pending", "attempt": 1,
        "worker_id": None, "error": None, "output": None, "catch_up": False, "trigger": "schedule",
    }  # fmt: skip
    assert dead == {
        "run_id": format_run_id(job_id, 3), "job_id": name, "scheduled_at": "2026-06-08T13:00:00Z",
        "started_at": "2026-06-08T13:00:00.250000Z", "finished_at": "2026-06-08T13:00:01Z",
        "status": "dead", "attempt": 2, "worker_id": "h_11", "error": "boom", "output": None,
        "catch_up": True, "trigger": "schedule",
    }  # fmt: skip
    assert ("success", "redrive", '"ok"', format_run_id(job_id + 1_000_000, 4)) == (
        success["status"],
        success["trigger"],
        success["output"],
        success["run_id"],
    )
    assert (missed["status"], missed["missed_count"], missed["worker_id"]) == ("missed", 17, None)
    assert "missed_count" not in dead


def test_a_leased_run_that_has_not_started_still_waits_and_has_no_id(
    api: ApiProcess, api_dsn: str
) -> None:
    registered = api.register()
    rows_of(
        api_dsn,
        "UPDATE firings SET fence = 3, attempt = 1, locked_by = 1 WHERE firing_id = %(id)s",
        id=parse_job_id(registered.value["job_id"]),
    )
    (run,) = api.call("GET", registered.headers["location"] + "/runs").value
    assert (run["status"], run["run_id"], run["worker_id"]) == ("pending", None, None)


def test_history_outlives_its_job(api: ApiProcess, api_dsn: str) -> None:
    registered = api.register()
    location, job_id = registered.headers["location"], parse_job_id(registered.value["job_id"])
    rows_of(
        api_dsn,
        "INSERT INTO job_runs (recorded_at, firing_id, fence, job_id, scheduled_at, attempt,"
        " status, trigger, catch_up) VALUES (clock_timestamp(), %(id)s, 1, %(id)s, '2026-01-01', 1,"
        " 'success', 0, false)",
        id=job_id,
    )
    assert [r["status"] for r in api.call("GET", location + "/runs").value] == [
        "pending",
        "success",
    ]
    assert api.call("DELETE", location).status == 204
    runs = api.call("GET", location + "/runs")
    assert (runs.status, [run["status"] for run in runs.value]) == (200, ["success"])
    assert api.call("GET", location).status == 404


def cursor(*values: int) -> str:
    return base64.urlsafe_b64encode(struct.pack(">Bqiqq", *values)).decode().rstrip("=")


BIG = 2**63 - 1


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("limit=", "limit"),
        ("limit=1.0", "limit"),
        ("limit=%D9%A1", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=", "cursor"),
        ("cursor=abc", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=%F0%9F%9A%80", "cursor"),
        ("cursor=" + "A" * 5000, "cursor"),
        ("cursor=" + cursor(1, 0, 0, 0, 0)[:-1], "cursor"),
        ("cursor=" + cursor(9, 0, 0, 0, 0), "cursor"),
        ("cursor=" + cursor(1, -1, 0, 0, 0), "cursor"),
        ("cursor=" + cursor(1, BIG, 0, 0, 0), "cursor"),
        ("cursor=" + cursor(1, 0, -1, 0, 0), "cursor"),
        ("offset=3", "offset"),
        ("Limit=3", "Limit"),
    ],
)
def test_a_bad_query_is_400_and_named(
    api: ApiProcess, location: str, query: str, parameter: str
) -> None:
    answer = api.call("GET", f"{location}/runs?{query}")
    assert (400, parameter) == (answer.status, answer.value["parameter"])
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_cursor_beyond_everything_gives_an_empty_last_page(
    api: ApiProcess, location: str
) -> None:
    low = api.call("GET", f"{location}/runs?cursor={cursor(1, 0, 0, 0, 0)}")
    assert (low.status, low.value, low.headers.get("link")) == (200, [], None)
    high = api.call(
        "GET", f"{location}/runs?cursor={cursor(1, 253402300799999999, 2**31 - 1, BIG, BIG)}"
    )
    assert (high.status, len(high.value)) == (200, 20)
