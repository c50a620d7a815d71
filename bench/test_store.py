"""What the hot statements of a firing's life cost, beside one plain UPDATE of the same rows.

On one connection, one after the other, without the sockets and processes around them.  The server
is a throw-away one with fsync, full page writes and synchronous commit on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.rows import FLOOR, START_ROWS, Field, batches_of

ROUNDS = 3


def measure(
    benchmark: Any, field: Field, prepare: Callable[[], Any], act: Callable[[Any], Any]
) -> Any:
    """Measure `act` on what `prepare` returns, on firings that were just reset, for each round."""
    benchmark.group = f"store: {field.rows:,} firings"

    def setup() -> tuple[tuple[Any], dict[str, Any]]:
        field.reset()
        return (prepare(),), {}

    answer = benchmark.pedantic(act, setup=setup, rounds=ROUNDS)
    if benchmark.stats is not None:
        us_per_firing = benchmark.stats.stats.median / field.rows * 1e6
        benchmark.extra_info["us_per_firing"] = round(us_per_firing, 2)
    return answer


def test_floor_one_plain_update(benchmark: Any, field: Field) -> None:
    """The lease columns of all firings, by one statement that returns nothing."""

    def update(_: None) -> int:
        return field.session.execute(FLOOR).rowcount

    assert measure(benchmark, field, lambda: None, update) == field.rows


def test_claim_page(benchmark: Any, field: Field, page_rows: int) -> None:
    """Pages in order, with payload and definition, decoded into columns."""
    pages = measure(benchmark, field, lambda: None, lambda _: field.claim(page_rows))
    assert sum(map(len, pages)) == field.rows


def test_start(benchmark: Any, field: Field, page_rows: int) -> None:
    """The compare-and-set of a worker, in batches of 500."""
    starts = measure(
        benchmark, field, lambda: batches_of(field.claim(page_rows), START_ROWS), field.start
    )
    assert sum(len(each.firing_id) for each in starts) == field.rows


def test_complete(benchmark: Any, field: Field, page_rows: int) -> None:
    """Run row and next occurrence of each, in batches of 2,000."""

    def prepare() -> Any:
        return field.ends_of(field.start(batches_of(field.claim(page_rows), START_ROWS)))

    assert measure(benchmark, field, prepare, field.complete) == field.rows
    recorded = field.session.execute("SELECT count(*) FROM job_runs WHERE status = 'success'")
    assert recorded.fetchone() == (field.rows,)
