"""Every hot statement is served by its index, whatever the statistics say.

Each is explained with its real parameters on 24,000 firings of three shards, in a transaction
that is rolled back.  Rows touched are bounded by a small multiple of the batch, so a plan that
walks the table fails although it names an index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring.instants import MINUS_INFINITY_US
from mainspring.store.postgres.arrays import (
    Bigints,
    Booleans,
    Instant,
    Instants,
    Integers,
    Texts,
)
from mainspring.store.postgres.connection import Session, connect
from mainspring.store.statements import statement
from postgres.field import START_US, Field

SHARDS = 3
FIRINGS = 24_000
DUE = 1_500  # of each shard, the rest is due in the coming weeks
BATCH = 500
TABLES = re.compile(r"firings|job_runs.*|jobs")

SEED = """
INSERT INTO jobs (
    job_id, anchor_at, created_at, updated_at, max_retries, retry_base_seconds,
    retry_cap_seconds, timeout_seconds, max_missed, misfire_grace_seconds, shard, is_once, name,
    task, queue, schedule, timezone, retry_backoff, missed_window, payload
)
SELECT n, %(now)s, %(now)s, %(now)s, 3, 5, 3600, 300, 100, 60, n %% 3, false, 'report', 'report',
    'default', '* * * * *', 'UTC', 'exponential', 'RUN_ONCE', '{}'
FROM generate_series(1, 24000) AS n;
"""
SEED_FIRINGS = """
INSERT INTO firings (firing_id, job_id, shard, due_at, scheduled_at)
SELECT n, n, n %% 3, due, due
FROM (
    SELECT n, %(now)s::timestamptz + CASE WHEN n <= 4500 THEN interval '0'
        ELSE make_interval(secs => 60 * (n - 4500)) END AS due
    FROM generate_series(1, 24000) AS n
) AS planned;
"""
SEED_RUNS = """
INSERT INTO job_runs (
    recorded_at, firing_id, fence, job_id, scheduled_at, finished_at, attempt, status, trigger,
    catch_up
)
SELECT %(now)s::timestamptz - make_interval(secs => 30 * run), 1 + run %% 200, run,
    1 + run %% 200, %(now)s::timestamptz - make_interval(secs => 30 * run), %(now)s, 1, 'success',
    0, false
FROM generate_series(0, 29999) AS run;
"""


@dataclass
class Bench:
    """The seeded database and the parameters of a batch."""

    session: Session
    ids: list[int]
    fences: list[int]
    leader: int
    worker: int

    def explain(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Run a statement and return its plan."""
        text = statement(name).decode()
        copied = re.fullmatch(r"COPY \((.*)\) TO STDOUT \(FORMAT binary\)", text, re.DOTALL)
        query = "EXPLAIN (ANALYZE, FORMAT JSON) " + (copied[1] if copied else text)
        values = {"now": Instant(START_US), **parameters}
        if copied:
            cursor: psycopg.Cursor[Any] = psycopg.ClientCursor(self.session)
        else:
            cursor = self.session.cursor()
        with cursor:
            ((answer,),) = cursor.execute(query.encode(), values).fetchall()
        plan: dict[str, Any] = answer[0]["Plan"]
        return plan


@pytest.fixture
def bench(make_field: Callable[[int], Field]) -> Iterator[Bench]:
    field = make_field(SHARDS)
    with connect(field.dsn, "mainspring test") as session:
        for seed in (SEED, SEED_FIRINGS, SEED_RUNS):
            session.execute(seed, {"now": Instant(START_US)})
        session.execute("ANALYZE")
        ids = [
            firing_id
            for (firing_id,) in session.execute(
                "SELECT firing_id FROM firings WHERE shard = 1 ORDER BY due_at, firing_id LIMIT %s",
                (BATCH,),
            )
        ]
        session.execute("BEGIN")
        yield Bench(session, sorted(ids), [0] * BATCH, field.leader, field.worker)
        session.execute("ROLLBACK")


def lease(bench: Bench) -> None:
    """Lease the batch, as a claim would."""
    bench.session.execute(
        "UPDATE firings SET fence = 1, attempt = 1, locked_by = %s WHERE firing_id = ANY (%s)",
        (bench.leader, Bigints(bench.ids)),
    )
    bench.fences = [1] * BATCH


def start(bench: Bench) -> None:
    """Start the batch, as its worker would."""
    lease(bench)
    bench.session.execute(
        "UPDATE firings SET started_at = due_at, locked_until = due_at + interval '1 min',"
        " locked_by = %s WHERE firing_id = ANY (%s)",
        (bench.worker, Bigints(bench.ids)),
    )


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def check(plan: dict[str, Any], *, indexes: set[str], rows_max: int) -> None:
    """Assert that a plan reads its tables through `indexes` and touches at most `rows_max` rows."""
    shown = json.dumps(plan, indent=1)
    scans = [
        node
        for node in nodes(plan)
        if TABLES.fullmatch(node.get("Relation Name", "")) and "Scan" in node["Node Type"]
    ]
    assert scans, shown
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"], shown
    used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    assert indexes <= used, (indexes - used, shown)
    touched = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in scans
    )
    assert touched <= rows_max, (touched, shown)


def page(bench: Bench, **changes: Any) -> dict[str, Any]:
    return {
        "shard": 1,
        "term": 1,
        "holder": bench.leader,
        "after_due_at": Instant(MINUS_INFINITY_US),
        "after_id": 0,
        "until_at": Instant(START_US),
        "limit": BATCH,
        **changes,
    }


def by_ids(bench: Bench) -> dict[str, Any]:
    return {"ids": Bigints(bench.ids), "fences": Bigints(bench.fences)}


def ends(bench: Bench, action: int) -> dict[str, Any]:
    return {
        **by_ids(bench),
        "revs": Integers([1] * len(bench.ids)),
        "statuses": Integers([1] * len(bench.ids)),
        "actions": Integers([action] * len(bench.ids)),
        "next_at": Instants([START_US + 60_000_000] * len(bench.ids)),
        "delays_us": Bigints([1_000_000] * len(bench.ids)),
        "letters": Booleans([False] * len(bench.ids)),
        "errors": Texts([None] * len(bench.ids)),
        "outputs": Texts(["ok"] * len(bench.ids)),
    }


def test_refill_reads_the_window_from_the_due_index(bench: Bench) -> None:
    window = {
        "shard": 1,
        "from_at": Instant(MINUS_INFINITY_US),
        "until_at": Instant(START_US + 1),
        "limit": 1_000_000,
    }
    plan = bench.explain("refill", window)
    check(plan, indexes={"firings_due"}, rows_max=DUE)


def test_claim_page_walks_the_due_index_no_further_than_its_page(bench: Bench) -> None:
    plan = bench.explain("claim_page", page(bench))
    check(plan, indexes={"firings_due", "firings_pkey", "jobs_pkey"}, rows_max=4 * BATCH)


def test_claim_page_does_not_walk_again_what_lies_before_its_cursor(bench: Bench) -> None:
    lease(bench)
    beyond = page(bench, after_due_at=Instant(START_US), after_id=bench.ids[-1])
    plan = bench.explain("claim_page", beyond)
    check(plan, indexes={"firings_due", "firings_pkey", "jobs_pkey"}, rows_max=4 * BATCH)


def test_a_claim_without_its_term_touches_no_firing(bench: Bench) -> None:
    plan = bench.explain("claim_page", page(bench, term=7))
    check(plan, indexes={"firings_due"}, rows_max=0)


def test_claim_ids_finds_firings_by_primary_key(bench: Bench) -> None:
    plan = bench.explain("claim_ids", {**page(bench), **by_ids(bench)})
    check(plan, indexes={"firings_pkey", "jobs_pkey"}, rows_max=4 * BATCH)


def test_sweep_unleased_reads_what_lies_before_the_cursor(bench: Bench) -> None:
    lease(bench)
    parameters = page(bench, cursor_due_at=Instant(START_US), cursor_id=bench.ids[-1], full=False)
    check(bench.explain("sweep_unleased", parameters), indexes={"firings_due"}, rows_max=BATCH)


def test_sweep_ended_reads_what_is_due(bench: Bench) -> None:
    start(bench)
    parameters = {"shard": 1, "extension": timedelta(0), "limit": 1_000}
    check(bench.explain("sweep_ended", parameters), indexes={"firings_due"}, rows_max=DUE)


def test_start_finds_firings_by_primary_key(bench: Bench) -> None:
    lease(bench)
    parameters = {
        **by_ids(bench),
        "holder": bench.worker,
        "timeouts": Bigints([30] * BATCH),
        "slack_seconds": 30,
    }
    plan = bench.explain("start", parameters)
    check(plan, indexes={"firings_pkey"}, rows_max=3 * BATCH)


@pytest.mark.parametrize("action", [0, 1, 2, 3])
def test_complete_finds_firings_by_primary_key(bench: Bench, action: int) -> None:
    start(bench)
    plan = bench.explain("complete", ends(bench, action))
    check(plan, indexes={"firings_pkey"}, rows_max=3 * BATCH)
    assert max(node["Actual Rows"] for node in nodes(plan) if "CTE" in node["Node Type"]) == BATCH


def test_statistics_from_an_hour_when_nothing_was_started_do_not_turn_complete_round(
    bench: Bench,
) -> None:
    """Seen: `started_at IS NOT NULL` was estimated at no row, and the table became the outer side.

    The batch is a twelfth of the table, so one walk of it looks cheaper than the look-ups.
    """
    bench.ids = list(range(1, 2_001))
    bench.fences = [0] * len(bench.ids)
    bench.session.execute("UPDATE firings SET started_at = due_at, locked_by = 1")
    plan = bench.explain("complete", ends(bench, 0))
    check(plan, indexes={"firings_pkey"}, rows_max=3 * len(bench.ids))


def test_hand_back_finds_firings_by_primary_key(bench: Bench) -> None:
    lease(bench)
    plan = bench.explain("hand_back", {**by_ids(bench), "holder": bench.leader})
    check(plan, indexes={"firings_pkey"}, rows_max=3 * BATCH)


def test_record_missed_finds_firings_by_primary_key(bench: Bench) -> None:
    lease(bench)
    parameters = {
        **by_ids(bench),
        "holder": bench.leader,
        "steps": Integers([0, 1, 2, 0, 1] * (BATCH // 5)),
        "scheduled_at": Instants([START_US] * BATCH),
        "due_at": Instants([START_US] * BATCH),
        "catch_ups": Booleans([True] * BATCH),
        "dropped_at": Instants([START_US] * BATCH),
        "dropped_counts": Integers([1] * BATCH),
    }
    plan = bench.explain("record_missed", parameters)
    check(plan, indexes={"firings_pkey"}, rows_max=3 * BATCH)


def test_a_page_of_runs_costs_a_page_whatever_the_length_of_the_history(bench: Bench) -> None:
    parameters = {
        "job_id": 7,
        "limit": 20,
        "before_at": Instant(START_US),
        "before_attempt": 0,
        "before_firing": 0,
        "before_fence": 0,
    }
    plan = bench.explain("runs_of_job", parameters)
    used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    assert [name for name in used if name.endswith("job_id_scheduled_at_idx")], used
    check(plan, indexes={"firings_pkey"}, rows_max=50)


def test_the_newest_runs_of_all_jobs_come_from_the_summaries_of_pages(bench: Bench) -> None:
    bench.session.execute(
        "SELECT brin_summarize_new_values(i.oid) FROM pg_class AS i"
        " JOIN pg_am AS a ON a.oid = i.relam WHERE a.amname = 'brin' AND i.relkind = 'i'"
    )
    plan = bench.explain("recent_runs", {"window_seconds": 15, "limit": 20})
    used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    assert [name for name in used if name.endswith("recorded_at_idx")], json.dumps(plan, indent=1)


def test_a_read_of_jobs_is_served_by_the_primary_key(bench: Bench) -> None:
    check(
        bench.explain("get_jobs", {"job_ids": Bigints(bench.ids)}),
        indexes={"jobs_pkey", "firings_pkey"},
        rows_max=3 * BATCH,
    )
    check(
        bench.explain("list_jobs", {"after_id": 20_000, "limit": 100}),
        indexes={"jobs_pkey", "firings_pkey"},
        rows_max=300,
    )


def change(bench: Bench) -> dict[str, Any]:
    """Return the parameters of a change of job 7, which has an extra firing beside its cursor."""
    bench.session.execute(
        "INSERT INTO firings (firing_id, job_id, shard, due_at, scheduled_at, trigger)"
        " SELECT 100007, 7, shard, due_at, due_at, 1 FROM firings WHERE firing_id = 7"
    )
    return {
        "job_id": 7,
        "rev": 1,
        "shard": 1,
        "status": "active",
        "is_once": False,
        "anchor_at": Instant(START_US),
        "timed_at": Instant(START_US),
        "scheduled_at": Instant(START_US + 60_000_000),
        "due_at": Instant(START_US + 60_000_000),
        **dict.fromkeys(("name", "task", "queue", "template"), "report"),
        "schedule": "* * * * *",
        "timezone": "UTC",
        "payload": "{}",
        "backoff": "fixed",
        "missed_window": "SKIP",
        "dst_gap": "next_valid",
        "dst_overlap": "first",
        "max_retries": 3,
        **dict.fromkeys(("base_seconds", "cap_seconds", "timeout_seconds"), 5),
        **dict.fromkeys(("max_missed", "grace_seconds"), 100),
    }


def test_a_change_finds_its_job_by_primary_key(bench: Bench) -> None:
    plan = bench.explain("change_job", change(bench))
    check(plan, indexes={"jobs_pkey"}, rows_max=1)


@pytest.mark.parametrize("name", ["lock_firings_of_job", "change_firings"])
def test_a_change_finds_the_cursor_and_the_extra_firings_by_their_indexes(
    bench: Bench, name: str
) -> None:
    """One walk for both, then each row by its key; whatever the other firings are."""
    plan = bench.explain(name, change(bench))
    check(plan, indexes={"firings_pkey", "firings_extra"}, rows_max=4)
    assert plan["Actual Rows"] == 2


def test_claim_and_start_are_hot_updates(bench: Bench) -> None:
    """Neither writes an index: no lease column is indexed, and pages have room."""
    bench.session.execute("ROLLBACK")
    bench.session.execute("SELECT pg_stat_reset()")
    seen = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'firings'"
    before = bench.session.execute(seen).fetchall()
    assert before == [(0, 0)]
    bench.explain("claim_page", page(bench))
    bench.fences = [1] * BATCH
    parameters = {
        **by_ids(bench),
        "holder": bench.worker,
        "timeouts": Bigints([30] * BATCH),
        "slack_seconds": 30,
    }
    bench.explain("start", parameters)
    bench.session.execute("SELECT pg_stat_force_next_flush()")
    assert bench.session.execute(seen).fetchall() == [(2 * BATCH, 2 * BATCH)]
    bench.session.execute("BEGIN")
