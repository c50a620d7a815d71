"""What goes wrong, drawn by seed: each seed has its own rates, and some of them are zero."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from mainspring.errors import StoreUnavailable
from mainspring.store.memory import MemoryStore


@dataclass(frozen=True)
class Rates:
    """Probabilities per call or delivery, and mean seconds between strikes of the nemesis."""

    call_not_applied: float = 0.0
    call_applied_unknown: float = 0.0
    call_slow: float = 0.0
    delivery_lost: float = 0.0
    answer_lost: float = 0.0
    send_refused: float = 0.0
    worker_crash_s: float = 0.0
    worker_pause_s: float = 0.0
    worker_drain_s: float = 0.0
    scheduler_crash_s: float = 0.0
    scheduler_pause_s: float = 0.0
    scheduler_stop_s: float = 0.0
    term_lost_s: float = 0.0
    outage_s: float = 0.0
    clock_step_s: float = 0.0
    redrive_s: float = 0.0
    restart_us: int = 4_000_000
    """A crashed process comes back within this time."""
    steps_s: tuple[int, ...] = (-3, -1, 1, 3)

    @staticmethod
    def draw(rng: random.Random) -> Rates:
        """Draw a swarm: each kind of fault is absent in half of all seeds."""

        def maybe(value: float) -> float:
            return value if rng.random() < 0.5 else 0.0

        return Rates(
            call_not_applied=maybe(rng.choice([0.002, 0.02, 0.1])),
            call_applied_unknown=maybe(rng.choice([0.002, 0.02, 0.1])),
            call_slow=maybe(rng.choice([0.02, 0.2])),
            delivery_lost=maybe(rng.choice([0.01, 0.1, 0.3])),
            answer_lost=maybe(rng.choice([0.01, 0.1, 0.3])),
            send_refused=maybe(rng.choice([0.01, 0.1])),
            worker_crash_s=maybe(rng.uniform(3, 15)),
            worker_pause_s=maybe(rng.uniform(3, 15)),
            worker_drain_s=maybe(rng.uniform(5, 15)),
            scheduler_crash_s=maybe(rng.uniform(4, 20)),
            scheduler_pause_s=maybe(rng.uniform(4, 20)),
            scheduler_stop_s=maybe(rng.uniform(5, 20)),
            term_lost_s=maybe(rng.uniform(3, 15)),
            outage_s=maybe(rng.uniform(8, 25)),
            clock_step_s=maybe(rng.uniform(8, 30)),
            redrive_s=maybe(rng.uniform(1, 5)),
            restart_us=rng.choice([500_000, 4_000_000, 12_000_000]),
            steps_s=rng.choice([(-3, -1, 1, 3), (-180, 180), (-3, 3, -180, 180)]),
        )


class FaultyStore:
    """A store as one actor sees it: calls fail before they are applied, or after."""

    def __init__(self, store: MemoryStore, rates: Rates, rng: random.Random) -> None:
        self._store = store
        self.rates = rates
        self._rng = rng
        self.is_down = False
        self.faults = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            if self.is_down or self._rng.random() < self.rates.call_not_applied:
                self.faults += 1
                raise StoreUnavailable(f"{name}: not applied")
            answer = method(*arguments, **keywords)
            if self._rng.random() < self.rates.call_applied_unknown:
                self.faults += 1
                raise StoreUnavailable(f"{name}: applied, and the answer lost")
            return answer

        return call
