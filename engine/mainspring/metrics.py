"""What each process counts, and the loopback port where Prometheus reads it.

Every process has a registry of its own and a port of its own; nothing is shared between processes.
A hot loop adds to plain integers (`counts.claimed += n`), which costs nothing more, and a collector
reads them when somebody asks.  An attribute has one writing thread; a reader may see a batch half
counted, never a wrong total later.

Scheduler, each with label `shard`:

- `mainspring_claimed_total` firings leased,
  `mainspring_released_total` whose time came, free to be taken by any worker with credit,
  `mainspring_lost_total` runs ended because their worker was dead or late,
  `mainspring_retried_total` and `mainspring_dead_total` what became of these,
  `mainspring_missed_total` occurrences whose time passed unserved,
  `mainspring_missed_dropped_total` those of them that nothing will run,
  `mainspring_large_catch_ups_total` jobs that had a hundred or more to catch up,
  `mainspring_returned_total` firings given back by workers,
  `mainspring_unanswered_frames_total` frames claimed anew since nobody held or started them,
  `mainspring_zone_moved_total` and `mainspring_zone_parked_total` cursors that a new release of
  tzdata moved, or parked since it dropped their zone
- `mainspring_overdue_unleased` firings found overdue and unleased by two sweeps (an alarm),
  `mainspring_queue_depth` firings claimed and not finished, `mainspring_wheel_timers`
- `mainspring_lateness_seconds` (histogram) from `due_at` to release

Scheduler, with labels `queue` and `task`: `mainspring_waiting` released firings that wait for a
worker, above all those whose task no live worker knows.

Scheduler, without label: `mainspring_shards_led`, `mainspring_holders_alive`,
`mainspring_hints_lost_total` times the connection that hears hints broke.

Worker: `mainspring_started_total`, `mainspring_completed_total` (success),
`mainspring_retried_total`, `mainspring_dead_total`,
`mainspring_refused_starts_total` firings that the store did not give,
`mainspring_stale_completions_total` results of leases that were taken back,
`mainspring_hints_lost_total`, gauges `mainspring_running`, `mainspring_stuck` slots whose handler
cannot be stopped, `mainspring_in_hand` firings received and not finished, and
`mainspring_lateness_seconds` (histogram) from `due_at` to start.

API: `mainspring_requests_total` with labels `method` and `status`, `mainspring_registered_total`
jobs, `mainspring_request_seconds` (histogram).

Scheduler and worker: `mainspring_dropped_frames_total` with label `reason`, as in
`mainspring.queue`.
All: `process_*` (memory, processor time, descriptors) of the Prometheus client.

Source: Prometheus, "Metric and label naming", "Writing client libraries".
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from mainspring.errors import InvalidInput
from mainspring.loopback import require_loopback

BUCKETS_S: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""Upper bounds, inclusive: from below one tick of the wheel to the whole horizon."""

REQUEST_S_MAX: Final = 5.0
"""A scraper that is slower than this is cut off."""


class Histogram:
    """Counts of durations in `BUCKETS_S`, filled by whole arrays."""

    __slots__ = ("_counts", "_sum_us")

    _BOUNDS_US: ClassVar[NDArray[np.int64]] = np.array(
        [round(bound * 1e6) for bound in BUCKETS_S], dtype=np.int64
    )

    def __init__(self) -> None:
        self._counts = np.zeros(len(BUCKETS_S) + 1, dtype=np.int64)
        self._sum_us = 0

    def observe_us(self, durations_us: NDArray[np.int64]) -> None:
        """Count every duration of an int64 array, shape (n,), in any order.

        Negative ones (a clock's error) count as zero.  Costs no Python call per value.
        """
        clipped = np.maximum(durations_us, 0)
        buckets = np.searchsorted(self._BOUNDS_US, clipped, side="left")
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self._sum_us += int(clipped.sum())

    def observe_one_us(self, duration_us: int) -> None:
        """Count one duration."""
        self.observe_us(np.array([duration_us], dtype=np.int64))

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Return cumulative (upper bound, count) pairs, up to +Inf, and the sum in seconds."""
        counts = np.cumsum(self._counts).tolist()
        bounds = [*(str(bound) for bound in BUCKETS_S), "+Inf"]
        return list(zip(bounds, counts, strict=True)), self._sum_us / 1e6


def _counter(text: str) -> Any:
    return field(default=0, metadata={"kind": CounterMetricFamily, "text": text})


def _gauge(text: str) -> Any:
    return field(default=0, metadata={"kind": GaugeMetricFamily, "text": text})


def _histogram_metadata(text: str) -> dict[str, Any]:
    return {"kind": HistogramMetricFamily, "text": text}


@dataclass(slots=True)
class ShardCounts:
    """What one shard's leader counts."""

    claimed: int = _counter("firings leased")
    released: int = _counter("firings whose time came")
    returned: int = _counter("firings given back by workers")
    lost: int = _counter("runs ended because their worker was dead or late")
    retried: int = _counter("attempts that will be repeated")
    dead: int = _counter("dead letters written")
    missed: int = _counter("occurrences whose time passed unserved")
    missed_dropped: int = _counter("missed occurrences that nothing will run")
    zone_moved: int = _counter("cursors moved by new rules of their time zone")
    zone_parked: int = _counter("cursors parked since their time zone can no longer be read")
    large_catch_ups: int = _counter("jobs that had a hundred occurrences or more to catch up")
    unanswered_frames: int = _counter("frames claimed anew since nobody held or started them")
    overdue_unleased: int = _gauge("firings found overdue and unleased by two sweeps")
    queue_depth: int = _gauge("firings claimed and not finished")
    wheel_timers: int = _gauge("timers in the wheel")
    lateness_seconds: Histogram = field(
        default_factory=Histogram, metadata=_histogram_metadata("from due_at to release")
    )


@dataclass(slots=True)
class NodeCounts:
    """What a scheduler process counts over all its shards."""

    shards_led: int = _gauge("shards this process leads")
    holders_alive: int = _gauge("live holders as this process sees them")
    hints_lost: int = _counter("times the connection that hears hints broke")


@dataclass(slots=True)
class WorkerCounts:
    """What a worker process counts."""

    started: int = _counter("firings started")
    completed: int = _counter("runs that ended in success")
    retried: int = _counter("attempts that will be repeated")
    dead: int = _counter("dead letters written")
    refused_starts: int = _counter("firings that the store did not give")
    stale_completions: int = _counter("results of leases that were taken back")
    hints_lost: int = _counter("hints that could not be sent")
    running: int = _gauge("handlers running")
    stuck: int = _gauge("slots whose handler cannot be stopped")
    in_hand: int = _gauge("firings received and not finished")
    lateness_seconds: Histogram = field(
        default_factory=Histogram, metadata=_histogram_metadata("from due_at to start")
    )


@dataclass(slots=True)
class ApiCounts:
    """What an API process counts."""

    registered: int = _counter("jobs registered")
    request_seconds: Histogram = field(
        default_factory=Histogram, metadata=_histogram_metadata("time to answer a request")
    )


Counts = ShardCounts | NodeCounts | WorkerCounts | ApiCounts


class _Metrics:
    """Base of the three groups: a registry and what is read when it is scraped."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.registry = registry or CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Give the current figures; called by the registry."""
        raise NotImplementedError


class SchedulerMetrics(_Metrics):
    """What a scheduler process counts."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.node = NodeCounts()
        self.dropped_frames: Counter[str] = Counter()
        self.waiting: dict[tuple[str, str], int] = {}
        self._shards: dict[int, ShardCounts] = {}
        super().__init__(registry)

    def shard(self, shard: int) -> ShardCounts:
        """Return the counts of one shard; the same object each time."""
        return self._shards.setdefault(shard, ShardCounts())

    def collect(self) -> Iterator[Metric]:
        """Give the current figures; called by the registry."""
        shards = [((str(shard),), counts) for shard, counts in sorted(self._shards.items())]
        yield from _families(ShardCounts, ("shard",), shards)
        yield from _families(NodeCounts, (), [((), self.node)])
        waiting = GaugeMetricFamily(
            "mainspring_waiting",
            "released firings that wait for a worker",
            labels=("queue", "task"),
        )
        for names, count in sorted(self.waiting.items()):
            waiting.add_metric(names, count)
        yield waiting
        yield _dropped(self.dropped_frames)


class WorkerMetrics(_Metrics):
    """What a worker process counts."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.counts = WorkerCounts()
        self.dropped_frames: Counter[str] = Counter()
        super().__init__(registry)

    def collect(self) -> Iterator[Metric]:
        """Give the current figures; called by the registry."""
        yield from _families(WorkerCounts, (), [((), self.counts)])
        yield _dropped(self.dropped_frames)


class ApiMetrics(_Metrics):
    """What an API process counts; `requests` is keyed by (method, status)."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.counts = ApiCounts()
        self.requests: Counter[tuple[str, int]] = Counter()
        super().__init__(registry)

    def collect(self) -> Iterator[Metric]:
        """Give the current figures; called by the registry."""
        yield from _families(ApiCounts, (), [((), self.counts)])
        requests = CounterMetricFamily(
            "mainspring_requests", "requests answered", labels=("method", "status")
        )
        for (method, status), count in sorted(self.requests.copy().items()):
            requests.add_metric((method, str(status)), count)
        yield requests


def _families(
    kind: type[Counts], labels: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], Any]]
) -> Iterator[Metric]:
    for one in fields(kind):
        family = one.metadata["kind"](f"mainspring_{one.name}", one.metadata["text"], labels=labels)
        for values, counts in rows:
            value = getattr(counts, one.name)
            if isinstance(value, Histogram):
                buckets, total_s = value.read()
                family.add_metric(values, buckets=buckets, sum_value=total_s)
            else:
                family.add_metric(values, value)
        yield family


def _dropped(reasons: Counter[str]) -> Metric:
    family = CounterMetricFamily(
        "mainspring_dropped_frames", "what came over a socket and was dropped", labels=("reason",)
    )
    for reason, count in sorted(reasons.copy().items()):
        family.add_metric((reason,), count)
    return family


class _Server(ThreadingTCPServer):
    # Not http.server.HTTPServer: its bind asks the resolver for our own name, which can hang.
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about scrapers that hang up."""


def serve_metrics(
    registry: CollectorRegistry, host: str, port: int
) -> tuple[int, Callable[[], None]]:
    """Answer `GET /metrics` from a daemon thread.

    Parameters
    ----------
    host
        A loopback address; figures are not secret but there are no keys here either.
    port
        0 takes a free one.

    Returns
    -------
    port
        The one that is listened on.
    stop
        Closes it.  The thread is a daemon, so forgetting it holds up nothing.

    Raises
    ------
    InvalidInput
        The host is not loopback, or the port is taken.
    """
    require_loopback(host, "the metrics port")

    class Answering(BaseHTTPRequestHandler):
        timeout = REQUEST_S_MAX

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            body = encode(registry)
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Scrapes are no news."""

    try:
        server = _Server((host, port), Answering)
    except OSError as problem:
        raise InvalidInput(
            f"cannot listen on {host}:{port} for metrics: {problem.strerror}",
            hint="Choose another MAINSPRING_METRICS_PORT; 0 takes a free one.",
        ) from problem
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_address[1], stop
