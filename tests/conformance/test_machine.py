"""The memory store and the Postgres store give the same answers to any sequence of operations.

Two schedulers and two workers, two shards, one clock.  Rules draw what they name mostly from what
earlier answers said, so that they hit, and sometimes beside it, so that they miss.  The machine
keeps accounts of its own, of *what must have become of every occurrence*, which no store computes.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    run_state_machine_as_test,
)

from conformance.accounts import (
    LIMITS,
    MOSTLY,
    OFFSETS_US,
    PASSED_US,
    SHARD,
    SHARDS,
    Accounts,
    operation,
)
from conformance.conftest import empty, listening
from conformance.stage import (
    BEFORE_ALL,
    HOUR_US,
    START_US,
    HandClock,
    int64s,
    missed,
    new_job,
)
from conformance.twins import Twins
from mainspring.errors import Conflict, NotFound, TermLost
from mainspring.instants import INFINITY_US, US_PER_DAY, US_PER_S
from mainspring.model import JobChange, JobStatus
from mainspring.store.memory import MemoryStore
from mainspring.store.postgres import PostgresStore
from mainspring.store.protocol import MissedStep

EXTENSION_US = 60 * US_PER_S
EXAMPLES_USUAL = 60
EXAMPLES = int(os.environ.get("MAINSPRING_EXAMPLES", EXAMPLES_USUAL))
"""More, as in MAINSPRING_EXAMPLES=2000, are other ones each time; the usual ones are always the
same, so that they can be held to having reached what they should."""

STEPS = int(os.environ.get("MAINSPRING_STEPS", "30"))

REACHED = {
    "claim_page something",
    "claim_page TermLost",
    "claim_ids something",
    "start something",
    "start nothing",
    "sweep_ended something",
    "complete accepted",
    "complete stale",
    "complete replayed",
    "hand_back something",
    "record_missed something",
    "end_lost accepted",
    "delete_job True",
    "change_job True",
    "change_job False",
    "list_dead_letters something",
    "redrive True",
}
"""What must have been answered for a run to mean something."""

PAYLOADS = st.sampled_from(["null", "[1]"])


class StoreMachine(Accounts):
    """Performs random operations on both stores; see the module."""

    @initialize(data=st.data())
    def set_up(self, data: st.DataObject) -> None:
        self.ask("make_shards", SHARDS)
        self.ask("make_partitions", days_ahead=1)
        for kind, ids in (("scheduler", self.schedulers), ("worker", self.workers)):
            for number in range(2):
                ids.append(self.ask("register_holder", kind, f"tcp://{kind}{number}", "host:1"))
        for shard in range(SHARDS):
            self._take_term(shard, self.schedulers[0])
        self._serve(data)

    @operation(3)
    def serve(self, data: st.DataObject) -> None:
        self._serve(data)

    # ------------------------------------------------------------------------------- time

    @operation(4, passed_us=PASSED_US)
    def pass_time(self, data: st.DataObject, passed_us: int) -> None:
        self.clock.now_us += passed_us
        self.ask("make_partitions", days_ahead=1)
        assert self.ask("database_us") == self.clock.now_us

    @operation(
        2,
        needs=lambda self: self.running,
        beyond_us=st.sampled_from([0, 1, EXTENSION_US, EXTENSION_US + 1]),
        extension_us=st.sampled_from([EXTENSION_US, 0]),
    )
    def outlive_lease(self, data: st.DataObject, beyond_us: int, extension_us: int) -> None:
        firing_id = data.draw(st.sampled_from(sorted(self.running)))
        end_us = self.running[firing_id].locked_until_us + beyond_us
        self.clock.now_us = max(self.clock.now_us, end_us)
        self.ask("make_partitions", days_ahead=1)
        shard = self._shard_of(self.jobs_of[firing_id])
        self.ask("sweep_ended", shard, extension_us=extension_us, limit=100)

    @operation(1, days=st.integers(1, 3))
    def drop_old_partitions(self, data: st.DataObject, days: int) -> None:
        if self.ask("drop_partitions", history_days=days):
            self.is_history_whole = False

    # ------------------------------------------------------------------------------- jobs

    @operation(
        2,
        wanted=st.lists(st.tuples(OFFSETS_US, st.booleans()), min_size=1, max_size=4),
        timeout_s=st.sampled_from([1, 300]),
    )
    def add_jobs(self, data: st.DataObject, wanted: list[tuple[int, bool]], timeout_s: int) -> None:
        new = [
            new_job(self.clock.now_us + offset, is_once=is_once, timeout_seconds=timeout_s)
            for offset, is_once in wanted
        ]
        self._add(new)

    @operation(2, needs=lambda self: self.once)
    def delete_job(self, data: st.DataObject) -> None:
        job_id = self._draw_job(data)
        if self.running and data.draw(st.booleans()):
            job_id = self.jobs_of[data.draw(st.sampled_from(sorted(self.running)))]
        self.ask("delete_job", job_id)
        self.deleted.add(job_id)
        for firing_id in [each for each in self.open if self.jobs_of[each] == job_id]:
            if firing_id not in self.running:
                del self.open[firing_id]

    @operation(
        2,
        needs=lambda self: self.once,
        status=st.sampled_from([JobStatus.ACTIVE, JobStatus.PAUSED]),
        rev_error=st.sampled_from([0, 0, 0, -1]),
    )
    def change_job(self, data: st.DataObject, status: JobStatus, rev_error: int) -> None:
        job_id = self._draw_job(data)
        job = self.ask("get_jobs", [job_id]).get(job_id)
        if job is None:
            return
        times = [None, self.clock.now_us + data.draw(OFFSETS_US), INFINITY_US]
        scheduled_us, due_us = data.draw(st.sampled_from(times)), data.draw(st.sampled_from(times))
        if scheduled_us == INFINITY_US:
            due_us = INFINITY_US  # parked as a whole; a one-off's due time alone is held
        change = JobChange(
            job_id=job.job_id,
            rev=job.rev + rev_error,
            definition=msgspec.structs.replace(job.definition, payload=data.draw(PAYLOADS)),
            status=status,
            anchor_us=job.anchor_us,
            is_once=job.is_once,
            timed_us=self.clock.now_us,
            scheduled_us=scheduled_us,
            due_us=due_us,
        )
        before_us = self.open.get(job_id)
        is_free = before_us is not None and job_id not in self.running
        answer = self.ask("change_job", change)
        assert (answer is None) is (rev_error != 0 or job_id in self.deleted)
        if answer is not None and is_free and scheduled_us not in {None, before_us}:
            self.open[job_id] = scheduled_us
            self._count(job_id, 1 if before_us <= self.clock.now_us else 0)

    @operation(1, count=st.integers(0, 2), delta=st.sampled_from([-1, 0, 1]))
    def take_ids(self, data: st.DataObject, count: int, delta: int) -> None:
        taken = self.ask("take_ids", count)
        self.last_id = max([self.last_id, *taken])
        for each in taken:
            is_given = each + delta <= self.last_id
            assert self.ask("was_given_out", each + delta) is (is_given and each + delta > 0)

    @operation(1, limit=LIMITS)
    def read_jobs(self, data: st.DataObject, limit: int) -> None:
        named = [*self.once, 10**9]
        after_id = data.draw(st.sampled_from([0, *named]))
        self.ask("list_jobs", after_id=after_id, limit=limit)
        self.ask("get_jobs", named)

    # ----------------------------------------------------------------------- claim and sweep

    @operation(1, shard=SHARD, from_us=OFFSETS_US, until_us=OFFSETS_US, limit=LIMITS)
    def refill(
        self, data: st.DataObject, shard: int, from_us: int, until_us: int, limit: int
    ) -> None:
        now_us = self.clock.now_us
        self.ask("refill", shard, now_us + from_us, now_us + until_us, limit=limit)

    @operation(3, shard=SHARD, limit=LIMITS, ahead_us=OFFSETS_US)
    def claim_page(self, data: st.DataObject, shard: int, limit: int, ahead_us: int) -> None:
        term, leader, is_led = self._draw_term(data, shard)
        answer = self.ask(
            "claim_page",
            shard,
            term,
            leader,
            after=self._draw_cursor(data),
            until_us=self.clock.now_us + ahead_us,
            limit=limit,
        )
        self._keep_claimed(answer, is_led)

    @operation(4, needs=lambda self: self.jobs_of, ahead_us=OFFSETS_US)
    def claim_ids(self, data: st.DataObject, ahead_us: int) -> None:
        waiting = [each for each in self.open if each not in self.running]
        there = waiting if waiting and data.draw(MOSTLY) else sorted(self.jobs_of)
        ids = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=4, unique=True))
        shard = self._shard_of(self.jobs_of[ids[0]]) if data.draw(MOSTLY) else data.draw(SHARD)
        term, leader, is_led = self._draw_term(data, shard)
        fences = [data.draw(st.sampled_from([-1, self.fences.get(each, 0)])) for each in ids]
        answer = self.ask(
            "claim_ids",
            shard,
            term,
            leader,
            int64s(ids),
            int64s(fences),
            until_us=self.clock.now_us + ahead_us,
        )
        self._keep_claimed(answer, is_led)

    @operation(2, shard=SHARD, full=st.booleans(), limit=LIMITS)
    def sweep_unleased(self, data: st.DataObject, shard: int, full: bool, limit: int) -> None:
        cursor = data.draw(st.sampled_from([(INFINITY_US, 0), self._draw_cursor(data)]))
        leader = data.draw(st.sampled_from(self.schedulers))
        self.ask("sweep_unleased", shard, leader, cursor=cursor, full=full, limit=limit)

    @operation(
        3,
        needs=lambda self: self.leases,
        step=st.sampled_from([MissedStep.RUN, MissedStep.RUN, *MissedStep]),
        dropped_count=st.integers(0, 3),
    )
    def record_missed(self, data: st.DataObject, step: MissedStep, dropped_count: int) -> None:
        row = self._draw_lease(data)
        shard = self._shard_of(row.job_id)
        term, leader, is_led = self._draw_term(data, shard)
        fence = row.fence + data.draw(st.sampled_from([0, 0, 0, 0, 1]))
        if row.firing_id == row.job_id and not self.once[row.job_id]:
            step = min(step, MissedStep.WAIT)  # a cursor lives as long as its job
        scheduled_us = row.scheduled_us + 2 * US_PER_S
        record = missed(
            row._replace(fence=fence),
            scheduled_us,
            step=step,
            due_us=self.clock.now_us + data.draw(OFFSETS_US),
            is_catch_up=data.draw(st.booleans()),
            dropped_us=scheduled_us - 1,
            dropped_count=dropped_count,
        )
        answer = self.ask("record_missed", shard, term, leader, [record])
        assert (answer is TermLost) is not is_led
        for firing_id, new_fence in {} if answer is TermLost else answer.items():
            self._count(row.job_id, 1 if dropped_count else 0)
            if step is MissedStep.REMOVE:
                del self.open[firing_id]
                continue
            self.open[firing_id] = scheduled_us
            if step is MissedStep.RUN:
                self.leases.append(row._replace(fence=new_fence, scheduled_us=scheduled_us))

    @operation(3, needs=lambda self: self.leases)
    def hand_back(self, data: st.DataObject) -> None:
        rows = [self._draw_lease(data) for _ in range(data.draw(st.integers(1, 3)))]
        rows = list({row.firing_id: row for row in rows}.values())
        _, leader, _ = self._draw_term(data, self._shard_of(rows[0].job_id))
        self.ask(
            "hand_back",
            leader,
            int64s([row.firing_id for row in rows]),
            int64s([row.fence for row in rows]),
        )

    # -------------------------------------------------------------------------- start and end

    @operation(
        3, needs=lambda self: self.leases, timeout_s=st.sampled_from([1, 300]), newest=st.booleans()
    )
    def start(self, data: st.DataObject, timeout_s: int, newest: bool) -> None:
        rows = self.leases[-4:] if newest else [self._draw_lease(data)]
        rows = list({row.firing_id: row for row in rows}.values())
        error = data.draw(st.sampled_from([0, 0, 0, 0, 0, -1, 1]))
        worker = data.draw(st.sampled_from([*self.workers, 10**9]))
        self._start(worker, [row._replace(fence=row.fence + error) for row in rows], timeout_s)

    @operation(4, needs=lambda self: self.leases, count=st.integers(1, 4))
    def complete(self, data: st.DataObject, count: int) -> None:
        ends = self._draw_ends(data, count)
        self._keep_ended(ends, self.ask("complete", ends))

    @operation(4, needs=lambda self: self.running)
    def finish(self, data: st.DataObject) -> None:
        for firing_id in data.draw(st.permutations(sorted(self.running))):
            row = self.running[firing_id].row
            end = self._draw_end(data, row, is_right=True)
            self._keep_ended([end], self.ask("complete", [end]))
        self._serve(data)

    @operation(4, needs=lambda self: self.running)
    def complete_one(self, data: st.DataObject) -> None:
        firing_id = data.draw(st.sampled_from(sorted(self.running)))
        end = self._draw_end(data, self.running[firing_id].row)
        self._keep_ended([end], self.ask("complete", [end]))

    @operation(
        4,
        shard=SHARD,
        extension_us=st.sampled_from([0, EXTENSION_US]),
        limit=LIMITS,
    )
    def end_lost(self, data: st.DataObject, shard: int, extension_us: int, limit: int) -> None:
        if self.running and data.draw(st.booleans()):
            firing_id = data.draw(st.sampled_from(sorted(self.running)))
            shard = self._shard_of(self.jobs_of[firing_id])
            self.ask("leave", self.running[firing_id].worker)
        swept = self.ask("sweep_ended", shard, extension_us=extension_us, limit=limit)
        term, _, _ = self._draw_term(data, shard)
        ends = [self._draw_lost(data, run) for run in swept]
        answer = self.ask("end_lost", shard, term, ends)
        assert (answer is TermLost) is (shard not in self.terms or self.terms[shard][0] != term)
        if answer is not TermLost:
            self._keep_ended(ends, answer)
        self._serve(data)

    @operation(1)
    def read_started(self, data: st.DataObject) -> None:
        started = self.ask("read_started", [*self.jobs_of, 10**9])
        assert sorted(started) == sorted(self.running)
        assert {each: run.worker for each, run in self.running.items()} == {
            each: run.locked_by for each, run in started.items()
        }

    # ------------------------------------------------------------------------------ holders

    @operation(1, kind=st.sampled_from(["scheduler", "worker"]))
    def register_holder(self, data: st.DataObject, kind: str) -> None:
        ids = self.schedulers if kind == "scheduler" else self.workers
        ids.append(self.ask("register_holder", kind, f"tcp://{kind}", "host:2"))

    @operation(1)
    def beat(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from([*self.schedulers, *self.workers, 10**9]))
        self._beat(holder)

    @operation(2, is_clean=st.booleans(), error=st.sampled_from([0, 0, 0, -1]))
    def end_holder(self, data: st.DataObject, is_clean: bool, error: int) -> None:
        holder = data.draw(st.sampled_from([*self.workers, *self.schedulers[1:]]))
        if is_clean:
            self.ask("leave", holder)
        else:
            self.ask("declare_dead", holder, self.beats.get(holder, 0) + error)
        self._beat(holder)
        self.ask("read_holders")

    # ------------------------------------------------------------------------------- shards

    @operation(2, shard=st.integers(0, SHARDS))
    def take_term(self, data: st.DataObject, shard: int) -> None:
        self._take_term(shard, data.draw(st.sampled_from(self.schedulers)))

    @operation(2, needs=lambda self: self.terms, limit=LIMITS)
    def claim_after_takeover(self, data: st.DataObject, limit: int) -> None:
        shard = data.draw(st.sampled_from(sorted(self.terms)))
        term, leader = self.terms[shard]
        self._add([new_job(self.clock.now_us) for _ in range(3)])
        self._take_term(shard, data.draw(st.sampled_from(self.schedulers)))
        keywords = {"after": BEFORE_ALL, "until_us": self.clock.now_us, "limit": limit}
        assert self.ask("claim_page", shard, term, leader, **keywords) is TermLost
        ids = int64s(list(self.open)[-3:])
        fences = int64s([-1, -1, -1])
        keywords = {"until_us": self.clock.now_us}
        assert self.ask("claim_ids", shard, term, leader, ids, fences, **keywords) is TermLost

    @operation(2, shard=SHARD, ends=st.sampled_from([False, True]))
    def renew_or_end_term(self, data: st.DataObject, shard: int, ends: bool) -> None:
        term, leader, is_led = self._draw_term(data, shard)
        if not ends:
            assert self.ask("renew_terms", leader, {shard: term}) == ({shard} if is_led else set())
        elif self.ask("end_term", shard, term, leader):
            assert is_led
            del self.terms[shard]
        self.ask("read_shards")

    @operation(1, count=st.sampled_from([1, SHARDS, 3]))
    def make_shards(self, data: st.DataObject, count: int) -> None:
        answer = self.ask("make_shards", count)
        assert answer == (None if count == SHARDS else Conflict)
        assert self.ask("count_shards") == SHARDS

    # ------------------------------------------------------------------------------ history

    @operation(2, needs=lambda self: self.once, limit=LIMITS)
    def page_runs(self, data: st.DataObject, limit: int) -> None:
        job_id = self._draw_job(data)
        whole = self.ask("runs_of_job", job_id, limit=500)
        pages: list[Any] = []
        before = None
        while page := self.ask("runs_of_job", job_id, limit=limit, before=before):
            assert len(page) <= limit
            pages += page
            before = page[-1].scheduled_us, page[-1].attempt, page[-1].firing_id, page[-1].fence
        assert whole == pages

    @operation(1, limit=LIMITS)
    def page_letters(self, data: st.DataObject, limit: int) -> None:
        pages: list[tuple[int, int]] = []
        after = None
        while page := self.ask("list_dead_letters", limit=limit, after=after):
            pages += [(letter.firing_id, letter.fence) for letter in page]
            after = page[-1].died_us, page[-1].firing_id, page[-1].fence
        assert sorted(self.letters) == sorted(pages)

    @operation(3, needs=lambda self: self.letters, error=st.sampled_from([0] * 7 + [1]))
    def redrive(self, data: st.DataObject, error: int) -> None:
        letter = data.draw(st.sampled_from(self.letters))
        job_id = self.jobs_of[letter[0]]
        [shown] = [
            each
            for each in self.ask("list_dead_letters", limit=500)
            if (each.firing_id, each.fence) == letter
        ]
        answer = self.ask("redrive", letter[0], letter[1] + error)
        if error and (letter[0], letter[1] + error) not in self.letters:
            assert answer is NotFound
        elif job_id in self.deleted:
            assert answer is Conflict
        elif not error:
            assert (answer == letter[0]) is (letter[0] != job_id)
            self.letters.remove(letter)
            self.jobs_of[answer] = job_id
            self.last_id = max(self.last_id, answer)
            self.open[answer] = shown.scheduled_us
            if data.draw(st.booleans()):
                self._die(data, answer)
        self.twins.compare_hints()


@pytest.mark.slow
@pytest.mark.timeout(900 + 3 * EXAMPLES)  # a difference is worth minutes of shrinking
def test_both_stores_give_the_same_answers(conformance_dsn: str) -> None:
    """Any sequence of operations: equal answers, equal tables, and every occurrence accounted."""
    clock = HandClock()
    postgres = PostgresStore(conformance_dsn, application_name="conformance", database_now=clock)
    with (
        psycopg.connect(conformance_dsn, autocommit=True) as session,
        listening(conformance_dsn) as read_hints,
    ):
        seen: Counter[str] = Counter()

        def make_twins() -> Twins:
            clock.now_us = START_US + US_PER_DAY - 3 * HOUR_US
            empty(conformance_dsn)
            read_hints()  # of an example that broke off
            heard: list[tuple[int, int, int]] = []
            memory = MemoryStore(clock, hints=lambda *hint: heard.append(hint))
            return Twins(clock, memory, postgres, session, read_hints, heard, seen)

        class Machine(StoreMachine):
            pass

        Machine.make_twins = staticmethod(make_twins)
        try:
            run_state_machine_as_test(
                Machine,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    derandomize=EXAMPLES == EXAMPLES_USUAL,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            postgres.close()

    if EXAMPLES == EXAMPLES_USUAL:
        assert sorted(REACHED - set(seen)) == []
