"""Facts about refill, claims and sweeps, for every store."""

from __future__ import annotations

import pytest

from conformance.stage import BEFORE_ALL, HOUR_US, START_US, Stage, ending, new_job
from mainspring.errors import TermLost
from mainspring.instants import INFINITY_US, MINUS_INFINITY_US, US_PER_S
from mainspring.model import DstGap, DstOverlap, RunStatus
from mainspring.store.protocol import Action


def test_refill_reads_a_half_open_window_earliest_first(stage: Stage) -> None:
    """from_us is inside, until_us is not."""
    ids = stage.store.add_jobs([new_job(START_US + each) for each in (3, 0, 2, 1)])
    found, dues = stage.store.refill(0, START_US + 1, START_US + 3, limit=9)
    assert found.tolist() == [ids[3], ids[2]]
    assert dues.tolist() == [START_US + 1, START_US + 2]


def test_refill_stops_at_its_limit(stage: Stage) -> None:
    """The earliest come first, so a cut window can be read on."""
    ids = stage.store.add_jobs([new_job(START_US + each) for each in (3, 0, 2, 1)])
    found, _ = stage.store.refill(0, START_US, START_US + 9, limit=2)
    assert found.tolist() == [ids[1], ids[3]]


def test_refill_goes_by_id_within_one_due_time(stage: Stage) -> None:
    """Wherever their rows lie, so that a cut window is the same each time."""
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(4)])
    end = ending(stage.restart(ids[0]), action=Action.MOVE, next_us=START_US)
    stage.complete(end)
    found, _ = stage.store.refill(0, START_US, START_US + 1, limit=3)
    assert found.tolist() == ids[:3]


def test_refill_gives_leased_rows_too(stage: Stage) -> None:
    """It is a cache of when; the claim decides."""
    job_id = stage.add()
    stage.claim()
    found, _ = stage.store.refill(0, START_US, START_US + 1, limit=9)
    assert found.tolist() == [job_id]


def test_refill_reads_its_own_shard(stage: Stage) -> None:
    """Another shard's firings are another leader's."""
    stage.add()
    found, _ = stage.store.refill(1, 0, INFINITY_US, limit=9)
    assert found.tolist() == []


def test_a_claim_leases_and_raises_the_fence(stage: Stage) -> None:
    """Every column of the batch is what the job and its firing say."""
    job_id = stage.add(
        START_US,
        name="n",
        task="t",
        queue="q",
        schedule="@hourly",
        timezone="Europe/Rome",
        idempotency_key_template="{{date}}",
        payload='"ü"',
        timeout_seconds=21,
        misfire_grace_seconds=22,
        dst_gap=DstGap.SKIP,
        dst_overlap=DstOverlap.BOTH,
    )
    stage.clock.pass_s(2)
    [row] = stage.claim()
    assert row._asdict() == {
        "firing_id": job_id,
        "job_id": job_id,
        "due_us": START_US,
        "scheduled_us": START_US,
        "fence": 1,
        "rev": 1,
        "attempt": 1,
        "trigger": 0,
        "catch_up": False,
        "lost_count": 0,
        "first_claim": True,
        "claimed_us": START_US + 2 * US_PER_S,
        "anchor_us": START_US,
        "previous_us": MINUS_INFINITY_US,
        "timeout_s": 21,
        "grace_s": 22,
        "task": "t",
        "queue": "q",
        "schedule": "@hourly",
        "zone": "Europe/Rome",
        "dst_gap": "skip",
        "dst_overlap": "both",
        "template": "{{date}}",
        "name": "n",
        "payload": '"ü"'.encode(),
    }


def test_a_claim_takes_what_is_due_by_its_end(stage: Stage) -> None:
    """until_us is inside the page; it may lie ahead of the clock (arming)."""
    ids = stage.store.add_jobs([new_job(START_US + each) for each in (5, 6, 7)])
    rows = stage.claim(until_us=START_US + 6)
    assert [row.firing_id for row in rows] == [ids[0], ids[1]]


def test_pages_go_by_due_time_and_id(stage: Stage) -> None:
    """Rows that share one due time are paged by id, and nothing is walked twice."""
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(5)])
    ids += stage.store.add_jobs([new_job(START_US - 1)])
    pages = []
    after = BEFORE_ALL
    while page := stage.claim(after=after, limit=2):
        pages.append([row.firing_id for row in page])
        after = (page[-1].due_us, page[-1].firing_id)
    assert pages == [[ids[5], ids[0]], [ids[1], ids[2]], [ids[3], ids[4]]]


def test_a_claim_passes_over_its_own_leases_and_started_rows(stage: Stage) -> None:
    """A page from the start gives only what this holder does not hold."""
    started = stage.run().firing_id
    stage.add()
    stage.claim()
    new = stage.add()
    rows = stage.claim(limit=1)
    assert started != new
    assert [row.firing_id for row in rows] == [new]


def test_a_new_leader_claims_what_its_predecessor_leased(stage: Stage) -> None:
    """The term says that nobody else leads, so the old lease is ended by a higher fence."""
    stage.add()
    [old] = stage.claim()
    heir = stage.store.register_holder("scheduler", "", "host:3")
    term = stage.store.take_term(0, heir)
    [new] = stage.claim(term=term, holder=heir)
    assert (new.fence, new.attempt, new.first_claim) == (old.fence + 1, 1, False)
    assert stage.start([(old.firing_id, old.fence)]).firing_id.tolist() == []


@pytest.mark.parametrize(("term", "holder", "shard"), [(1, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 0, 1)])
def test_a_claim_needs_the_term(stage: Stage, term: int, holder: int, shard: int) -> None:
    """Another term, another holder or no such shard: TermLost, and nothing is leased."""
    job_id = stage.add()
    with pytest.raises(TermLost):
        stage.store.claim_page(
            shard,
            stage.term + term,
            stage.leader + holder,
            after=BEFORE_ALL,
            until_us=START_US,
            limit=9,
        )
    with pytest.raises(TermLost):
        stage.claim_ids(
            [(job_id, -1)], term=stage.term + term, holder=stage.leader + holder, shard=shard
        )
    assert [row.fence for row in stage.claim()] == [1]


def test_a_claim_without_the_term_is_told_so_when_nothing_is_due(stage: Stage) -> None:
    """An empty page and a lost term are told apart."""
    assert stage.claim() == []
    stage.store.end_term(0, stage.term, stage.leader)
    with pytest.raises(TermLost):
        stage.claim()
    with pytest.raises(TermLost):
        stage.claim_ids([])


def test_a_claim_of_no_rows_has_every_column(stage: Stage) -> None:
    """An empty batch is a batch."""
    batch = stage.store.claim_page(
        0, stage.term, stage.leader, after=BEFORE_ALL, until_us=START_US, limit=9
    )
    assert (len(batch), batch.firing_id.dtype, len(batch.payload)) == (0, "int64", 0)


def test_claim_ids_takes_named_rows_in_due_order(stage: Stage) -> None:
    """Doubles count once, unknown ids not at all."""
    ids = stage.store.add_jobs([new_job(START_US - each) for each in range(3)])
    rows = stage.claim_ids([(ids[0], -1), (ids[2], -1), (ids[0], -1), (10**9, -1)])
    assert [(row.firing_id, row.fence) for row in rows] == [(ids[2], 1), (ids[0], 1)]


def test_claim_ids_with_a_fence_takes_what_was_leased(stage: Stage) -> None:
    """A frame that nobody answered is claimed anew by its fence, once."""
    job_id = stage.add()
    [row] = stage.claim()
    [again] = stage.claim_ids([(job_id, row.fence)])
    assert (again.fence, again.first_claim) == (row.fence + 1, False)
    assert stage.claim_ids([(job_id, row.fence)]) == []


def test_claim_ids_without_a_fence_leaves_its_own_leases(stage: Stage) -> None:
    """-1 means: only if this holder has not leased it."""
    job_id = stage.add()
    stage.claim()
    assert stage.claim_ids([(job_id, -1)]) == []


def test_claim_ids_leaves_what_is_started_or_not_due_or_elsewhere(stage: Stage) -> None:
    """Named is not enough."""
    row = stage.run()
    later = stage.add(START_US + 1)
    assert stage.claim_ids([(row.firing_id, row.fence), (later, -1), (later, 0)]) == []
    assert [each.firing_id for each in stage.claim_ids([(later, 0)], until_us=START_US + 1)] == [
        later
    ]


def test_a_retry_is_not_a_first_claim(stage: Stage) -> None:
    """first_claim is true only for an occurrence that was never claimed before."""
    row = stage.run()
    stage.complete(ending(row, RunStatus.FAILED, Action.RETRY, delay_us=5))
    [again] = stage.claim(until_us=START_US + 5)
    assert (again.attempt, again.first_claim, again.scheduled_us, again.due_us) == (
        2,
        False,
        START_US,
        START_US + 5,
    )


def test_the_next_occurrence_is_a_first_claim(stage: Stage) -> None:
    """A moved cursor starts over at attempt 1."""
    row = stage.run()
    stage.complete(ending(row, action=Action.MOVE, next_us=START_US + HOUR_US))
    [again] = stage.claim(until_us=START_US + HOUR_US)
    assert (again.attempt, again.first_claim, again.scheduled_us) == (1, True, START_US + HOUR_US)


def test_a_cheap_sweep_finds_what_this_holder_does_not_hold(stage: Stage) -> None:
    """Rows at or before the cursor, in due order, that are unstarted and not leased by it."""
    ids = stage.store.add_jobs([new_job(START_US - each) for each in range(4)])
    [mine] = stage.claim_ids([(ids[1], -1)])
    found, fences, is_mine = stage.store.sweep_unleased(
        0, stage.leader, cursor=(START_US, ids[0]), full=False, limit=9
    )
    assert found.tolist() == [ids[3], ids[2], ids[0]]
    assert (fences.tolist(), is_mine.tolist()) == ([0, 0, 0], [0, 0, 0])
    assert mine.firing_id == ids[1]


def test_a_full_sweep_shows_its_own_leases_too(stage: Stage) -> None:
    """They are marked, with the fence to compare with the ledger."""
    ids = stage.store.add_jobs([new_job(START_US - each) for each in range(3)])
    stage.claim_ids([(ids[1], -1)])
    found, fences, is_mine = stage.store.sweep_unleased(
        0, stage.leader, cursor=(START_US, ids[0]), full=True, limit=9
    )
    assert found.tolist() == [ids[2], ids[1], ids[0]]
    assert (fences.tolist(), is_mine.tolist()) == ([0, 1, 0], [0, 1, 0])


def test_a_sweep_ends_at_its_cursor_and_its_limit(stage: Stage) -> None:
    """The cursor is (due, id), inclusive."""
    ids = stage.store.add_jobs([new_job(START_US) for _ in range(4)])
    found, _, _ = stage.store.sweep_unleased(
        0, stage.leader, cursor=(START_US, ids[2]), full=False, limit=9
    )
    assert found.tolist() == ids[:3]
    found, _, _ = stage.store.sweep_unleased(
        0, stage.leader, cursor=(START_US, ids[2]), full=True, limit=2
    )
    assert found.tolist() == ids[:2]


def test_a_sweep_leaves_started_rows_out(stage: Stage) -> None:
    """What runs is the business of sweep_ended."""
    row = stage.run()
    found, _, _ = stage.store.sweep_unleased(
        0, stage.leader, cursor=(START_US, row.firing_id), full=True, limit=9
    )
    assert found.tolist() == []
