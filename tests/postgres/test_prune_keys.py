"""Idempotency keys go by age, a batch at a time, and never while they may be asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mainspring.instants import US_PER_DAY, US_PER_S
from mainspring.model import JobId, RunStatus
from mainspring.store.migrate import migrate, own_migrations
from mainspring.store.postgres.arrays import Instant
from mainspring.store.postgres.connection import Session, connect
from mainspring.store.protocol import Action, RunEnd
from mainspring.store.statements import statement
from postgres.field import START_US, Field, new_job, start

GONE = 10**9
"""Id of a job that is not there any more."""


@pytest.fixture
def session(field: Field) -> Iterator[Session]:
    """A session as the store's, which writes and reads instants in microseconds."""
    with connect(field.dsn, "mainspring test") as opened:
        yield opened


def write(session: Session, job_id: int, key: str, created_us: int) -> None:
    session.execute(
        "INSERT INTO idempotency_keys (job_id, key, created_at) VALUES (%s, %s, %s)",
        (job_id, key, Instant(created_us)),
    )


def kept(session: Session) -> list[str]:
    return [key for (key,) in session.execute("SELECT key FROM idempotency_keys ORDER BY key")]


def run(field: Field, *, is_once: bool = False) -> tuple[JobId, RunEnd]:
    """Start a firing that is due now; returns its job and a successful end."""
    (job_id,) = field.store.add_jobs([new_job(field.now_us, is_once=is_once)])
    batch = field.store.claim_page(
        0, field.terms[0], field.leader, after=(0, 0), until_us=field.now_us, limit=10
    )
    starts = start(field, batch)
    end = RunEnd(
        firing_id=int(starts.firing_id[0]),
        fence=int(starts.fence[0]),
        rev=1,
        job_id=job_id,
        scheduled_us=field.now_us,
        status=RunStatus.SUCCESS,
        action=Action.REMOVE if is_once else Action.MOVE,
        next_us=field.now_us + 365 * US_PER_DAY,
    )
    return job_id, end


def test_keys_older_than_the_kept_days_go_and_the_others_stay(
    field: Field, session: Session
) -> None:
    """Whether their job still stands or not."""
    write(session, GONE, "old", START_US - 90 * US_PER_DAY - 1)
    write(session, GONE, "on the day", START_US - 90 * US_PER_DAY)
    write(session, GONE, "new", START_US)
    (job_id,) = field.store.add_jobs([new_job(START_US + 60 * US_PER_S)])
    write(session, job_id, "old of a living job", START_US - 91 * US_PER_DAY)

    assert 2 == field.store.prune_keys(history_days=90, limit=100)
    assert ["new", "on the day"] == kept(session)
    assert 0 == field.store.prune_keys(history_days=90, limit=100)


def test_the_oldest_go_first_and_no_more_than_a_batch(field: Field, session: Session) -> None:
    for age in range(1, 8):
        write(session, GONE, f"{9 - age}", START_US - (90 + age) * US_PER_DAY)
    assert 3 == field.store.prune_keys(history_days=90, limit=3)
    assert ["5", "6", "7", "8"] == kept(session)
    assert [3, 1, 0] == [field.store.prune_keys(history_days=90, limit=3) for _ in range(3)]


@pytest.mark.parametrize("is_once", [True, False])
def test_a_key_stays_while_its_firing_is_unfinished(
    field: Field, session: Session, is_once: bool
) -> None:
    """A firing that is retried for days still finds what its first attempt did."""
    job_id, end = run(field, is_once=is_once)
    write(session, job_id, "first attempt", field.now_us + US_PER_S)
    write(session, job_id, "occurrence before", field.now_us - US_PER_S)
    field.now_us += 5 * US_PER_DAY

    assert 1 == field.store.prune_keys(history_days=1, limit=100)
    assert ["first attempt"] == kept(session)
    field.store.complete([end])
    assert 1 == field.store.prune_keys(history_days=1, limit=100)


def test_a_key_stays_while_a_dead_letter_may_be_redriven(field: Field, session: Session) -> None:
    """And while the redriven firing, which has an id of its own, is not done."""
    job_id, end = run(field)
    write(session, job_id, "attempt", field.now_us + US_PER_S)
    field.now_us += 2 * US_PER_S
    field.store.complete([replace(end, status=RunStatus.DEAD, is_letter=True)])
    write(session, job_id, "occurrence after", field.now_us + US_PER_S)
    field.now_us += 5 * US_PER_DAY

    assert 1 == field.store.prune_keys(history_days=1, limit=100)
    assert ["attempt"] == kept(session)
    (shown,) = field.store.list_dead_letters(limit=9)
    redriven = field.store.redrive(shown.firing_id, shown.fence)
    assert redriven != job_id
    assert 0 == field.store.prune_keys(history_days=1, limit=100)
    session.execute("DELETE FROM firings WHERE firing_id = %s", (redriven,))
    assert 1 == field.store.prune_keys(history_days=1, limit=100)


def test_a_deleted_jobs_keys_stay_for_their_time(field: Field, session: Session) -> None:
    """An attempt that was given up may still be under way and must find them."""
    job_id, _ = run(field)
    write(session, job_id, "attempt", field.now_us)
    assert field.store.delete_job(job_id)
    session.execute("DELETE FROM firings")
    assert 0 == field.store.prune_keys(history_days=1, limit=100)
    field.now_us += US_PER_DAY + 1
    assert 1 == field.store.prune_keys(history_days=1, limit=100)


def test_several_schedulers_prune_without_waiting_for_each_other(
    field: Field, session: Session
) -> None:
    for number in range(6):
        write(session, GONE, str(number), START_US - 91 * US_PER_DAY + number)
    with session.transaction():
        values: dict[str, Any] = {"now": Instant(START_US), "history_days": 90, "limit": 4}
        assert [(4,)] == session.execute(statement("prune_keys"), values).fetchall()
        assert 2 == field.store.prune_keys(history_days=90, limit=4)
    assert [] == kept(session)


@pytest.mark.parametrize("due", [0, 5_000])
def test_pruning_reads_the_old_end_of_the_index_and_no_more(
    field: Field, session: Session, due: int
) -> None:
    """However many keys there are: rows read are those that go, found again by primary key."""
    session.execute(
        "INSERT INTO idempotency_keys (job_id, key, created_at)"
        " SELECT n %% 500, n::text, %s::timestamptz + make_interval(secs => n)"
        " FROM generate_series(1, 20000) AS n",
        (Instant(START_US),),
    )
    session.execute("ANALYZE idempotency_keys")
    values = {"now": Instant(START_US + US_PER_DAY + (due + 1) * US_PER_S), "history_days": 1}
    ((plan,),) = session.execute(
        b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement("prune_keys"), {**values, "limit": 5_000}
    ).fetchall()
    shown = json.dumps(plan, indent=1)
    assert '"Index Name": "idempotency_keys_created"' in shown
    assert "Seq Scan" not in shown, shown
    touched = sum(read_rows(plan[0]["Plan"]))
    assert touched <= 2 * due + 1, shown


def read_rows(plan: dict[str, Any]) -> Iterator[int]:
    """Yield rows read by each scan of the table of keys."""
    if plan.get("Relation Name") == "idempotency_keys" and "Scan" in plan["Node Type"]:
        yield (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    for child in plan.get("Plans", ()):
        yield from read_rows(child)


def test_a_database_of_0001_is_widened_with_the_keys_it_has(empty_dsn: str) -> None:
    """Migration 0002 keeps what is there: each is a run's only effect."""
    first, second = own_migrations()[:2]
    migrate(empty_dsn, [first])
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("INSERT INTO idempotency_keys (job_id, key) VALUES (1, 'a'), (1, 'b')")
    assert [second] == migrate(empty_dsn, [first, second])
    with psycopg.connect(empty_dsn) as connection:
        rows = connection.execute("SELECT job_id, key, effect FROM idempotency_keys ORDER BY key")
        assert [(1, "a", ""), (1, "b", "")] == rows.fetchall()
