"""What an engine says of itself: its figures for Prometheus, and its health for the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry, Metric

from mainspring.metrics import SchedulerMetrics, WorkerMetrics

State = Literal["stopped", "starting", "running", "stopping", "failed"]
Reach = Literal["unknown", "reached", "lost"]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """An engine at one moment.

    `failure` says what ended it by itself.  `database` is `lost` while requests do not reach it;
    the engine waits then and goes on by itself.  It is asked every second, but by an engine with
    neither scheduler nor worker only when `jobs` are.  `shards_led` is 0 in a standby.  `waiting`
    counts released firings that no worker takes, `in_hand` those that this worker has and has not
    finished, `running` its handlers, and `stuck` those that could not be stopped.
    """

    state: State
    failure: str | None
    database: Reach
    shards_led: int
    waiting: int
    in_hand: int
    running: int
    stuck: int

    @property
    def is_well(self) -> bool:
        """Whether it runs, nothing has failed, and the database can be reached."""
        return self.state == "running" and self.database == "reached"


class EngineMetrics:
    """Figures of scheduler and worker as one collector; `registry.register` takes it.

    Names are those of the processes (`mainspring.metrics`); labels `engine` and `part` tell them
    apart.  Counters go on over a restart of the engine.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Registries of their own, so that no two of them meet, and the host's stays as it is.
        self.scheduler = SchedulerMetrics(CollectorRegistry())
        self.worker = WorkerMetrics(CollectorRegistry())

    def collect(self) -> Iterable[Metric]:
        """Give the current figures; called by a registry."""
        merged: dict[str, Metric] = {}
        for part, metrics in (("scheduler", self.scheduler), ("worker", self.worker)):
            for family in metrics.collect():
                into = merged.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                for sample in family.samples:
                    labels = {**sample.labels, "engine": self._name, "part": part}
                    into.samples.append(sample._replace(labels=labels))
        return merged.values()

    def health(self, state: State, failure: BaseException | None, database: Reach) -> Health:
        """Give the health that these figures show."""
        node, counts = self.scheduler.node, self.worker.counts
        is_over = state in {"stopped", "failed"}
        return Health(
            state=state,
            failure=None if failure is None else str(failure),
            database=database,
            shards_led=0 if is_over else node.shards_led,
            waiting=0 if is_over else sum(self.scheduler.waiting.values()),
            in_hand=0 if is_over else counts.in_hand,
            running=0 if is_over else counts.running,
            stuck=counts.stuck,
        )
