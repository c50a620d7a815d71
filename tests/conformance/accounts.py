"""What the state machine knows of two stores, from their answers and from accounts of its own.

`Accounts` draws what a rule names, mostly from what earlier answers said, so that it hits, and
sometimes beside it, so that it misses.  It keeps an account of *what must have become of every
occurrence*, which no store computes, and compares it after each step.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from conformance.stage import BEFORE_ALL, HOUR_US, SLACK_S, ending, int64s, new_job
from conformance.twins import Twins
from mainspring.claim import ClaimRow
from mainspring.errors import NotFound, TermLost
from mainspring.instants import INFINITY_US, US_PER_S
from mainspring.model import NewJob, RunStatus
from mainspring.store.protocol import Acceptance, Action, RunEnd, StartedRun

SHARDS = 2

# Few and equal ones, so that due times collide and lie on both sides of now.
OFFSETS_US = st.sampled_from([0, 0, 0, -1, 1, -US_PER_S, US_PER_S, -HOUR_US, HOUR_US])
PASSED_US = st.sampled_from(
    [1, 1, US_PER_S, US_PER_S, 40 * US_PER_S, 400 * US_PER_S, HOUR_US, 7 * HOUR_US, 49 * HOUR_US]
)
SHARD = st.integers(0, SHARDS - 1)
LIMITS = st.sampled_from([1, 2, 3, 100])
MOSTLY = st.sampled_from([True] * 7 + [False])
ENDS = [
    RunStatus.FAILED,
    RunStatus.SUCCESS,
    RunStatus.LOST,
    RunStatus.DEAD,
    RunStatus.CANCELLED,
]
TEXTS = st.sampled_from([None, "", "boom", "a\0b\ud800", "é" * 2100])


Method = TypeVar("Method", bound=Callable[..., None])


@dataclasses.dataclass(frozen=True)
class Operation:
    """Something the machine can do: how often, when, and with what."""

    name: str
    weight: int
    needs: Callable[[Any], Any]
    strategies: dict[str, st.SearchStrategy[Any]]


OPERATIONS: list[Operation] = []


def operation(
    weight: int,
    needs: Callable[[Any], Any] = lambda self: True,
    **strategies: st.SearchStrategy[Any],
) -> Callable[[Method], Method]:
    """Make a method an operation of the machine; it is handed `data` and what the strategies draw.

    Hypothesis' own rules are switched off at random, each example with others, so that a life of
    five steps in the right order would hardly ever come about.
    """

    def register(method: Method) -> Method:
        OPERATIONS.append(Operation(method.__name__, weight, needs, strategies))
        return method

    return register


@dataclasses.dataclass(frozen=True)
class Running:
    """What the machine knows of a run it started."""

    row: ClaimRow
    worker: int
    locked_until_us: int


class Accounts(RuleBasedStateMachine):
    """State, drawing, bookkeeping and invariants; the rules are in its subclass."""

    make_twins: ClassVar[Callable[[], Twins]]

    def __init__(self) -> None:
        super().__init__()
        self.twins = type(self).make_twins()
        self.clock = self.twins.clock
        self.ask = self.twins.ask
        self.schedulers: list[int] = []
        self.workers: list[int] = []
        self.beats: dict[int, int] = {}
        self.terms: dict[int, tuple[int, int]] = {}  # by shard: term, leader
        self.last_id = 0
        self.once: dict[int, bool] = {}  # by job id
        self.deleted: set[int] = set()
        self.jobs_of: dict[int, int] = {}  # by firing id, of every firing that ever was
        self.fences: dict[int, int] = {}
        self.leases: list[ClaimRow] = []
        self.running: dict[int, Running] = {}
        self.ended: list[RunEnd] = []
        self.letters: list[tuple[int, int]] = []
        # The accounts: what is open, and how many runs each job must show.
        self.open: dict[int, int] = {}  # by firing id: scheduled_us, INFINITY_US if parked
        self.recorded: dict[int, int] = {}
        self.is_history_whole = True

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Perform one operation that is possible now."""
        possible = [each for each in OPERATIONS if each.needs(self)]
        names = [each.name for each in possible for _ in range(each.weight)]
        # Hypothesis favours what stands first and last: what stands there is mixed, the same way
        # each time, and the first is one that gets on.
        random.Random(len(names)).shuffle(names)
        first = "finish" if self.running else "serve"
        name = data.draw(st.sampled_from([first, *names]))
        [chosen] = [each for each in possible if each.name == name]
        drawn = {key: data.draw(strategy) for key, strategy in chosen.strategies.items()}
        getattr(self, name)(data, **drawn)

    # --------------------------------------------------------------------------- invariants

    @invariant()
    def tables_are_equal_and_the_accounts_hold(self) -> None:
        self._check_tables()

    def _check_tables(self) -> None:
        rows = self.twins.compare_firings()
        for row in rows:
            firing_id, fence, locked_by, started_us = row[0], row[5], row[12], row[14]
            assert fence >= self.fences.get(firing_id, 0), f"the fence of {firing_id} fell"
            self.fences[firing_id] = fence
            assert started_us is None or locked_by is not None
            assert (started_us is not None) is (firing_id in self.running)
        # Nothing is lost and nothing is invented: what is open is there, and nothing else is.
        assert self.open == {row[0]: row[4] for row in rows}

    def teardown(self) -> None:
        if not self.schedulers:
            return
        jobs = self.ask("get_jobs", list(self.once))
        for job_id in self.once:
            runs = self.ask("runs_of_job", job_id, limit=500)
            is_recorded = [run.status not in {RunStatus.PENDING, RunStatus.RUNNING} for run in runs]
            if self.is_history_whole:
                assert self.recorded.get(job_id, 0) == sum(is_recorded)
        for job_id, is_once in self.once.items():
            is_needed = job_id in {self.jobs_of[each] for each in self.open} or (
                job_id in {self.jobs_of[firing_id] for firing_id, _ in self.letters}
            )
            if job_id in self.deleted:
                assert (job_id in jobs) is (job_id in {self.jobs_of[each] for each in self.open})
            elif is_once:
                assert (job_id in jobs) is is_needed
        self.ask("list_jobs", limit=500)
        self.ask("recent_runs", limit=500)
        self.ask("read_holders")
        self.ask("read_shards")
        assert self.ask("default_partition_rows") == 0

    # ------------------------------------------------------------------------------ drawing

    def _draw_job(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(list(self.once)))

    def _draw_lease(self, data: st.DataObject) -> ClaimRow:
        standing = [row for row in self.leases if self.is_leased(row)]
        rows = standing if standing and data.draw(MOSTLY) else self.leases[-8:]
        return data.draw(st.sampled_from(rows))

    def is_leased(self, row: ClaimRow) -> bool:
        """Whether this lease stands, unstarted."""
        is_open = row.firing_id in self.open and row.firing_id not in self.running
        return is_open and self.fences.get(row.firing_id) == row.fence

    def _draw_cursor(self, data: st.DataObject) -> tuple[int, int]:
        if data.draw(MOSTLY):
            return BEFORE_ALL
        offset_us = data.draw(OFFSETS_US)
        ids = sorted({0, *self.jobs_of})
        return self.clock.now_us + offset_us, data.draw(st.sampled_from(ids))

    def _draw_term(self, data: st.DataObject, shard: int) -> tuple[int, int, bool]:
        """Draw (term, leader, whether they lead the shard)."""
        term, leader = self.terms.get(shard, (1, self.schedulers[0]))
        if not data.draw(MOSTLY):
            term += data.draw(st.sampled_from([-1, 1, 0]))
            leader = data.draw(st.sampled_from(self.schedulers))
        return term, leader, self.terms.get(shard) == (term, leader)

    def _draw_ends(self, data: st.DataObject, count: int) -> list[RunEnd]:
        """Draw ends of different firings: going on, stale, or replayed."""
        ends: dict[int, RunEnd] = {}
        for _ in range(count):
            sources = [
                name for name in ("running", "running", "ended", "leases") if getattr(self, name)
            ]
            source = data.draw(st.sampled_from(sources))
            if source == "running":
                firing_id = data.draw(st.sampled_from(sorted(self.running)))
                end = self._draw_end(data, self.running[firing_id].row)
            elif source == "ended":
                end = data.draw(st.sampled_from(self.ended[-8:]))
            else:
                end = self._draw_end(data, self._draw_lease(data))
            ends[end.firing_id] = end
        return list(ends.values())

    def _draw_end(self, data: st.DataObject, row: ClaimRow, *, is_right: bool = False) -> RunEnd:
        status = data.draw(st.sampled_from(ENDS))
        is_told = row.job_id in self.deleted and (is_right or data.draw(st.booleans()))
        error = 0 if is_right else data.draw(st.sampled_from([0] * 9 + [1, -1]))
        return ending(
            row,
            status,
            fence=row.fence + error,
            rev=row.rev + is_told,
            **self._draw_next(data, row.firing_id, row.job_id, row.scheduled_us, status),
        )

    def _draw_lost(self, data: st.DataObject, run: StartedRun) -> RunEnd:
        row = self.running[run.firing_id].row
        following = self._draw_next(
            data, run.firing_id, run.job_id, run.scheduled_us, RunStatus.LOST
        )
        return ending(
            row._replace(fence=run.fence, rev=run.rev, scheduled_us=run.scheduled_us),
            RunStatus.LOST,
            **following,
        )

    def _draw_next(
        self, data: st.DataObject, firing_id: int, job_id: int, scheduled_us: int, status: RunStatus
    ) -> dict[str, Any]:
        """Draw the next step that a leader or worker could take of such a firing."""
        is_schedule = firing_id == job_id and not self.once[job_id]
        if job_id in self.deleted:
            actions = [Action.REMOVE]
        elif status in {RunStatus.FAILED, RunStatus.LOST} and data.draw(MOSTLY):
            actions = [Action.RETRY]
        elif is_schedule:
            actions = [Action.MOVE, Action.MOVE, Action.PARK]
        else:
            actions = [Action.REMOVE]
        action = data.draw(st.sampled_from(actions))
        is_final = action is not Action.RETRY
        return {
            "action": action,
            "next_us": scheduled_us + data.draw(st.sampled_from([1, US_PER_S, HOUR_US])),
            "delay_us": data.draw(st.sampled_from([0, 1, US_PER_S])),
            "is_letter": is_final and status in {RunStatus.DEAD, RunStatus.LOST},
            "error": data.draw(TEXTS),
            "output": data.draw(TEXTS),
        }

    # ----------------------------------------------------------------------------- accounts

    def _serve(self, data: st.DataObject) -> None:
        """Let leaders and a worker do what they do when nothing goes wrong."""
        self._check_tables()
        now_us = self.clock.now_us
        self._add(
            new_job(now_us - data.draw(st.integers(0, 1)), is_once=is_once)
            for is_once in data.draw(st.lists(st.booleans(), min_size=1, max_size=3))
        )
        for shard in range(SHARDS):
            if shard not in self.terms:
                self._take_term(shard, self.schedulers[0])
            term, leader = self.terms[shard]
            keywords = {"after": BEFORE_ALL, "until_us": now_us, "limit": 100}
            self._keep_claimed(self.ask("claim_page", shard, term, leader, **keywords), True)
        newest = {row.firing_id: row for row in self.leases[-6:]}
        rows = list(newest.values())[: data.draw(st.sampled_from([9, 1, 0, 2]))]
        self._start(self._draw_worker(data), rows, data.draw(st.sampled_from([300, 1])))

    def _die(self, data: st.DataObject, firing_id: int) -> None:
        """Let a waiting extra firing run and die, so that it is redriven a second time."""
        self._check_tables()
        shard = self._shard_of(self.jobs_of[firing_id])
        if shard not in self.terms:
            self._take_term(shard, self.schedulers[0])
        keywords = {"until_us": self.clock.now_us}
        named = int64s([firing_id]), int64s([-1])
        answer = self.ask("claim_ids", shard, *self.terms[shard], *named, **keywords)
        self._keep_claimed(answer, True)
        self._start(self._draw_worker(data), answer, 300)
        if firing_id in self.running:
            row = self.running[firing_id].row
            end = ending(row, RunStatus.DEAD, Action.REMOVE, is_letter=True)
            self._keep_ended([end], self.ask("complete", [end]))

    def _draw_worker(self, data: st.DataObject) -> int:
        """Draw a worker that is alive, or one that never was."""
        alive = {each.holder_id for each in self.ask("read_holders").holders}
        return data.draw(st.sampled_from(sorted(alive & set(self.workers)) or [10**9]))

    def _add(self, jobs: Iterable[NewJob]) -> None:
        new = list(jobs)
        for job_id, job in zip(self.ask("add_jobs", new), new, strict=True):
            self.once[job_id] = job.is_once
            self.jobs_of[job_id] = job_id
            self.last_id = max(self.last_id, job_id)
            self.open[job_id] = job.first_us
        self.twins.compare_hints()

    def _start(self, worker: int, rows: list[ClaimRow], timeout_s: int) -> None:
        started = self.ask(
            "start",
            worker,
            int64s([row.firing_id for row in rows]),
            int64s([row.fence for row in rows]),
            int64s([timeout_s] * len(rows)),
            slack_s=SLACK_S,
        )
        by_id = {row.firing_id: row for row in rows}
        for firing_id, fence, started_us, locked_until_us in started:
            assert started_us <= self.clock.now_us
            row = by_id[firing_id]._replace(fence=fence)
            self.running[firing_id] = Running(row, worker, locked_until_us)

    def _beat(self, holder: int) -> None:
        if self.ask("beat", holder):
            self.beats[holder] = self.beats.get(holder, 0) + 1

    def _take_term(self, shard: int, holder: int) -> None:
        answer = self.ask("take_term", shard, holder)
        if shard >= SHARDS:
            assert answer is NotFound
            return
        assert shard not in self.terms or answer == self.terms[shard][0] + 1
        self.terms[shard] = (answer, holder)

    def _shard_of(self, job_id: int) -> int:
        jobs = self.ask("get_jobs", [job_id])
        return jobs[job_id].shard if jobs else 0

    def _keep_claimed(self, answer: Any, is_led: bool) -> None:
        assert (answer is TermLost) is not is_led
        if answer is not TermLost:
            for row in answer:
                assert row.firing_id not in self.running
                assert row.fence == self.fences.get(row.firing_id, 0) + 1
            self.leases += answer

    def _keep_ended(self, ends: list[RunEnd], answer: Any) -> None:
        for end, acceptance in zip(ends, answer.acceptances, strict=True):
            firing_id = end.firing_id
            run = self.running.get(firing_id)
            is_going_on = run is not None and run.row.fence == end.fence
            if acceptance is not Acceptance.ACCEPTED:
                assert is_going_on is (acceptance is Acceptance.CHANGED)
                continue
            assert is_going_on
            del self.running[firing_id]
            self.ended.append(end)
            self._count(end.job_id, 1)
            if end.is_letter:
                self.letters.append((firing_id, end.fence))
            if end.action is Action.REMOVE:
                del self.open[firing_id]
            elif end.action is Action.MOVE:
                self.open[firing_id] = end.next_us
            elif end.action is Action.PARK:
                self.open[firing_id] = INFINITY_US

    def _count(self, job_id: int, more: int) -> None:
        self.recorded[job_id] = self.recorded.get(job_id, 0) + more
