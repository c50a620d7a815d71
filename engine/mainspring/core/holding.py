"""What a worker holds of each leader's frames, and what it tells them of it.

A leader hears whole state: which frames are in hand and how much of each is not finished.  A firing
is finished here when it is completed, refused or returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mainspring.frame import Frame
from mainspring.queue.answers import (
    IN_HAND_MAX,
    VERSION,
    Answer,
    Beacon,
    Envelope,
    Hints,
    Returned,
)

BEACON_GAP_MIN_US = 5_000
HINTS_MAX = 20_000
LOST_TOLD_TIMES = 10  # a beacon may be lost itself


@dataclass(slots=True, eq=False)
class Held:
    """A frame in hand.  `begun` firings of it were asked to be started, `remaining` are open."""

    leader: int
    seq: int
    frame: Frame
    remaining: int
    begun: int = 0


@dataclass(frozen=True, slots=True)
class AnswerTo:
    """What to tell a leader, and where it listens."""

    leader: int
    address: str
    answer: Answer


@dataclass(slots=True)
class _Leader:
    address: str
    received_seq: int = 0
    frames: dict[int, Held] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)  # seq -> beacons that will still tell it
    is_dirty: bool = True
    beacon_us: int | None = None
    returned: list[Returned] = field(default_factory=list)
    hints: list[tuple[int, int, int]] = field(default_factory=list)


class Holding:
    """The frames of all leaders in one worker's hands."""

    def __init__(
        self,
        worker_id: int,
        *,
        window_firings: int,
        beacon_us: int,
        queues: tuple[str, ...],
        tasks: tuple[str, ...],
        on_dropped: Callable[[str], None],
    ) -> None:
        self.worker_id = worker_id
        self.draining = False
        self._window_firings = window_firings
        self._beacon_us = beacon_us
        self._queues = queues
        self._tasks = tasks
        self._on_dropped = on_dropped
        self._leaders: dict[int, _Leader] = {}

    @property
    def firing_count(self) -> int:
        """How many firings are in hand and not finished."""
        return sum(
            held.remaining for leader in self._leaders.values() for held in leader.frames.values()
        )

    def holds(self, held: Held) -> bool:
        """Return whether a frame is still in hand on behalf of its leader."""
        leader = self._leaders.get(held.leader)
        return leader is not None and leader.frames.get(held.seq) is held

    def on_leaders(self, addresses: dict[int, str]) -> None:
        """Take which schedulers are alive: each of them gets beacons, the others are forgotten."""
        for leader_id in [known for known in self._leaders if known not in addresses]:
            del self._leaders[leader_id]
        for leader_id, address in addresses.items():
            self._leaders.setdefault(leader_id, _Leader(address))

    def on_delivery(self, envelope: Envelope, frame: Frame) -> Held | None:
        """Take a frame; None if it is not for this worker, or came before, or is too much."""
        if envelope.worker != self.worker_id or envelope.leader != frame.leader:
            self._on_dropped("stranger")
            return None
        leader = self._leaders.setdefault(envelope.leader, _Leader(envelope.answer_to))
        if envelope.seq <= leader.received_seq:
            self._on_dropped("repeated")
            return None
        missing = range(leader.received_seq + 1, envelope.seq)
        for seq in missing[: IN_HAND_MAX - len(leader.lost)]:
            self._on_dropped("lost")
            leader.lost[seq] = LOST_TOLD_TIMES
        leader.received_seq = envelope.seq
        leader.is_dirty = True
        held = Held(envelope.leader, envelope.seq, frame, remaining=len(frame))
        leader.frames[envelope.seq] = held
        if self.draining or len(leader.frames) > IN_HAND_MAX:
            self.give_back(held, range(len(frame)))
            return None
        return held

    def on_drain(self) -> None:
        """Tell everybody that this worker takes nothing more."""
        self.draining = True
        for leader in self._leaders.values():
            leader.is_dirty = True

    def on_new_identity(self, worker_id: int) -> None:
        """Forget what was held under the old id; every leader counts anew."""
        self.worker_id = worker_id
        self._leaders = {
            leader_id: _Leader(leader.address) for leader_id, leader in self._leaders.items()
        }

    def give_back(self, held: Held, indices: Sequence[int]) -> None:
        """Return firings that will not be started: refused, or drained."""
        if not len(indices) or not self.holds(held):
            return
        firing_ids = tuple(held.frame.firing_id[np.array(indices, np.int64)].tolist())
        self._leaders[held.leader].returned.append(
            Returned(VERSION, self.worker_id, held.leader, held.seq, firing_ids)
        )
        self.finish(held, len(indices))

    def finish(self, held: Held, count: int) -> None:
        """Take that some firings of a frame need nothing more."""
        held.remaining -= count
        assert held.remaining >= 0, "a firing finished twice"
        if not self.holds(held):
            return
        leader = self._leaders[held.leader]
        leader.is_dirty = True
        if held.remaining == 0:
            del leader.frames[held.seq]

    def hint(self, held: Held, firing_id: int, due_us: int) -> None:
        """Have the leader told that a firing is due again soon."""
        leader = self._leaders.get(held.leader)
        if leader is not None:
            leader.hints.append((held.frame.shard, firing_id, due_us))

    def next_answer_us(self, monotonic_us: int) -> int:
        """Return the monotonic instant at which the next beacon is due."""
        instants = [self._beacon_at_us(each, monotonic_us) for each in self._leaders.values()]
        return min(instants, default=monotonic_us + self._beacon_us)

    def answers(self, monotonic_us: int) -> list[AnswerTo]:
        """Return what is to be told now; what was returned goes before the beacon that omits it."""
        answers: list[AnswerTo] = []
        for leader_id, leader in self._leaders.items():
            told: list[Answer] = [*leader.returned, *self._hints(leader_id, leader)]
            leader.returned.clear()
            if monotonic_us >= self._beacon_at_us(leader, monotonic_us):
                leader.beacon_us, leader.is_dirty = monotonic_us, False
                told.append(self._beacon(leader_id, leader))
                leader.lost = {seq: left - 1 for seq, left in leader.lost.items() if left > 1}
            answers += [AnswerTo(leader_id, leader.address, answer) for answer in told]
        return answers

    def _hints(self, leader_id: int, leader: _Leader) -> Iterator[Hints]:
        told, leader.hints = leader.hints, []
        for first in range(0, len(told), HINTS_MAX):
            columns = zip(*told[first : first + HINTS_MAX], strict=True)
            yield Hints(VERSION, self.worker_id, leader_id, *columns)

    def _beacon_at_us(self, leader: _Leader, monotonic_us: int) -> int:
        if leader.beacon_us is None:
            return monotonic_us
        return leader.beacon_us + (BEACON_GAP_MIN_US if leader.is_dirty else self._beacon_us)

    def _beacon(self, leader_id: int, leader: _Leader) -> Beacon:
        return Beacon(
            version=VERSION,
            worker=self.worker_id,
            leader=leader_id,
            window=0 if self.draining else self._window_firings,
            received_seq=leader.received_seq,
            in_hand=tuple((seq, held.remaining) for seq, held in leader.frames.items()),
            lost=tuple(sorted(leader.lost)),
            queues=self._queues,
            tasks=self._tasks,
            draining=self.draining,
        )
