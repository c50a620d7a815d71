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
    delivery_lost: float = 0.0
    answer_lost: float = 0.0
    worker_crash_s: float = 0.0
    worker_pause_s: float = 0.0
    scheduler_crash_s: float = 0.0
    scheduler_pause_s: float = 0.0
    outage_s: float = 0.0
    clock_step_s: float = 0.0

    @staticmethod
    def draw(rng: random.Random) -> Rates:
        """Draw a swarm: each kind of fault is absent in half of all seeds."""

        def maybe(value: float) -> float:
            return value if rng.random() < 0.5 else 0.0

        return Rates(
            call_not_applied=maybe(rng.choice([0.002, 0.02, 0.1])),
            call_applied_unknown=maybe(rng.choice([0.002, 0.02, 0.1])),
            delivery_lost=maybe(rng.choice([0.01, 0.1, 0.3])),
            answer_lost=maybe(rng.choice([0.01, 0.1, 0.3])),
            worker_crash_s=maybe(rng.uniform(3, 15)),
            worker_pause_s=maybe(rng.uniform(3, 15)),
            scheduler_crash_s=maybe(rng.uniform(4, 20)),
            scheduler_pause_s=maybe(rng.uniform(4, 20)),
            outage_s=maybe(rng.uniform(8, 25)),
            clock_step_s=maybe(rng.uniform(10, 40)),
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
