"""The thread that looks at the zone data of each shard that is led: does, says and counts."""

from __future__ import annotations

import logging
import threading

import pytest

from mainspring.clock import sleep_s
from mainspring.core.preparation import Leadership
from mainspring.cron import tzdata_version
from mainspring.errors import NotFound, StoreUnavailable
from mainspring.instants import US_PER_DAY
from mainspring.metrics import SchedulerMetrics
from mainspring.model import Definition, NewJob
from mainspring.scheduler import rezoner as module
from mainspring.scheduler.rezoner import Rezoner
from mainspring.store.memory import MemoryStore

NOW_US = 1_780_963_200_000_000  # 2026-06-09T00:00:00Z


class Counting(MemoryStore):
    """A store that counts looks, and answers them while it is `up`."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW_US)
        self.make_shards(1)
        self.holder = self.register_holder("scheduler", "s", "s")
        self.looks = 0
        self.up = threading.Event()
        self.up.set()
        self.answered = threading.Event()

    def zone_versions(self, shard: int | None = None) -> dict[int, str]:
        self.looks += 1
        if not self.up.is_set():
            raise StoreUnavailable("the database cannot be reached")
        versions = super().zone_versions(shard)
        if shard is not None:
            self.answered.set()
        return versions

    def lead(self) -> Leadership:
        return Leadership(0, self.take_term(0, self.holder), self.holder)

    def add(self, timezone: str) -> None:
        """Register a daily job whose cursor waits a day beyond its zone's midnight."""
        definition = Definition(name="d", task="d", schedule="@daily", timezone=timezone)
        first_us = NOW_US + 2 * US_PER_DAY
        self.add_jobs(
            [NewJob(definition=definition, first_us=first_us, anchor_us=NOW_US, is_once=False)]
        )

    def record(self, who: Leadership, version: str) -> None:
        self.note_zone_version(0, who.term, from_version="", to_version=version, counts=[])


def look(store: Counting, who: Leadership) -> SchedulerMetrics:
    """Have one shard looked at, to the end."""
    metrics, bugs = SchedulerMetrics(), list[BaseException]()
    rezoner = Rezoner(store, metrics, on_bug=bugs.append)
    rezoner.start()
    rezoner.on_term(who)
    assert store.answered.wait(20)
    rezoner._begun.put(None)
    rezoner._thread.join(20)
    rezoner.stop()
    assert bugs == []
    return metrics


def exposed(metrics: SchedulerMetrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"shard": "0"})


def test_what_moved_is_counted_logged_and_noted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = Counting()
    for timezone in ("Asia/Tokyo", "Asia/Tokyo", "Asia/Kabul", "Mars/Olympus"):
        store.add(timezone)
    store.record(who := store.lead(), "2000a")
    metrics = look(store, who)

    assert exposed(metrics, "mainspring_zone_moved_total") == 3
    assert exposed(metrics, "mainspring_zone_parked_total") == 1
    assert store.zone_versions() == {0: tzdata_version()}
    said, warned = [record.getMessage() for record in caplog.records]
    assert said.startswith("new time zone data shard=0 from_version=2000a to_version=20")
    assert "moved=3 parked=1" in said
    assert "'Asia/Tokyo': 2, 'Asia/Kabul': 1" in said
    assert "parked_by_zone={'Mars/Olympus': 1} hint=Give them another timezone" in warned


def test_the_same_release_is_looked_at_once_a_term_and_nothing_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    store = Counting()
    store.add("Asia/Tokyo")
    store.record(who := store.lead(), tzdata_version())
    metrics = look(store, who)
    assert (store.looks, exposed(metrics, "mainspring_zone_moved_total")) == (1, 0)
    assert caplog.records == []


def test_an_older_package_is_warned_about_and_touches_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Counting()
    store.add("Asia/Tokyo")
    store.record(who := store.lead(), "2999a")
    look(store, who)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "older time zone data" in record.getMessage()
    assert "hint=Upgrade the tzdata package" in record.getMessage()
    assert store.zone_versions() == {0: tzdata_version()}
    assert [job.next_us for job in store.list_jobs()] == [NOW_US + 2 * US_PER_DAY]


def test_a_store_that_is_away_is_asked_again_while_the_term_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.001)
    store = Counting()
    store.up.clear()
    rezoner = Rezoner(store, SchedulerMetrics(), on_bug=pytest.fail)
    rezoner.start()
    rezoner.on_term(store.lead())
    while store.looks < 3:
        sleep_s(0.001)
    store.up.set()
    while not store.answered.is_set():
        sleep_s(0.001)
    rezoner.stop()
    assert store.zone_versions() == {0: tzdata_version()}


def test_it_ends_while_the_store_is_away_and_passes_over_a_lost_term(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Counting()
    lost = store.lead()
    store.take_term(0, store.holder)
    look(store, lost)
    assert store.zone_versions() == {0: ""}
    assert caplog.records == []  # whoever leads now looks as well

    store.up.clear()
    rezoner = Rezoner(store, SchedulerMetrics(), on_bug=pytest.fail)
    rezoner.start()
    rezoner.on_term(store.lead())
    while store.looks < 3:
        sleep_s(0.001)
    rezoner.stop()
    assert not rezoner._thread.is_alive()
    Rezoner(store, SchedulerMetrics(), on_bug=pytest.fail).stop()  # one that never began


def test_a_bug_is_told_and_a_refusal_only_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Counting()
    raised: list[Exception] = [NotFound("no such shard"), ZeroDivisionError()]
    monkeypatch.setattr(module, "rezone_shard", lambda *_: (_ for _ in ()).throw(raised.pop(0)))
    bugs: list[BaseException] = []
    rezoner = Rezoner(store, SchedulerMetrics(), on_bug=bugs.append)
    rezoner.start()
    rezoner.on_term(store.lead())
    rezoner.on_term(Leadership(0, 1, store.holder))
    rezoner._thread.join(20)
    rezoner.stop()
    assert [type(bug) for bug in bugs] == [ZeroDivisionError]
    assert "time zones not checked error=no such shard" in caplog.text
