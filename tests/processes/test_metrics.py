"""What a scrape of each process' port says."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mainspring.errors import InvalidInput
from mainspring.metrics import (
    BUCKETS_S,
    ApiMetrics,
    Histogram,
    SchedulerMetrics,
    WorkerMetrics,
    serve_metrics,
)


def scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return {
        sample.name + "".join(f" {k}={v}" for k, v in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def scheduler() -> Iterator[tuple[SchedulerMetrics, int]]:
    metrics = SchedulerMetrics()
    port, stop = serve_metrics(metrics.registry, "127.0.0.1", 0)
    yield metrics, port
    stop()


def test_a_scheduler_shows_what_each_shard_counted(
    scheduler: tuple[SchedulerMetrics, int],
) -> None:
    """Plain additions show at the next scrape, per shard, under the documented names."""
    metrics, port = scheduler
    metrics.shard(0).claimed += 5
    metrics.shard(3).claimed += 7
    metrics.shard(3).queue_depth = 2
    metrics.node.shards_led = 2
    metrics.dropped_frames["answer"] += 4
    metrics.shard(0).lateness_seconds.observe_us(np.array([1_500, 3_000_000], dtype=np.int64))

    seen = scrape(port)

    assert seen["mainspring_claimed_total shard=0"] == 5
    assert seen["mainspring_claimed_total shard=3"] == 7
    assert seen["mainspring_queue_depth shard=3"] == 2
    assert seen["mainspring_shards_led"] == 2
    assert seen["mainspring_dropped_frames_total reason=answer"] == 4
    assert seen["mainspring_lateness_seconds_bucket le=0.001 shard=0"] == 0
    assert seen["mainspring_lateness_seconds_bucket le=0.002 shard=0"] == 1
    assert seen["mainspring_lateness_seconds_bucket le=+Inf shard=0"] == 2
    assert seen["mainspring_lateness_seconds_sum shard=0"] == pytest.approx(3.0015)
    assert seen["process_resident_memory_bytes"] > 0

    metrics.shard(0).claimed += 1

    assert scrape(port)["mainspring_claimed_total shard=0"] == 6


def test_every_documented_name_is_there_and_no_other() -> None:
    """The module's docstring lists exactly the names that a scrape of the three kinds yields."""
    from mainspring import metrics  # noqa: PLC0415

    scheduler, worker, api = SchedulerMetrics(), WorkerMetrics(), ApiMetrics()
    scheduler.shard(0)
    families = [*scheduler.collect(), *worker.collect(), *api.collect()]
    names = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert metrics.__doc__ is not None
    words = metrics.__doc__.replace("`", " ").replace(",", " ").split()

    assert names == {word for word in words if word.startswith("mainspring_")}


def test_worker_and_api_show_theirs() -> None:
    """Each kind has its own registry; requests are labelled by method and status."""
    worker, api = WorkerMetrics(), ApiMetrics()
    worker.counts.started += 3
    worker.counts.stuck = 1
    api.requests["POST", 201] += 2
    api.counts.request_seconds.observe_one_us(4_000)
    worker_port, stop_worker = serve_metrics(worker.registry, "127.0.0.1", 0)
    api_port, stop_api = serve_metrics(api.registry, "localhost", 0)
    of_worker, of_api = scrape(worker_port), scrape(api_port)
    stop_worker()
    stop_api()

    assert (of_worker["mainspring_started_total"], of_worker["mainspring_stuck"]) == (3, 1)
    assert of_api["mainspring_requests_total method=POST status=201"] == 2
    assert of_api["mainspring_request_seconds_count"] == 1
    assert "mainspring_started_total" not in of_api


@given(st.lists(st.integers(-(10**6), 2**40), max_size=200))
def test_a_histogram_counts_like_the_obvious_loop(values: list[int]) -> None:
    """Each bucket holds the values at or below its bound, whatever came in one call or in many."""
    histogram = Histogram()
    histogram.observe_us(np.array(values[: len(values) // 2], dtype=np.int64))
    histogram.observe_us(np.array(values[len(values) // 2 :], dtype=np.int64))
    buckets, total_s = histogram.read()
    bounds = [*BUCKETS_S, float("inf")]
    expected = [sum(max(v, 0) <= bound * 1e6 for v in values) for bound in bounds]

    assert expected == [count for _, count in buckets]
    assert total_s == pytest.approx(sum(max(v, 0) for v in values) / 1e6)


@pytest.mark.parametrize("bound_s", BUCKETS_S)
def test_a_bound_belongs_to_its_bucket(bound_s: float) -> None:
    """A duration of exactly the bound counts there, one microsecond more does not."""
    histogram = Histogram()
    histogram.observe_one_us(round(bound_s * 1e6))
    histogram.observe_one_us(round(bound_s * 1e6) + 1)

    assert dict(histogram.read()[0])[str(bound_s)] == 1


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/etc/passwd"])
def test_other_paths_are_not_found(scheduler: tuple[SchedulerMetrics, int], path: str) -> None:
    """Only /metrics is there."""
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"http://127.0.0.1:{scheduler[1]}{path}", timeout=5)

    assert raised.value.code == 404
    raised.value.close()


def test_a_silent_connection_holds_up_nobody(scheduler: tuple[SchedulerMetrics, int]) -> None:
    """A scrape is answered while another connection says nothing and a third talks nonsense."""
    _, port = scheduler
    with (
        socket.create_connection(("127.0.0.1", port)),
        socket.create_connection(("127.0.0.1", port)) as rude,
    ):
        rude.sendall(b"\x00\xff" * 500 + b"\r\n")

        assert scrape(port)["mainspring_holders_alive"] == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.168.1.1", "::"])
def test_only_loopback_is_served(host: str) -> None:
    """Any other host is refused with a hint."""
    with pytest.raises(InvalidInput, match="metrics port"):
        serve_metrics(SchedulerMetrics().registry, host, 0)


def test_a_stopped_port_is_free_again(scheduler: tuple[SchedulerMetrics, int]) -> None:
    """After stop the same port can be bound by the next server at once."""
    port, stop = serve_metrics(SchedulerMetrics().registry, "127.0.0.1", 0)
    stop()
    again, stop_again = serve_metrics(SchedulerMetrics().registry, "127.0.0.1", port)
    stop_again()

    assert port == again
