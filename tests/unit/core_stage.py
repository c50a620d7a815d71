"""What the tests of the core share: a store with a clock by hand, frames, and instants."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from mainspring import frame
from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.core.carrying import carry_out
from mainspring.core.catch_up import CatchUps
from mainspring.core.completion import Chance
from mainspring.core.ending import Report, end_success
from mainspring.core.leader import LeaderLimits, LeaderTimes, ShardLeader
from mainspring.core.now import Now
from mainspring.core.preparation import Leadership, Recipe
from mainspring.core.requests import Answer, PreparedFrame, Request
from mainspring.cron import OccurrenceMemo
from mainspring.instants import MINUS_INFINITY_US, format_instant
from mainspring.model import Definition, NewJob
from mainspring.store.memory import MemoryStore
from mainspring.store.protocol import Acceptance

MS = 1_000
S = 1_000_000
EPOCH_US = 1_780_920_000 * S
TICK_US = 50 * MS


def row(firing_id: int, **changes: Any) -> ClaimRow:
    """Return one claimed firing, due and scheduled at EPOCH_US unless changed."""
    columns: dict[str, Any] = {
        "firing_id": firing_id,
        "job_id": firing_id,
        "due_us": EPOCH_US,
        "scheduled_us": EPOCH_US,
        "fence": 1,
        "rev": 1,
        "attempt": 1,
        "trigger": 0,
        "catch_up": False,
        "lost_count": 0,
        "first_claim": True,
        "claimed_us": EPOCH_US,
        "anchor_us": EPOCH_US,
        "previous_us": MINUS_INFINITY_US,
        "timeout_s": 3,
        "grace_s": 60,
        "task": "work",
        "queue": "default",
        "schedule": "@every 10s",
        "zone": "UTC",
        "dst_gap": "next_valid",
        "dst_overlap": "first",
        "template": None,
        "name": "j",
        "payload": b"{}",
    }
    return ClaimRow(**(columns | changes))


def decoded(
    firings: dict[int, int], *, leader: int = 1, frame_no: int = 1, catch_up: bool = False
) -> frame.Frame:
    """Return a frame as a worker receives it, of firing id -> fence."""
    batch = ClaimBatch.from_rows(
        [row(each, fence=fence, catch_up=catch_up) for each, fence in firings.items()]
    )
    count = len(batch)
    data = frame.encode(
        leader=leader,
        frame_no=frame_no,
        shard=0,
        term=1,
        queue="default",
        task="work",
        batch=batch,
        indices=np.arange(count, dtype=np.int64),
        next_us=np.full(count, EPOCH_US + 10 * S, np.int64),
    )
    return frame.decode(data)


def prepared(
    frame_no: int,
    firings: dict[int, int],
    *,
    due_us: int = EPOCH_US,
    shard: int = 0,
    queue: str = "default",
    task: str = "work",
) -> PreparedFrame:
    """Return a frame as a leader keeps it, of firing id -> fence."""
    return PreparedFrame(
        shard=shard,
        frame_no=frame_no,
        queue=queue,
        task=task,
        release_tick=-(-due_us // TICK_US),
        firing_ids=np.array(list(firings), np.int64),
        fences=np.array(list(firings.values()), np.int64),
        due_us=np.full(len(firings), due_us, np.int64),
        data=b"",
    )


class Stage:
    """A memory store, and shard 0 led by one holder, on clocks that are moved by hand."""

    def __init__(
        self,
        *,
        arm_ahead_us: int = 3 * S,
        page_rows: int = 100,
        queue_firings: int = 1_000,
        frame_firings: int = 10,
        catch_up_rate: float = 1_000.0,
    ) -> None:
        self.mono_us = 0
        self.offset_us = EPOCH_US
        self.store = MemoryStore(lambda: self.mono_us + self.offset_us)
        self.store.make_shards(1)
        self.store.make_partitions(days_ahead=2)
        self.scheduler = int(self.store.register_holder("scheduler", "s", "s"))
        self.worker = int(self.store.register_holder("worker", "w", "w"))
        self.times = LeaderTimes(
            tick_us=TICK_US,
            arm_ahead_us=arm_ahead_us,
            refill_us=10 * S,
            horizon_us=60 * S,
            sweep_us=1 * S,
        )
        self.limits = LeaderLimits(page_rows=page_rows, queue_firings=queue_firings)
        numbers = itertools.count(1)
        self.chance = Chance(OccurrenceMemo(), lambda: 0.5)
        self.recipe = Recipe(
            self.chance.memo, TICK_US, frame_firings, lambda: next(numbers), CatchUps(catch_up_rate)
        )

    @property
    def now(self) -> Now:
        """Both clocks, known exactly."""
        database_us = self.mono_us + self.offset_us
        return Now(self.mono_us, database_us, database_us)

    def begin_term(self) -> tuple[ShardLeader, Leadership]:
        """Take a new term of shard 0."""
        term = self.store.take_term(0, self.scheduler)
        leader = ShardLeader(0, self.times, self.limits, self.now)
        return leader, Leadership(0, term, self.scheduler)

    def carry(self, who: Leadership, request: Request) -> Answer:
        """Carry a request out."""
        return carry_out(self.store, who, request, self.recipe, self.chance)

    def settle(self, leader: ShardLeader, who: Leadership) -> list[PreparedFrame]:
        """Poll and answer until nothing is asked for; returns what was released."""
        released: list[PreparedFrame] = []
        for _ in range(1_000):
            request, frames = leader.poll(self.now, 0)
            released += frames
            if request is None:
                return released
            leader.on_answer(self.carry(who, request), self.now)
        raise AssertionError("the leader asks without end")

    def start(self, frames: list[PreparedFrame]) -> set[int]:
        """Start every firing of some frames; returns the ids of those that were."""
        started: set[int] = set()
        for each in frames:
            timeouts_s = np.full(len(each), 3, np.int64)
            starts = self.store.start(
                self.worker, each.firing_ids, each.fences, timeouts_s, slack_s=5
            )
            started |= set(starts.firing_id.tolist())
        return started

    def run_to_success(self, frames: list[PreparedFrame]) -> list[int]:
        """Start every firing, end it well, and move its cursor; returns their occurrences."""
        assert self.start(frames)
        ran: list[int] = []
        for each in frames:
            sent = frame.decode(each.data)
            ends = [
                end_success(
                    int(sent.firing_id[i]),
                    int(sent.fence[i]),
                    int(sent.rev[i]),
                    int(sent.job_id[i]),
                    int(sent.scheduled_us[i]),
                    int(sent.next_us[i]),
                    Report("success"),
                )
                for i in range(len(sent))
            ]
            answer = self.store.complete(ends)
            assert set(answer.acceptances) == {Acceptance.ACCEPTED}
            ran += sent.scheduled_us.tolist()
        return ran

    def add_once(self, *due_us: int, **changes: Any) -> list[int]:
        """Register one-offs."""
        new = [
            NewJob(
                definition=Definition(
                    name="j", task="work", schedule=format_instant(each), **changes
                ),
                first_us=each,
                anchor_us=each,
                is_once=True,
            )
            for each in due_us
        ]
        return [int(job_id) for job_id in self.store.add_jobs(new)]

    def add_every(self, period_us: int, **changes: Any) -> int:
        """Register a job whose first occurrence is one period from now."""
        now_us = self.store.database_us()
        schedule = f"@every {period_us // S}s"
        new = NewJob(
            definition=Definition(name="j", task="work", schedule=schedule, **changes),
            first_us=now_us + period_us,
            anchor_us=now_us,
            is_once=False,
        )
        return int(self.store.add_jobs([new])[0])
