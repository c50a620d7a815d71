"""Lost answers: a line that breaks anywhere costs a repeat, never a firing and never a double."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mainspring.claim import ClaimBatch
from mainspring.devpg import DevPostgres
from mainspring.errors import StoreUnavailable
from mainspring.model import RunStatus
from mainspring.store.postgres import PostgresStore
from mainspring.store.protocol import Acceptance
from postgres.field import Field, ends_of, new_job, start
from postgres.proxy import Proxy


@pytest.fixture
def far_store(field: Field, postgres_server: DevPostgres, proxy: Proxy) -> Iterator[PostgresStore]:
    """The same database through a line that can be cut."""
    name = str(conninfo_to_dict(field.dsn)["dbname"])
    dsn = make_conninfo(postgres_server.dsn_of(name, tcp=True), host="127.0.0.1", port=proxy.port)
    store = PostgresStore(dsn, application_name="far", database_now=lambda: field.now_us)
    assert store.count_shards() == 1  # connected, so that the cut meets the statement
    yield store
    store.close()


CUTS: list[tuple[Callable[[Proxy], None], bool]] = [
    (Proxy.cut_requests, False),
    (lambda proxy: proxy.cut_answers_after(0), True),
]


@pytest.mark.parametrize(("cut", "is_applied"), CUTS, ids=["before", "after"])
def test_a_start_whose_answer_was_lost_is_repeated_with_the_same_result(
    field: Field,
    claimed: ClaimBatch,
    far_store: PostgresStore,
    proxy: Proxy,
    cut: Callable[[Proxy], None],
    is_applied: bool,
) -> None:
    cut(proxy)
    with pytest.raises(StoreUnavailable):
        start(field, claimed, far_store)
    wait_until_settled(field.dsn)
    applied = field.store.read_started(claimed.firing_id.tolist())
    assert len(applied) == (5 if is_applied else 0)
    assert len(start(field, claimed, far_store).firing_id) == 5


@pytest.mark.slow
def test_a_completion_counts_once_wherever_the_line_breaks(
    field: Field, far_store: PostgresStore, proxy: Proxy
) -> None:
    """Cut every 16 bytes of the answers; that to COMMIT has 17, so it is met too."""
    seen = set()
    for byte_count in itertools.count(0, 16):
        (job_id,) = field.store.add_jobs([new_job(field.now_us)])
        batch = field.store.claim_page(
            0, field.terms[0], field.leader, after=(0, 0), until_us=field.now_us, limit=10
        )
        ends = ends_of(field, start(field, batch))
        far_store.count_shards()  # connected, so that the cut meets the completion
        proxy.cut_answers_after(byte_count)
        try:
            far_store.complete(ends)
        except StoreUnavailable:
            wait_until_settled(field.dsn)
        else:
            break
        (acceptance,) = far_store.complete(ends).acceptances
        seen.add(acceptance)
        runs = field.store.runs_of_job(job_id, limit=10)
        assert [run.status for run in runs] == [RunStatus.PENDING, RunStatus.SUCCESS]
    assert seen == {Acceptance.ACCEPTED, Acceptance.REPLAYED}


def wait_until_settled(dsn: str) -> None:
    """Wait until the server has ended the sessions of the cut line."""
    with psycopg.connect(dsn, autocommit=True) as other:
        for _ in range(10_000):
            if not other.execute(
                "SELECT FROM pg_stat_activity WHERE application_name = 'far'"
            ).fetchall():
                return
    raise AssertionError("sessions of the cut line are still there")


@pytest.mark.parametrize("byte_count", [0, 1, 19, 100, 400, 900])
def test_a_claim_cut_within_its_copy_leased_all_or_nothing_and_the_full_sweep_finds_it(
    field: Field, far_store: PostgresStore, proxy: Proxy, byte_count: int
) -> None:
    field.store.add_jobs([new_job(field.now_us) for _ in range(5)])
    proxy.cut_answers_after(byte_count)
    with pytest.raises(StoreUnavailable):
        far_store.claim_page(
            0, field.terms[0], field.leader, after=(0, 0), until_us=field.now_us, limit=10
        )
    wait_until_settled(field.dsn)
    firing_ids, fences, is_mine = field.store.sweep_unleased(
        0, field.leader, cursor=(field.now_us, 2**62), full=True, limit=100
    )
    assert len(firing_ids) == 5
    assert set(is_mine.tolist()) in ({0}, {1})
    again = field.store.claim_ids(
        0, field.terms[0], field.leader, firing_ids, fences, until_us=field.now_us
    )
    assert len(again) == 5
    # Leased once more than before the claim, or than by it.
    assert set(again.fence.tolist()) == {2 if is_mine[0] else 1}
