"""Fences hold in every order of the steps that touch one firing, and through every lost answer.

The steps of several processes are interleaved in all orders on one real database, each by its own
store.  A step that waits for another's lock cannot occur here, since each is one call; waits are
covered below, with the lock held by hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import psycopg
import pytest

from mainspring.claim import ClaimBatch
from mainspring.errors import TermLost
from mainspring.instants import INFINITY_US
from mainspring.model import HolderId, JobId, JobStatus, RunStatus
from mainspring.store.postgres import PostgresStore
from mainspring.store.protocol import Acceptance, Action, RunEnd, Starts
from postgres.field import NEXT_US, Field, ends_of, new_job, start, wait_until_waiting


@dataclass
class Life:
    """What the processes around one firing know and have seen."""

    field: Field
    job_id: JobId
    second_leader: HolderId
    second_worker: HolderId
    watch: psycopg.Connection
    claimed: ClaimBatch | None = None
    reclaimed: ClaimBatch | None = None
    first_start: Starts | None = None
    second_start: Starts | None = None
    is_deleted: bool = False
    accepted: list[RunEnd] = field(default_factory=list)
    starts_after_delete: int = 0
    fences: list[int] = field(default_factory=list)

    @property
    def store(self) -> PostgresStore:
        return self.field.store

    def claim(self) -> None:
        """The first leader claims, if it still leads."""
        try:
            self.claimed = self.store.claim_page(
                0,
                self.field.terms[0],
                self.field.leader,
                after=(0, 0),
                until_us=self.field.now_us,
                limit=10,
            )
        except TermLost:
            self.claimed = None

    def retake(self) -> None:
        """A second leader takes the term and claims what is there."""
        term = self.store.take_term(0, self.second_leader)
        self.reclaimed = self.store.claim_page(
            0, term, self.second_leader, after=(0, 0), until_us=self.field.now_us, limit=10
        )

    def start_first(self) -> None:
        self.first_start = self._start(self.field.worker, self.claimed)

    def start_second(self) -> None:
        self.second_start = self._start(self.second_worker, self.reclaimed)

    def _start(self, worker: int, batch: ClaimBatch | None) -> Starts | None:
        if batch is None or not len(batch):
            return None
        starts = self.store.start(
            worker, batch.firing_id, batch.fence, np.array([30] * len(batch)), slack_s=30
        )
        if self.is_deleted:
            self.starts_after_delete += len(starts.firing_id)
        return starts

    def complete_first(self) -> None:
        self._complete(self.first_start)

    def complete_second(self) -> None:
        self._complete(self.second_start)

    def _complete(self, starts: Starts | None) -> None:
        """Complete by the definition known at the claim; on CHANGED by what it is now."""
        if starts is None or not len(starts.firing_id):
            return
        end = RunEnd(
            firing_id=int(starts.firing_id[0]),
            fence=int(starts.fence[0]),
            rev=1,
            job_id=self.job_id,
            scheduled_us=self.field.now_us,
            status=RunStatus.SUCCESS,
            action=Action.MOVE,
            next_us=self.field.now_us + NEXT_US,
        )
        (acceptance,) = self.store.complete([end]).acceptances
        if acceptance is Acceptance.CHANGED:
            assert self.is_deleted
            run = self.store.read_started([end.firing_id])[end.firing_id]
            end = RunEnd(
                firing_id=end.firing_id,
                fence=end.fence,
                rev=run.rev,
                job_id=self.job_id,
                scheduled_us=end.scheduled_us,
                status=end.status,
                action=Action.REMOVE,
            )
            (acceptance,) = self.store.complete([end]).acceptances
        if acceptance is Acceptance.ACCEPTED:
            self.accepted.append(end)
        (again,) = self.store.complete([end]).acceptances
        expected = Acceptance.REPLAYED if end in self.accepted else Acceptance.STALE
        assert again is expected

    def delete(self) -> None:
        self.is_deleted = self.store.delete_job(self.job_id)

    def see(self) -> None:
        """Look at the firing's fence after a step."""
        rows = self.watch.execute("SELECT fence FROM firings").fetchall()
        self.fences += [fence for (fence,) in rows]


STEPS: dict[str, tuple[str, ...]] = {
    # Steps of one process keep their order; those of different ones do not.
    "first": ("claim", "start_first", "complete_first"),
    "second": ("retake", "start_second", "complete_second"),
    "user": ("delete",),
}


def orders() -> Iterator[tuple[str, ...]]:
    """All interleavings of the three processes' steps."""
    owners = [owner for owner, steps in STEPS.items() for _ in steps]
    for owned in sorted(set(itertools.permutations(owners))):
        taken = {owner: iter(steps) for owner, steps in STEPS.items()}
        yield tuple(next(taken[owner]) for owner in owned)


@pytest.mark.slow
def test_no_order_of_claim_start_complete_delete_and_retake_breaks_a_fence(field: Field) -> None:
    """140 orders, one job each: fences grow, one completion counts, none starts after a delete."""
    second_leader = field.store.register_holder("scheduler", "", "test:3")
    second_worker = field.store.register_holder("worker", "", "test:4")
    seen = list(orders())
    assert len(seen) == 140
    outcomes = set()
    with psycopg.connect(field.dsn, autocommit=True) as watch:
        for order in seen:
            field.terms = [field.store.take_term(0, field.leader)]
            (job_id,) = field.store.add_jobs([new_job(field.now_us)])
            life = Life(field, job_id, second_leader, second_worker, watch)
            for step in order:
                getattr(life, step)()
                life.see()
            check(life, order)
            outcomes.add((len(life.accepted), life.is_deleted))
            watch.execute("DELETE FROM firings")
            watch.execute("DELETE FROM jobs")
    assert outcomes == {(0, True), (1, True)}  # no order is without its delete


def check(life: Life, order: tuple[str, ...]) -> None:
    assert life.fences == sorted(life.fences), order
    assert life.starts_after_delete == 0, order
    assert len(life.accepted) <= 1, order
    starts = [each for each in (life.first_start, life.second_start) if each is not None]
    started = [int(fence) for each in starts for fence in each.fence]
    assert len(started) == len(set(started)), order
    runs = life.store.runs_of_job(life.job_id, limit=10)
    finished = [run for run in runs if run.status is RunStatus.SUCCESS]
    assert [(run.firing_id, run.fence) for run in finished] == [
        (end.firing_id, end.fence) for end in life.accepted
    ], order
    firings = life.watch.execute("SELECT started_at IS NOT NULL FROM firings").fetchall()
    assert (False,) not in firings, order  # nothing of a deleted job waits for its time
    jobs = life.store.get_jobs([life.job_id])
    assert [job.status for job in jobs.values()] == [JobStatus.DELETED] * len(firings), order


def test_a_repeated_start_answers_the_same(field: Field, claimed: ClaimBatch) -> None:
    first, again = start(field, claimed), start(field, claimed)
    assert sorted(first.firing_id.tolist()) == sorted(claimed.firing_id.tolist())
    assert first.firing_id.tolist() == again.firing_id.tolist()
    assert first.fence.tolist() == again.fence.tolist()
    assert first.started_us.tolist() == again.started_us.tolist()


def test_a_repeated_completion_is_replayed_and_not_doubled(
    field: Field, claimed: ClaimBatch
) -> None:
    ends = ends_of(field, start(field, claimed))
    first = field.store.complete(ends)
    assert first.acceptances == [Acceptance.ACCEPTED] * 5
    assert first.due_us == [field.now_us + NEXT_US] * 5
    again = field.store.complete(ends)
    assert again.acceptances == [Acceptance.REPLAYED] * 5
    assert again.due_us == [INFINITY_US] * 5
    for end in ends:
        runs = field.store.runs_of_job(end.job_id, limit=10)
        assert [run.status for run in runs] == [RunStatus.PENDING, RunStatus.SUCCESS]


def test_a_second_copy_of_a_frame_cannot_start_the_next_occurrence(
    field: Field, claimed: ClaimBatch
) -> None:
    """The next occurrence is due at once, and nobody has claimed it yet."""
    ends = [replace(end, next_us=field.now_us) for end in ends_of(field, start(field, claimed))]
    assert field.store.complete(ends).acceptances == [Acceptance.ACCEPTED] * 5
    assert start(field, claimed).firing_id.tolist() == []


def test_an_end_that_comes_twice_in_one_batch_counts_once(
    field: Field, claimed: ClaimBatch
) -> None:
    ends = ends_of(field, start(field, claimed))
    answer = field.store.complete([ends[0], ends[1], ends[0]])
    assert answer.acceptances == [
        Acceptance.ACCEPTED,
        Acceptance.ACCEPTED,
        Acceptance.REPLAYED,
    ]


def test_a_result_of_a_run_declared_lost_is_stale_and_its_row_stays_lost(
    field: Field, claimed: ClaimBatch
) -> None:
    (end, *_) = ends_of(field, start(field, claimed))
    lost = RunEnd(
        firing_id=end.firing_id,
        fence=end.fence,
        rev=1,
        job_id=end.job_id,
        scheduled_us=end.scheduled_us,
        status=RunStatus.LOST,
        action=Action.RETRY,
    )
    answer = field.store.end_lost(0, field.terms[0], [lost])
    assert answer.acceptances == [Acceptance.ACCEPTED]
    assert field.store.complete([end]).acceptances == [Acceptance.STALE]
    again = field.store.end_lost(0, field.terms[0], [lost])
    assert again.acceptances == [Acceptance.REPLAYED]
    runs = field.store.runs_of_job(end.job_id, limit=5)
    assert [(run.status, run.attempt) for run in runs] == [
        (RunStatus.PENDING, 2),
        (RunStatus.LOST, 1),
    ]


def test_only_the_leader_of_the_standing_term_ends_lost_runs(
    field: Field, claimed: ClaimBatch
) -> None:
    (end, *_) = ends_of(field, start(field, claimed))
    field.store.take_term(0, field.store.register_holder("scheduler", "", "test:9"))
    with pytest.raises(TermLost):
        field.store.end_lost(0, field.terms[0], [end])
    assert field.store.read_started([end.firing_id]).keys() == {end.firing_id}


def test_a_bad_row_is_ended_without_its_text_and_spoils_no_other(
    field: Field, claimed: ClaimBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last defence failed here, so the server itself refuses the text."""
    monkeypatch.setattr("mainspring.store.postgres.ends._cleaned", lambda text: text)
    ends = ends_of(field, start(field, claimed))
    ends[2] = replace(ends[2], error="a\0b", output="c")
    assert field.store.complete(ends).acceptances == [Acceptance.ACCEPTED] * 5
    outputs = [
        (run.error, run.output)
        for end in ends
        for run in field.store.runs_of_job(end.job_id, limit=5)
        if run.status is RunStatus.SUCCESS
    ]
    unstorable = "(text could not be stored)"
    assert outputs == [
        (None, "ok"),
        (None, "ok"),
        (unstorable, unstorable),
        (None, "ok"),
        (None, "ok"),
    ]


def test_text_is_cleaned_and_cut_on_its_way_in(field: Field, claimed: ClaimBatch) -> None:
    (end, *_) = ends_of(field, start(field, claimed))
    shown = replace(end, error="a\0b\ud800", output="x" * 10_000)
    assert field.store.complete([shown]).acceptances == [Acceptance.ACCEPTED]
    run = field.store.runs_of_job(end.job_id, limit=2)[1]
    assert run.error == "a\ufffdb\ufffd"
    assert run.output is not None
    assert len(run.output) == 4096


def test_a_completion_that_waited_for_a_delete_finds_the_job_changed(
    field: Field, claimed: ClaimBatch
) -> None:
    """It locked nothing yet when the delete began, and decides on the row as it is after it."""
    (end, *_) = ends_of(field, start(field, claimed))
    with psycopg.connect(field.dsn) as user, ThreadPoolExecutor(1) as thread:
        user.execute("UPDATE firings SET rev = rev + 1 WHERE firing_id = %s", (end.firing_id,))
        completing = thread.submit(field.store.complete, [end])
        wait_until_waiting(field.dsn)
        user.commit()
        assert completing.result(timeout=10).acceptances == [Acceptance.CHANGED]


def test_a_completion_that_waited_for_a_harmless_write_is_not_left_out(
    field: Field, claimed: ClaimBatch
) -> None:
    """The row has another place on the page after the wait; a selection by place would miss it."""
    (end, *_) = ends_of(field, start(field, claimed))
    with psycopg.connect(field.dsn) as user, ThreadPoolExecutor(1) as thread:
        user.execute(
            "UPDATE firings SET locked_until = locked_until + interval '1 s' WHERE firing_id = %s",
            (end.firing_id,),
        )
        completing = thread.submit(field.store.complete, [end])
        wait_until_waiting(field.dsn)
        user.commit()
        assert completing.result(timeout=10).acceptances == [Acceptance.ACCEPTED]


def test_a_takeover_waits_for_a_claim_under_way(field: Field) -> None:
    """The claim holds the term's row FOR SHARE until it commits."""
    with psycopg.connect(field.dsn) as claiming, ThreadPoolExecutor(1) as thread:
        claiming.execute("SELECT FROM shards WHERE shard = 0 FOR SHARE")
        taking = thread.submit(field.store.take_term, 0, field.leader)
        wait_until_waiting(field.dsn)
        assert not taking.done()
        claiming.commit()
        assert taking.result(timeout=10) == field.terms[0] + 1


def test_claims_and_starts_skip_what_is_locked(field: Field, claimed: ClaimBatch) -> None:
    locked = int(claimed.firing_id[1])
    with psycopg.connect(field.dsn) as user:
        user.execute("SELECT FROM firings WHERE firing_id = %s FOR UPDATE", (locked,))
        started = set(start(field, claimed).firing_id.tolist())
        assert started == set(claimed.firing_id.tolist()) - {locked}
