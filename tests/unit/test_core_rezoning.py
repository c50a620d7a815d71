"""Which cursors new rules of a zone move, and where to; and the walk over a shard.

Tunis is an hour ahead of UTC all year.  New rules give it the data of Tripoli, two hours ahead, so
that its clock reads 09:00 an hour earlier, or of Abidjan, which is UTC, so that it does later.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from conformance.test_changes import change_of
from mainspring.core.preparation import Leadership
from mainspring.core.rezoning import Outcome, Rezoning, rezone_shard, settle
from mainspring.cron import is_older_version, next_occurrence_us, parse_schedule, tzdata_version
from mainspring.cron import zone as zone_module
from mainspring.errors import TermLost
from mainspring.instants import INFINITY_US, MINUS_INFINITY_US, US_PER_S, parse_instant
from mainspring.model import Definition, FiringId, JobId, JobStatus, NewJob
from mainspring.store.memory import MemoryStore
from mainspring.store.zones import CursorMove, ZoneChange, ZonedCursor
from unit.zone_rules import rules

EARLIER = {"Africa/Tunis": "Africa/Tripoli"}
LATER = {"Africa/Tunis": "Africa/Abidjan"}
DROPPED = {"Africa/Tunis": ""}
HOUR_US = 3_600 * US_PER_S
DAY_US = 24 * HOUR_US


def at(text: str) -> int:
    """Read an instant of 2026 in June, as in `09T08:00`."""
    return parse_instant(f"2026-06-{text}Z")


MIDNIGHT = at("09T00:00")


def cursor(scheduled_us: int, schedule: str = "0 9 * * *", **changes: Any) -> ZonedCursor:
    plain = ZonedCursor(
        firing_id=FiringId(7),
        fence=4,
        due_us=scheduled_us,
        scheduled_us=scheduled_us,
        previous_us=MINUS_INFINITY_US,
        anchor_us=at("01T00:00"),
        timed_us=MINUS_INFINITY_US,
        is_started=False,
        is_framed=False,
        is_active=True,
        schedule=schedule,
        timezone="Africa/Tunis",
        dst_gap="next_valid",
        dst_overlap="first",
    )
    return dataclasses.replace(plain, **changes)


def moved(one: ZonedCursor, now_us: int = MIDNIGHT) -> int | None:
    """Return where a cursor goes; None if nothing becomes of it."""
    moves = settle([one], now_us)
    assert [(one.firing_id, one.fence)] * len(moves) == [(m.firing_id, m.fence) for m in moves]
    return moves[0].to_us if moves else None


@pytest.mark.parametrize(("data_of", "wall"), [(EARLIER, "09T07:00"), (LATER, "09T09:00")])
def test_a_cursor_goes_to_the_first_occurrence_after_now(data_of: Any, wall: str) -> None:
    """Which is where it is already, by the rules that it was computed by."""
    assert moved(cursor(at("09T08:00"))) is None
    with rules(data_of):
        assert at(wall) == moved(cursor(at("09T08:00")))


def test_it_goes_on_after_the_occurrence_that_ran_although_the_clock_was_set_back() -> None:
    ran_us = at("09T08:00")
    waits = cursor(at("10T08:00"), previous_us=ran_us)
    assert moved(waits, ran_us - HOUR_US) is None
    with rules(EARLIER):
        assert at("10T07:00") == moved(waits, ran_us - HOUR_US)


def test_an_occurrence_that_is_past_by_the_new_rules_is_due_now() -> None:
    """It is at 07:00 now, it is 07:30, and it did not run: its job's policy decides.

    One that was over before the job was, or before its times were set, is not due.
    """
    waits, now_us = cursor(at("09T08:00"), previous_us=at("08T08:00")), at("09T07:30")
    assert moved(waits, now_us) is None
    with rules(EARLIER):
        assert at("09T07:00") == moved(waits, now_us)
        for begun in ({"anchor_us": at("09T07:10")}, {"timed_us": at("09T07:00")}):
            assert at("10T07:00") == moved(dataclasses.replace(waits, **begun), now_us)


def test_an_occurrence_that_ran_is_not_repeated_for_being_nearest() -> None:
    """Yesterday's ran at 08:00, which by the new rules was before its time: 09:00."""
    with rules(LATER):
        waits = cursor(at("09T08:00"), previous_us=at("08T08:00"))
        assert at("09T09:00") == moved(waits)


def test_what_is_not_to_come_is_left() -> None:
    """A retry, a catch-up, and what is due and waits for its claim."""
    with rules(EARLIER):
        due = cursor(MIDNIGHT, due_us=MIDNIGHT + HOUR_US)
        assert moved(due) is None
        assert moved(dataclasses.replace(due, due_us=MIDNIGHT)) is None


def test_periods_offsets_and_utc_are_no_local_time() -> None:
    with rules({**EARLIER, "UTC": "Africa/Tripoli"}):
        assert moved(cursor(MIDNIGHT + 5, "@every 1h")) is None
        assert moved(cursor(at("09T08:00"), "2026-06-09T08:00Z")) is None
        assert moved(cursor(at("09T08:00"), "2026-06-09T10:00+02:00")) is None
        assert moved(cursor(at("09T09:00"), timezone="UTC")) is None
        assert moved(cursor(at("09T07:00"), "2026-06-09T08:00")) == at("09T06:00")


@pytest.mark.parametrize("now", ["09T00:00", "09T07:30"])
def test_a_local_one_off_goes_to_its_new_instant_also_if_that_is_past(now: str) -> None:
    with rules(EARLIER):
        assert at("09T07:00") == moved(cursor(at("09T08:00"), "2026-06-09T09:00"), at(now))


@pytest.mark.parametrize("schedule", ["0 9 * * *", "2026-06-09T09:00"])
def test_what_cannot_be_read_any_more_is_parked(schedule: str) -> None:
    assert moved(cursor(at("09T08:00"), "0 9 * * * *")) == INFINITY_US
    with rules(DROPPED):
        assert moved(cursor(at("09T08:00"), schedule)) == INFINITY_US


def test_an_unchanged_zone_moves_nothing_whatever_the_expression() -> None:
    """Each waits where its own zone and options have it: the rules of another zone changed."""
    now_us = at("09T03:17")
    texts = ["*/15 * * * *", "H H * * *", "0 9 * * MON#2", "30 2 L * *", "@daily", "5 4 29 2 *"]
    zones = ["Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Asia/Kathmandu"]
    waiting = []
    pairs = [(text, name) for text in texts for name in zones] * 3
    for firing_id, (text, name) in enumerate(pairs, start=1):
        schedule = parse_schedule(text, name, anchor_us=0, job_id=firing_id)
        first_us = next_occurrence_us(schedule, now_us)
        assert first_us is not None
        one = cursor(first_us, text, timezone=name, firing_id=FiringId(firing_id))
        waiting.append(one)
    with rules(EARLIER):
        assert [] == settle(waiting, now_us)


def test_the_options_of_a_job_decide_where_it_waits() -> None:
    """Of a time that Berlin has twice, one job waits for each pass, in one page."""
    waiting = [
        cursor(
            parse_instant(f"2026-10-25T{passed}:30Z"),
            "30 2 * * *",
            timezone="Europe/Berlin",
            dst_overlap=overlap,
        )
        for passed, overlap in (("00", "first"), ("01", "second"))
    ]
    assert [] == settle(waiting, parse_instant("2026-10-25T00:00Z"))


def test_a_half_hour_later_keeps_the_order_of_an_hourly_job() -> None:
    """Kolkata is half an hour off Karachi: the full hour that is next, not the one that was."""
    with rules({"Asia/Karachi": "Asia/Kolkata"}):
        one = cursor(
            at("09T08:00"), "0 * * * *", timezone="Asia/Karachi", previous_us=at("09T07:00")
        )
        assert at("09T07:30") == moved(one, at("09T07:10"))
        assert at("09T08:30") == moved(one, at("09T07:40"))


def test_what_a_frame_of_another_may_end_reads_its_definition() -> None:
    """Started, or leased by a leader before this one; a one-off and a period have no next by it."""
    due = cursor(MIDNIGHT, is_framed=True)
    stays = [CursorMove(due.firing_id, due.fence, None)]
    assert stays == settle([due], MIDNIGHT)
    assert stays == settle([dataclasses.replace(due, is_started=True)], MIDNIGHT)
    assert stays == settle([dataclasses.replace(due, is_started=True, is_active=False)], MIDNIGHT)
    assert [] == settle([dataclasses.replace(due, is_framed=False)], MIDNIGHT)
    for fixed in ({"schedule": "@every 1h"}, {"schedule": "2026-06-09T01:00"}, {"timezone": "UTC"}):
        assert [] == settle([dataclasses.replace(due, **fixed)], MIDNIGHT)


def test_a_paused_or_deleted_job_and_a_run_that_goes_on_are_not_moved() -> None:
    with rules(EARLIER):
        assert moved(cursor(at("09T08:00"), is_active=False)) is None
        assert moved(cursor(at("09T08:00"), is_active=False, is_framed=True)) is None
        started = cursor(at("09T08:00"), is_started=True, is_framed=True)
        assert [None] == [move.to_us for move in settle([started], MIDNIGHT)]


def test_releases_are_ordered_by_year_and_letters() -> None:
    in_order = ["", "2025z", "2026a", "2026f", "2026z", "2026za", "2027a"]
    for before, after in itertools.pairwise(in_order):
        assert is_older_version(before, after)
        assert not is_older_version(after, before)
    assert not is_older_version("2026f", "2026f")


def test_the_release_is_the_packages_own() -> None:
    import tzdata  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415

    zone_module.tzdata_version.cache_clear()
    assert tzdata_version() == tzdata.IANA_VERSION


class Shard:
    """A shard with daily jobs in Tunis and one in Berlin, on a store in memory."""

    def __init__(self, count: int = 5) -> None:
        self.now_us = MIDNIGHT
        self.store = MemoryStore(lambda: self.now_us)
        self.store.make_shards(1)
        holder = self.store.register_holder("scheduler", "s", "s")
        self.who = Leadership(0, self.store.take_term(0, holder), holder)
        zones = ["Africa/Tunis"] * count + ["Europe/Berlin"]
        self.jobs = self.store.add_jobs([_daily(name) for name in zones])

    def walk(self, version: str, *, stops_after: int = 100, page_rows: int = 2) -> Rezoning:
        asked = iter(range(stops_after))
        return rezone_shard(
            self.store, self.who, version, lambda: next(asked, None) is None, page_rows
        )

    def next_us(self) -> list[int | None]:
        return [job.next_us for job in self.store.get_jobs(self.jobs).values()]


def _daily(name: str) -> NewJob:
    schedule = parse_schedule("0 9 * * *", name, anchor_us=MIDNIGHT)
    first_us = next_occurrence_us(schedule, MIDNIGHT)
    assert first_us is not None
    definition = Definition(name="d", task="d", schedule="0 9 * * *", timezone=name)
    return NewJob(definition=definition, first_us=first_us, anchor_us=MIDNIGHT, is_once=False)


def test_a_fresh_shard_notes_the_release_and_the_same_release_reads_nothing() -> None:
    shard = Shard()
    with rules(EARLIER):
        assert Outcome.NOTED is shard.walk("2026a").outcome
        assert {0: "2026a"} == shard.store.zone_versions()
        assert Outcome.SAME is shard.walk("2026a").outcome
    assert [at("09T08:00")] * 5 + [at("09T07:00")] == shard.next_us()
    assert [] == shard.store.zone_changes(limit=10)


@pytest.mark.parametrize("page_rows", [1, 2, 5, 6, 100])
def test_a_newer_release_moves_every_cursor_of_a_changed_zone_once(page_rows: int) -> None:
    shard = Shard()
    shard.walk("2026a")
    with rules(LATER):
        walk = shard.walk("2026b", page_rows=page_rows)
        assert (Outcome.DONE, {"Africa/Tunis": 5}, {}) == (walk.outcome, walk.moved, walk.parked)
        assert Outcome.SAME is shard.walk("2026b", page_rows=page_rows).outcome
    assert [at("09T09:00")] * 5 + [at("09T07:00")] == shard.next_us()
    [change] = shard.store.zone_changes(limit=10)
    assert ZoneChange(MIDNIGHT, "Africa/Tunis", 5, 0, "2026a", "2026b") == change


def test_a_dropped_zone_parks_and_is_reported() -> None:
    shard = Shard(2)
    shard.walk("2026a")
    with rules(DROPPED):
        assert {"Africa/Tunis": 2} == shard.walk("2026b").parked
    assert [None, None, at("09T07:00")] == shard.next_us()
    [change] = shard.store.zone_changes(limit=10)
    assert (0, 2) == (change.moved_count, change.parked_count)


def test_an_older_release_moves_nothing_and_what_it_computes_is_walked_over_again() -> None:
    """Two nodes with two releases never take turns with a cursor."""
    shard = Shard()
    shard.walk("2026b")
    with rules(LATER):
        assert Outcome.OLDER is shard.walk("2026a").outcome
        assert [at("09T08:00")] * 5 + [at("09T07:00")] == shard.next_us()
        assert {0: "2026a"} == shard.store.zone_versions()
        shard.jobs += shard.store.add_jobs([_daily("Africa/Tunis")])
    assert at("09T09:00") == shard.next_us()[-1]
    walk = shard.walk("2026b")
    assert (Outcome.DONE, {"Africa/Tunis": 1}) == (walk.outcome, walk.moved)
    assert at("09T08:00") == shard.next_us()[-1]


def test_a_walk_that_was_broken_off_is_begun_again_and_moves_the_rest() -> None:
    shard = Shard()
    shard.walk("2026a")
    with rules(LATER):
        assert Outcome.STOPPED is shard.walk("2026b", stops_after=2).outcome
        assert {0: "2026a"} == shard.store.zone_versions()
        assert {at("09T08:00"), at("09T09:00"), at("09T07:00")} == set(shard.next_us())
        assert Outcome.DONE is shard.walk("2026b").outcome
    assert [at("09T09:00")] * 5 + [at("09T07:00")] == shard.next_us()
    assert {0: "2026b"} == shard.store.zone_versions()


def test_a_walk_ends_with_its_term() -> None:
    shard = Shard()
    shard.walk("2026a")
    shard.store.take_term(0, shard.who.holder_id)
    with rules(LATER), pytest.raises(TermLost):
        shard.walk("2026b")
    assert {0: "2026a"} == shard.store.zone_versions()


class Disturbed(MemoryStore):
    """A store in which a job is changed between the reading of a page and the move of it."""

    disturb: Any = None

    def move_cursors(self, shard: int, term: int, moves: Sequence[CursorMove]) -> set[FiringId]:
        disturb, self.disturb = self.disturb, None
        if disturb is not None:
            disturb()
        return super().move_cursors(shard, term, moves)


def test_a_change_in_between_wins_and_is_looked_at_again() -> None:
    """Its job was changed to 05:00, by a node that knows the old rules: it is moved from there."""
    shard = Shard(2)
    store = Disturbed(lambda: MIDNIGHT)
    store.make_shards(1)
    store.take_term(0, store.register_holder("scheduler", "s", "s"))
    shard.store, shard.jobs = store, store.add_jobs([_daily("Africa/Tunis")] * 2)
    shard.walk("2026a")

    def change() -> None:
        job = store.get_jobs(shard.jobs)[JobId(shard.jobs[0])]
        definition = msgspec.structs.replace(job.definition, schedule="0 5 * * *")
        changed = change_of(job, scheduled_us=at("09T04:00"), due_us=at("09T04:00"))
        assert store.change_job(msgspec.structs.replace(changed, definition=definition))
        assert store.change_job(
            change_of(
                store.get_jobs(shard.jobs)[JobId(shard.jobs[1])],
                status=JobStatus.PAUSED,
                scheduled_us=INFINITY_US,
                due_us=INFINITY_US,
            )
        )

    store.disturb = change
    with rules(LATER):
        walk = shard.walk("2026b")
    assert [at("09T05:00"), None] == shard.next_us()
    assert (Outcome.DONE, {"Africa/Tunis": 1}) == (walk.outcome, walk.moved)
