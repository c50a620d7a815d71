"""The statements for new rules of time zones are served by their indexes, page by page.

A walk over a large shard is many pages, each of which must cost a page and no more.
"""

from __future__ import annotations

import pytest

from mainspring.instants import INFINITY_US, MINUS_INFINITY_US
from mainspring.store.postgres.arrays import (
    Bigints,
    Booleans,
    Instant,
    Instants,
)
from postgres.field import START_US
from postgres.test_plans import BATCH, Bench, bench, check, lease, nodes, start

__all__ = ["bench"]


def page(bench: Bench, due_us: int, firing_id: int = 0) -> dict[str, object]:
    return {
        "shard": 1,
        "holder": bench.leader,
        "after_due_at": Instant(due_us),
        "after_id": firing_id,
        "limit": BATCH,
    }


@pytest.mark.parametrize("due_us", [MINUS_INFINITY_US, START_US, START_US + 60_000_000])
def test_a_page_of_cursors_costs_a_page_wherever_it_begins(bench: Bench, due_us: int) -> None:
    """At the low end, within what is due, and in the weeks to come."""
    lease(bench)
    plan = bench.explain("zoned_cursors", page(bench, due_us, bench.ids[-1]))
    check(plan, indexes={"firings_due", "jobs_pkey"}, rows_max=2 * BATCH)
    assert plan["Actual Rows"] == BATCH


def test_what_is_parked_is_never_walked(bench: Bench) -> None:
    bench.session.execute("UPDATE firings SET due_at = 'infinity' WHERE shard = 1")
    plan = bench.explain("zoned_cursors", page(bench, MINUS_INFINITY_US))
    check(plan, indexes={"firings_due"}, rows_max=0)


@pytest.mark.parametrize("is_moved", [True, False])
@pytest.mark.parametrize("prepare", [lease, start])
def test_a_move_finds_cursors_by_primary_key(bench: Bench, is_moved: bool, prepare: object) -> None:
    assert callable(prepare)
    prepare(bench)
    parameters = {
        "shard": 1,
        "ids": Bigints(bench.ids),
        "fences": Bigints([1] * BATCH),
        "is_moved": Booleans([is_moved] * BATCH),
        "to_at": Instants([START_US + 1] * (BATCH - 1) + [INFINITY_US]),
    }
    plan = bench.explain("move_cursors", parameters)
    check(plan, indexes={"firings_pkey"}, rows_max=3 * BATCH)
    found = max(node["Actual Rows"] for node in nodes(plan) if "CTE" in node["Node Type"])
    assert found == BATCH
    assert plan["Actual Rows"] == (0 if is_moved and prepare is start else BATCH)
