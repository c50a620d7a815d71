"""Cases from reports about other schedulers, on a driven clock: one test for each report.

What needs real processes (outages, clocks that step, killed workers) is in tests/processes and
tests/faults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Context, Worker
from mainspring.errors import InvalidInput, InvalidSchedule, NotFound
from mainspring.testing import DrivenEngine

Handler = Callable[[Context, Any], Any]


def engine(now: str, handler: Handler | None = None) -> DrivenEngine:
    """Return an engine with the one task `work`."""
    worker = Worker()
    worker.task("work")(handler or (lambda ctx, payload: payload))
    return DrivenEngine(worker, now=now)


def scheduled(runs: list[Any]) -> list[str]:
    return [str(run.scheduled_at) for run in runs]


def test_a_resumed_job_runs_its_first_slot_after_the_resumption_once() -> None:
    """Paused at 10:00:30 and resumed at 10:10:20: nothing of the pause, and 10:11 once.

    Source: github.com/argoproj/argo-workflows/issues/4445, quartz-scheduler/quartz/issues/308.
    """
    with engine("2026-06-01T10:00:00Z") as driven:
        added = driven.jobs.add(name="work", schedule="* * * * *", missed_window="RUN_ALL")
        driven.advance_to("2026-06-01T10:00:30Z")
        driven.jobs.pause(added.job_id)
        assert driven.advance_to("2026-06-01T10:10:20Z") == []
        assert driven.jobs.resume(added.job_id).next_run_at == "2026-06-01T10:11:00Z"
        runs = driven.advance_to("2026-06-01T10:12:30Z")

        assert scheduled(runs) == ["2026-06-01T10:11:00Z", "2026-06-01T10:12:00Z"]
        assert not any(run.catch_up for run in runs)


@pytest.mark.parametrize(
    ("schedule", "next_run"),
    [("0 2 * * *", "2026-03-11T02:00:00Z"), ("30 15 * * *", "2026-03-10T15:30:00Z")],
)
def test_a_changed_schedule_does_not_run_for_a_time_that_was_before(
    schedule: str, next_run: str
) -> None:
    """A daily job of 01:00, moved in the afternoon.

    Source: github.com/HangfireIO/Hangfire/issues/728.
    """
    with engine("2026-03-10T00:00:00Z") as driven:
        added = driven.jobs.add(name="work", schedule="0 1 * * *")
        assert scheduled(driven.advance_to("2026-03-10T15:00:00Z")) == ["2026-03-10T01:00:00Z"]
        assert driven.jobs.update(added.job_id, schedule=schedule).next_run_at == next_run
        assert scheduled(driven.advance_to("2026-03-11T10:00:00Z"))[0] == next_run


def test_a_retry_keeps_the_occurrence_and_the_key() -> None:
    """Two failures and a success at one slot, and the next slot from the schedule.

    Source: github.com/bensheldon/good_job/issues/1788.
    """
    seen: list[tuple[int, str, str]] = []

    def handler(ctx: Context, _payload: Any) -> None:
        seen.append((ctx.attempt, f"{ctx.scheduled_at:%H:%M}", ctx.idempotency_key))
        if ctx.attempt < 3:
            raise ValueError("not yet")

    with engine("2026-06-01T09:59:00Z", handler) as driven:
        added = driven.jobs.add(
            name="work", schedule="0 10,11 * * *", max_retries=3, retry_base_seconds=2
        )
        runs = driven.advance_to("2026-06-01T10:30:00Z")

        key = f"{added.job_id}:1780308000"
        assert seen == [(attempt, "10:00", key) for attempt in (1, 2, 3)]
        assert [(run.attempt, run.status) for run in runs] == [
            (1, "failed"),
            (2, "failed"),
            (3, "success"),
        ]
        assert {run.scheduled_at for run in runs} == {"2026-06-01T10:00:00Z"}
        assert driven.jobs.get(added.job_id).next_run_at == "2026-06-01T11:00:00Z"


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_deleted_by_its_own_run_ends_as_it_ends_and_never_again(fails: bool) -> None:
    """Success stays success; a failure is not retried, and nothing is made again.

    Source: github.com/agenda/agenda/issues/1564.
    """
    ids: list[str] = []

    def handler(_ctx: Context, _payload: Any) -> None:
        assert driven.jobs.delete(ids[0])
        if fails:
            raise ValueError("after all")

    with engine("2026-06-01T10:00:00Z", handler) as driven:
        ids.append(driven.jobs.add(name="work", schedule="* * * * *", max_retries=5).job_id)
        runs = driven.advance(minutes=3)

        assert [run.status for run in runs] == ["dead" if fails else "success"]
        assert driven.dead_letters() == []
        assert driven.jobs.delete(ids[0]) is False
        with pytest.raises(NotFound):
            driven.jobs.get(ids[0])


def test_one_offs_past_far_and_impossible() -> None:
    """In the past at once or refused, never silent; far ahead exactly; no such day.

    Source: github.com/node-schedule/node-schedule/issues/488 (a past one never ran; one more than
    24.8 days ahead ran at once).
    """
    now = "2026-06-01T10:00:00Z"
    with engine(now) as driven:
        for policy in ("RUN_ONCE", "RUN_ALL"):
            driven.jobs.add(name="work", schedule="2026-06-01T09:59:58Z", missed_window=policy)
        with pytest.raises(InvalidSchedule) as refused:
            driven.jobs.add(name="work", schedule="2026-06-01T09:59:58Z", missed_window="SKIP")
        assert refused.value.hint
        far = driven.jobs.add(name="work", schedule="2026-07-31T10:00:00Z")
        end = driven.jobs.add(name="work", schedule="9999-12-31T23:59:59Z")
        local = driven.jobs.add(name="work", schedule="2026-06-02T09:00", timezone="Asia/Tokyo")
        with pytest.raises(InvalidSchedule):
            driven.jobs.add(name="work", schedule="2026-02-30T00:00:00Z")

        assert scheduled(driven.advance(minutes=5)) == ["2026-06-01T09:59:58Z"] * 2
        assert far.next_run_at == "2026-07-31T10:00:00Z"
        assert end.next_run_at == "9999-12-31T23:59:59Z"
        assert local.next_run_at == "2026-06-02T00:00:00Z"
        assert scheduled(driven.advance(days=90)) == [local.next_run_at, far.next_run_at]


@pytest.mark.parametrize(
    "name", ["n" * 78, "Bericht-日本-🚀", "e\N{COMBINING ACUTE ACCENT}", "n" * 200]
)
def test_a_name_is_kept_as_it_is_and_its_runs_work(name: str) -> None:
    """Source: github.com/citusdata/pg_cron/issues/301 (cut to 63 bytes without a word)."""
    with engine("2026-06-01T10:00:00Z") as driven:
        added = driven.jobs.add(name=name, task="work", schedule="@every 10s")
        assert driven.jobs.get(added.job_id).name == name
        assert [run.status for run in driven.advance(seconds=10)] == ["success"]


@pytest.mark.parametrize("name", ["", " \t ", "n" * 201, "n" * 100_000, "a\0b", "a\ud800b"])
def test_a_name_that_could_not_be_kept_is_refused_at_the_door(name: str) -> None:
    """Source: github.com/kubernetes/kubernetes/issues/50850 (taken, and could never run)."""
    with engine("2026-06-01T10:00:00Z") as driven:
        with pytest.raises(InvalidInput) as refused:
            driven.jobs.add(name=name, task="work", schedule="@daily")
        assert (refused.value.pointer, driven.jobs.list()) == ("/name", [])


def test_a_payload_with_nul_is_refused_and_an_error_with_one_is_cleaned() -> None:
    """Source: github.com/hatchet-dev/hatchet/pull/2023, kestra-io/kestra/issues/10326."""

    def handler(ctx: Context, _payload: Any) -> None:
        if ctx.attempt == 1:
            raise ValueError("broken \0 and \ud800")

    with engine("2026-06-01T10:00:00Z", handler) as driven:
        with pytest.raises(InvalidInput) as refused:
            driven.jobs.add(name="work", schedule="@daily", payload={"note": "a\0b"})
        assert refused.value.pointer == "/payload/note"
        driven.jobs.add(name="work", schedule="@every 10s", max_retries=2, retry_base_seconds=1)
        failed, success = driven.advance(seconds=15)
        assert (failed.status, success.status) == ("failed", "success")
        assert failed.error is not None
        assert "broken" in failed.error
        assert not {"\0", "\ud800"} & set(failed.error)


def test_a_run_that_outlasts_the_next_slot_delays_it_and_the_policy_decides() -> None:
    """Retries of 10:00 end at 10:07:30: with a grace of a minute, 10:01 to 10:06 were missed."""

    def handler(ctx: Context, _payload: Any) -> None:
        if f"{ctx.scheduled_at:%H:%M}" == "10:00" and ctx.attempt < 4:
            raise ValueError("not yet")

    with engine("2026-06-01T09:59:30Z", handler) as driven:
        added = driven.jobs.add(
            name="work", schedule="* * * * *", max_retries=4, retry_backoff="fixed",
            retry_base_seconds=150, missed_window="RUN_ONCE",
        )  # fmt: skip
        driven.advance_to("2026-06-01T10:08:30Z")
        rows = [
            (run.status, str(run.scheduled_at)[11:16], run.catch_up)
            for run in reversed(driven.runs(added.job_id))
            if run.status != "pending"
        ]
        assert rows == [
            *[("failed", "10:00", False)] * 3,
            ("success", "10:00", False),
            ("missed", "10:01", False),
            ("success", "10:06", True),
            ("success", "10:07", False),
            ("success", "10:08", False),
        ]


def test_a_handler_is_told_of_the_firing_before_and_of_a_catch_up() -> None:
    """The one that ran, not the one that the schedule names: what lies between is to be made up."""
    seen: list[tuple[str | None, str, bool]] = []

    def handler(ctx: Context, _payload: Any) -> None:
        before = ctx.previous_scheduled_at
        seen.append(
            (f"{before:%H:%M}" if before else None, f"{ctx.scheduled_at:%H:%M}", ctx.catch_up)
        )
        if ctx.attempt == 1 and f"{ctx.scheduled_at:%H:%M}" == "10:01":
            raise ValueError("not yet")

    with engine("2026-06-01T09:59:30Z", handler) as driven:
        driven.jobs.add(
            name="work", schedule="* * * * *", retry_backoff="fixed", retry_base_seconds=300
        )
        driven.advance_to("2026-06-01T10:06:30Z")

        assert seen == [
            (None, "10:00", False),
            ("10:00", "10:01", False),
            ("10:00", "10:01", False),
            ("10:01", "10:05", True),
            ("10:05", "10:06", False),
        ]
