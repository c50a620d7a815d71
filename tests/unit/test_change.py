"""What a change, a pause and a resumption make of a job; and the loop that carries them out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.change import change_of, changed, paused, read_change, resumed
from mainspring.changing import DECISIONS_MAX, change_job
from mainspring.errors import (
    Conflict,
    InvalidInput,
    MalformedBody,
    NotFound,
    PreconditionFailed,
)
from mainspring.instants import INFINITY_US, MINUS_INFINITY_US, format_instant, parse_instant
from mainspring.model import DstGap, Job, JobChange, JobId, JobStatus, MissedWindow
from mainspring.registration import Limits, job_from, job_in
from mainspring.store.memory import MemoryStore

REGISTERED_US = parse_instant("2026-03-10T01:00:00Z")
NOW_US = parse_instant("2026-03-10T15:00:00Z")


def job(**fields: Any) -> Job:
    """Return a job as it was registered, and read at NOW_US."""
    new = job_from(job_in({"name": "n", "schedule": "0 1 * * *"} | fields), REGISTERED_US)
    return Job(
        job_id=JobId(7),
        shard=0,
        rev=4,
        status=JobStatus.ACTIVE,
        definition=new.definition,
        anchor_us=new.anchor_us,
        is_once=new.is_once,
        created_us=REGISTERED_US,
        updated_us=REGISTERED_US,
        next_us=new.first_us,
    )


def at(text: str) -> int:
    return parse_instant(f"2026-03-{text}:00Z")


def update(known: Job, **fields: Any) -> JobChange:
    return changed(known, change_of(fields), NOW_US)


@pytest.mark.parametrize(
    ("schedule", "next_run"), [("0 2 * * *", "11T02:00"), ("30 15 * * *", "10T15:30")]
)
def test_a_changed_schedule_starts_after_the_change(schedule: str, next_run: str) -> None:
    """Not at once because its time of today has passed, and today if it has not.

    Source: github.com/HangfireIO/Hangfire/issues/728.
    """
    change = update(job(), schedule=schedule)
    assert (change.scheduled_us, change.due_us) == (at(next_run), at(next_run))
    assert (change.timed_us, change.anchor_us, change.rev) == (NOW_US, NOW_US, 4)


@pytest.mark.parametrize(
    "fields", [{"timezone": "Asia/Tokyo"}, {"dst_gap": "skip"}, {"dst_overlap": "both"}]
)
def test_a_changed_zone_or_dst_option_counts_as_another_schedule(fields: dict[str, str]) -> None:
    assert update(job(), **fields).timed_us == NOW_US
    assert update(job(), **fields).scheduled_us is not None


def test_other_fields_leave_the_times_alone() -> None:
    known = job(payload={"n": 1}, max_retries=5)
    change = update(known, payload={"n": 2}, max_missed=3, name="other", schedule="0 1 * * *")
    assert (change.scheduled_us, change.due_us, change.timed_us) == (None, None, MINUS_INFINITY_US)
    assert change.definition == msgspec.structs.replace(
        known.definition, payload='{"n":2}', max_missed=3, name="other"
    )


def test_every_field_is_kept_that_is_not_named() -> None:
    known = job(
        task="t", queue="q", timezone="Asia/Tokyo", payload=[1.50], idempotency_key_template="a",
        max_retries=9, retry_backoff="linear", retry_base_seconds=2, retry_cap_seconds=4,
        timeout_seconds=8, missed_window="RUN_ALL", max_missed=7, misfire_grace_seconds=6,
        dst_gap="skip", dst_overlap="both",
    )  # fmt: skip
    assert update(known, timeout_seconds=8).definition == known.definition
    assert update(known, dst_gap="next_valid").definition == msgspec.structs.replace(
        known.definition, dst_gap=DstGap.NEXT_VALID
    )


def test_an_interval_counts_from_the_change() -> None:
    change = update(job(), schedule="@every 10m")
    assert change.scheduled_us == NOW_US + 600_000_000
    kept = update(job(schedule="@every 10m"), payload=1)
    assert (kept.anchor_us, kept.scheduled_us) == (REGISTERED_US, None)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"schedule": "0 25 * * *"}, "/schedule"),
        ({"timezone": "UTC+9"}, "/timezone"),
        ({"schedule": "2026-03-10T14:59:59Z"}, "/schedule"),
        ({"shedule": "0 2 * * *"}, "/shedule"),
        ({"max_retries": -1}, "/max_retries"),
        ({"retry_base_seconds": 7_000}, "/retry_cap_seconds"),
        ({"name": ""}, "/name"),
        ({"status": "paused"}, "/status"),
        ({"timeout_seconds": 1.5}, "/timeout_seconds"),
    ],
)
def test_what_a_registration_refuses_a_change_refuses(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        update(job(), **fields)
    assert (caught.value.pointer, bool(caught.value.hint)) == (pointer, True)


def test_an_old_one_off_may_still_be_changed_in_its_other_fields() -> None:
    """It may be running now; under SKIP, too."""
    known = job(schedule="2026-03-10T02:00:00Z", missed_window="SKIP")
    assert update(known, payload=1).scheduled_us is None


def test_a_body_is_an_object_of_fields() -> None:
    assert dict(read_change(b'{"payload": [1.50]}')) == {"payload": msgspec.Raw(b"[1.50]")}
    assert (
        changed(job(), read_change(b'{"payload": [1.50]}'), NOW_US).definition.payload == "[1.50]"
    )
    for body, kind in [
        (b"[]", InvalidInput), (b"{}", InvalidInput), (b"{", MalformedBody), (b"", MalformedBody),
        (b'{"name": "a", "name": "b"}', InvalidInput), (b'{"payload": "\\u0000"}', InvalidInput),
    ]:  # fmt: skip
        with pytest.raises(kind) as caught:
            read_change(body)
        assert caught.value.hint
    with pytest.raises(InvalidInput):
        change_of({})
    with pytest.raises(InvalidInput) as large:
        changed(job(), change_of({"payload": "x" * 20}), NOW_US, Limits(payload_bytes_max=20))
    assert large.value.pointer == "/payload"


def test_a_pause_parks_and_a_resumption_starts_from_now() -> None:
    """Source: github.com/argoproj/argo-workflows/issues/4445 (two runs at once after a resume)."""
    change = paused(job())
    assert change is not None
    assert (change.status, change.scheduled_us, change.due_us) == (
        JobStatus.PAUSED,
        INFINITY_US,
        INFINITY_US,
    )
    waiting = msgspec.structs.replace(job(schedule="* * * * *"), status=JobStatus.PAUSED)
    again = resumed(waiting, NOW_US + 20_000_000)
    assert again is not None
    assert (again.status, again.scheduled_us, again.due_us) == (
        JobStatus.ACTIVE,
        at("10T15:01"),
        at("10T15:01"),
    )
    assert again.timed_us == NOW_US + 20_000_000
    assert paused(waiting) is None
    assert resumed(job(), NOW_US) is None


def test_an_interval_keeps_its_anchor_over_a_pause() -> None:
    waiting = msgspec.structs.replace(job(schedule="@every 7h"), status=JobStatus.PAUSED)
    again = resumed(waiting, NOW_US)
    assert again is not None
    assert (again.scheduled_us, again.anchor_us) == (at("10T22:00"), REGISTERED_US)


def test_a_changed_schedule_of_a_paused_job_stays_parked() -> None:
    waiting = msgspec.structs.replace(job(), status=JobStatus.PAUSED)
    change = update(waiting, schedule="0 2 * * *")
    assert (change.status, change.scheduled_us, change.due_us) == (
        JobStatus.PAUSED,
        INFINITY_US,
        INFINITY_US,
    )
    once = update(waiting, schedule="2026-03-11T00:00:00Z")
    assert (once.is_once, once.scheduled_us, once.due_us) == (True, at("11T00:00"), INFINITY_US)


@pytest.mark.parametrize("policy", MissedWindow)
def test_a_one_off_keeps_its_instant_over_a_pause(policy: MissedWindow) -> None:
    """Passed meanwhile it runs at once, and is not judged as missed; under SKIP it is refused."""
    once = job(schedule="2026-03-10T16:00:00Z", missed_window=policy.value)
    change = paused(once)
    assert change is not None
    assert (change.scheduled_us, change.due_us) == (None, INFINITY_US)
    waiting = msgspec.structs.replace(once, status=JobStatus.PAUSED)
    early = resumed(waiting, NOW_US)
    assert early is not None
    assert (early.due_us, early.anchor_us) == (at("10T16:00"), REGISTERED_US)
    if policy is MissedWindow.SKIP:
        with pytest.raises(Conflict) as caught:
            resumed(waiting, at("10T16:01"))
        assert format_instant(at("10T16:00")) in caught.value.message
        return
    late = resumed(waiting, at("10T16:01"))
    assert late is not None
    assert (late.scheduled_us, late.due_us, late.anchor_us) == (
        at("10T16:00"),
        at("10T16:00"),
        at("10T16:01"),
    )


def test_an_h_is_placed_by_the_jobs_own_id() -> None:
    jobs = [msgspec.structs.replace(job(), job_id=JobId(each)) for each in range(1, 9)]
    nexts = {update(each, schedule="H H * * *").scheduled_us for each in jobs}
    assert len(nexts) > 4


class Stormed(MemoryStore):
    """A store in which somebody else changes the job before each change of ours."""

    def __init__(self, storms: int) -> None:
        super().__init__(lambda: NOW_US)
        self.make_shards(1)
        self.storms = storms

    def change_job(self, change: JobChange) -> Job | None:
        if self.storms:
            self.storms -= 1
            other = self.get_jobs([change.job_id])[change.job_id]
            super().change_job(changed(other, change_of({"queue": f"q{self.storms}"}), NOW_US))
        return super().change_job(change)


def carry_out(store: MemoryStore, job_id: int, if_rev: int | None = None, **fields: Any) -> Job:
    given = change_of(fields)
    return change_job(
        store,
        JobId(job_id),
        lambda known, now_us: changed(known, given, now_us),
        now_us=store.database_us,
        if_rev=if_rev,
    )


def test_a_change_is_decided_again_if_somebody_else_was_faster() -> None:
    """Both changes stand."""
    store = Stormed(2)
    [job_id] = store.add_jobs([job_from(job_in({"name": "n", "schedule": "@daily"}), NOW_US)])
    done = carry_out(store, job_id, name="other")
    assert (done.definition.name, done.definition.queue, done.rev) == ("other", "q0", 4)


def test_a_change_is_given_up_in_a_storm_and_at_another_rev() -> None:
    store = Stormed(DECISIONS_MAX)
    [job_id] = store.add_jobs([job_from(job_in({"name": "n", "schedule": "@daily"}), NOW_US)])
    with pytest.raises(Conflict, match="was changed 5 times"):
        carry_out(store, job_id, name="other")
    with pytest.raises(PreconditionFailed, match="is at rev 6, not 1"):
        carry_out(store, job_id, if_rev=1, name="other")
    assert carry_out(store, job_id, if_rev=6, name="other").rev == 7
    store.storms = 1
    with pytest.raises(PreconditionFailed):
        carry_out(store, job_id, if_rev=7, name="third")


def test_what_is_gone_is_told_from_what_never_was() -> None:
    store = MemoryStore(lambda: NOW_US)
    store.make_shards(1)
    [job_id] = store.add_jobs([job_from(job_in({"name": "n", "schedule": "@daily"}), NOW_US)])
    store.delete_job(job_id)
    with pytest.raises(NotFound, match="deleted or finished"):
        carry_out(store, job_id, name="other")
    with pytest.raises(NotFound, match="ever called"):
        carry_out(store, 10**9, name="other")
