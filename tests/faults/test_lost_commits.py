"""The answer to a COMMIT that never comes: for a claim, a start and a completion.

The server has committed, which each test sees in the tables before the connection breaks; the
client cannot know it.  Whatever it does next, there is no duplicate and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from faults.stage import Stage
from faults.wire_proxy import Cut, WireProxy
from mainspring.devpg import DevPostgres

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

CUTS = 3


@pytest.fixture
def proxy(postgres_server: DevPostgres) -> Iterator[WireProxy]:
    made = WireProxy("127.0.0.1", postgres_server.port)
    yield made
    made.close()


@pytest.fixture
def through(stage: Stage, proxy: WireProxy, postgres_server: DevPostgres) -> str:
    """The DSN of the stage's database by way of the proxy."""
    name = str(conninfo_to_dict(stage.dsn)["dbname"])
    return make_conninfo(
        postgres_server.dsn_of(name, tcp=True),
        port=proxy.port,
        sslmode="disable",
        gssencmode="disable",
    )


def claimed(stage: Stage, cut: Cut) -> bool:
    """Whether the leader has at least the leases that it does not know of."""
    ((count,),) = stage.ask(
        "SELECT count(*) FROM firings WHERE locked_by = %s AND started_at IS NULL",
        stage.said["scheduler"]["holder_id"],
    )
    return 0 < cut.row_count <= count


def started(stage: Stage, cut: Cut) -> bool:
    """Whether the worker has started at least what it does not know of."""
    ((count,),) = stage.ask(
        "SELECT count(*) FROM firings WHERE locked_by = %s AND started_at IS NOT NULL",
        stage.said["worker-1"]["holder_id"],
    )
    return 0 < cut.row_count <= count


def completed(stage: Stage, cut: Cut) -> bool:
    """Whether more of the worker's successes are recorded than it knows of."""
    known = stage.metric("worker-1", "mainspring_completed_total")
    ((count,),) = stage.ask(
        "SELECT count(*) FROM job_runs WHERE worker_id = %s AND status = 'success'",
        stage.said["worker-1"]["holder_id"],
    )
    return cut.tag == "COMMIT" and count > known


CASES: list[tuple[str, str, Callable[[Stage, Cut], bool]]] = [
    ("claim", "claim_page", claimed),
    ("start", "start", started),
    ("completion", "complete", completed),
]


@pytest.mark.parametrize(("title", "statement", "is_committed"), CASES, ids=[c[0] for c in CASES])
def test_lost_answer_to_a_commit(
    stage: Stage,
    proxy: WireProxy,
    through: str,
    title: str,
    statement: str,
    is_committed: Callable[[Stage, Cut], bool],
) -> None:
    far, near = (through, None) if title == "claim" else (None, through)
    crew = [stage.launch("scheduler", "scheduler", far)]
    crew += [stage.launch("worker", "worker-1", near), stage.launch("worker", "worker-2")]
    stage.await_ready(*crew)
    stage.begin()
    stage.wait_middle()
    for _ in range(CUTS):
        proxy.arm(statement)
        cut = proxy.wait_cut(20)
        with stage.strike():
            assert is_committed(stage, cut), f"not committed: {cut}"
            cut.release()

    verdict, _ = stage.finish(f"COMMIT of a {title} unanswered, {CUTS}x", late_s=5)

    assert (0, 0) == (verdict.lost, verdict.duplicates)
