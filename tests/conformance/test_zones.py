"""Facts about cursors that new rules of time zones move, for every store."""

from __future__ import annotations

import pytest

from conformance.stage import HOUR_US, START_US, Stage, ending
from conformance.test_changes import change_of, read
from mainspring.errors import TermLost
from mainspring.instants import INFINITY_US, MINUS_INFINITY_US, US_PER_S
from mainspring.model import DstGap, DstOverlap, FiringId, JobStatus, RunStatus
from mainspring.store.protocol import Acceptance, Action, Store
from mainspring.store.zones import CursorMove, ZoneChange, ZoneCount, ZonedCursor

NEXT_US = START_US + HOUR_US
FIRST = (MINUS_INFINITY_US, 0)


def cursors(stage: Stage, after: tuple[int, int] = FIRST, limit: int = 100) -> list[ZonedCursor]:
    return stage.store.zoned_cursors(0, stage.leader, after=after, limit=limit)


def move(stage: Stage, firing_id: int, to_us: int | None, fence: int | None = None) -> bool:
    if fence is None:
        [fence] = [each.fence for each in cursors(stage) if each.firing_id == firing_id]
    moves = [CursorMove(FiringId(firing_id), fence, to_us)]
    found = stage.store.move_cursors(0, stage.term, moves)
    assert found in (set(), {firing_id})
    return bool(found)


def test_a_cursor_is_read_with_all_that_its_occurrence_is_computed_from(stage: Stage) -> None:
    row = stage.run(schedule="0 9 * * *", timezone="Africa/Tunis")
    stage.complete(ending(row, RunStatus.SUCCESS, Action.MOVE, next_us=NEXT_US))
    changed = change_of(
        read(stage, row.job_id), anchor_us=START_US - 5, timed_us=START_US - 4,
        dst_gap=DstGap.SKIP, dst_overlap=DstOverlap.BOTH,
    )  # fmt: skip
    stage.store.change_job(changed)
    [found] = cursors(stage)
    assert found == ZonedCursor(
        firing_id=FiringId(row.job_id),
        fence=found.fence,
        due_us=NEXT_US,
        scheduled_us=NEXT_US,
        previous_us=START_US,
        anchor_us=START_US - 5,
        timed_us=START_US - 4,
        is_started=False,
        is_framed=False,
        is_active=True,
        schedule="0 9 * * *",
        timezone="Africa/Tunis",
        dst_gap="skip",
        dst_overlap="both",
    )
    assert found.due_key == (NEXT_US, row.job_id)


def test_pages_follow_the_order_of_due_times_and_leave_parked_and_extra_ones_out(
    stage: Stage,
) -> None:
    late, soon, also_soon = stage.add(NEXT_US + 1), stage.add(NEXT_US), stage.add(NEXT_US)
    parked = stage.add(NEXT_US)
    change = change_of(
        read(stage, parked), status=JobStatus.PAUSED, scheduled_us=INFINITY_US, due_us=INFINITY_US
    )
    stage.store.change_job(change)
    dead = stage.run()
    stage.die(dead, Action.MOVE, NEXT_US + 2)
    stage.store.redrive(FiringId(dead.firing_id), dead.fence)

    assert [each.firing_id for each in cursors(stage)] == [soon, also_soon, late, dead.job_id]
    first = cursors(stage, limit=2)
    assert [each.firing_id for each in first] == [soon, also_soon]
    assert [each.firing_id for each in cursors(stage, first[-1].due_key, 1)] == [late]
    assert cursors(stage, (NEXT_US + 2, dead.job_id)) == []
    assert stage.store.zoned_cursors(1, stage.leader, after=FIRST, limit=9) == []


def test_what_another_has_leased_is_framed(stage: Stage) -> None:
    """The leader's own lease is not: it made that frame itself."""
    stage.add()
    for is_leased in (False, True):
        [mine] = cursors(stage)
        [other] = stage.store.zoned_cursors(0, stage.leader + 9, after=FIRST, limit=9)
        assert (mine.is_started, mine.is_framed, other.is_framed) == (False, False, is_leased)
        stage.claim()


def test_a_run_that_goes_on_is_framed_and_that_of_a_deleted_job_not_active(stage: Stage) -> None:
    row = stage.run()
    [found] = cursors(stage)
    assert (found.is_started, found.is_framed, found.is_active) == (True, True, True)
    stage.store.delete_job(row.job_id)
    [found] = cursors(stage)
    assert (found.is_started, found.is_framed, found.is_active) == (True, True, False)


@pytest.mark.parametrize("to_us", [NEXT_US, START_US - HOUR_US])
def test_a_lease_from_before_a_move_starts_nothing(stage: Stage, to_us: int) -> None:
    """The frame is for an occurrence that is none any more; the cursor waits for another one."""
    job_id = stage.add()
    [row] = stage.claim()
    assert move(stage, job_id, to_us)
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == []
    stage.clock.now_us = max(stage.now_us, to_us)
    [again] = stage.claim()
    assert (again.scheduled_us, again.due_us, again.rev, again.fence, again.first_claim) == (
        to_us, to_us, row.rev + 1, row.fence + 2, True,
    )  # fmt: skip


def test_a_parked_cursor_waits_for_a_person(stage: Stage) -> None:
    job_id = stage.add(NEXT_US)
    stage.read_hints()
    assert move(stage, job_id, INFINITY_US)
    assert read(stage, job_id).next_us is None
    assert cursors(stage) == []
    stage.clock.pass_s(7_200)
    assert stage.claim() == []
    assert stage.read_hints() == []
    again = change_of(read(stage, job_id), scheduled_us=NEXT_US, due_us=NEXT_US)
    assert stage.store.change_job(again) is not None
    assert [row.scheduled_us for row in stage.claim()] == [NEXT_US]


def test_another_fence_moves_nothing(stage: Stage) -> None:
    """A claim in between has won."""
    job_id = stage.add()
    [before] = cursors(stage)
    [row] = stage.claim()
    assert not move(stage, job_id, NEXT_US, before.fence)
    assert not move(stage, 10**9, NEXT_US, 0)
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == [job_id]


def test_a_started_cursor_keeps_its_times_and_ends_by_its_definition(stage: Stage) -> None:
    """Its frame brought an occurrence of the old rules: the end is asked to decide anew, once."""
    row = stage.run()
    assert not move(stage, row.job_id, NEXT_US)
    assert move(stage, row.job_id, None)
    end = ending(row, RunStatus.SUCCESS, Action.MOVE, next_us=NEXT_US)
    assert stage.complete(end).acceptances == [Acceptance.CHANGED]
    started = stage.store.read_started([row.firing_id])[FiringId(row.firing_id)]
    assert (started.fence, started.rev, started.scheduled_us) == (row.fence, row.rev + 1, START_US)
    anew = ending(row, RunStatus.SUCCESS, Action.MOVE, next_us=NEXT_US + 1, rev=started.rev)
    assert stage.complete(anew).acceptances == [Acceptance.ACCEPTED]
    assert read(stage, row.job_id).next_us == NEXT_US + 1


def test_a_lease_whose_rev_alone_was_raised_still_starts(stage: Stage) -> None:
    job_id = stage.add()
    [row] = stage.claim()
    assert move(stage, job_id, None)
    assert stage.start([(job_id, row.fence)]).firing_id.tolist() == [job_id]


def test_an_extra_firing_is_no_cursor(stage: Stage) -> None:
    row = stage.run()
    stage.die(row, Action.MOVE, NEXT_US)
    extra = stage.store.redrive(FiringId(row.firing_id), row.fence)
    assert not move(stage, extra, NEXT_US + 5, 0)
    assert [each.firing_id for each in stage.claim()] == [extra]


def test_only_the_leader_of_the_standing_term_moves_and_notes(stage: Stage) -> None:
    job_id = stage.add(NEXT_US)
    stage.store.take_term(0, stage.leader)
    with pytest.raises(TermLost):
        move(stage, job_id, NEXT_US + 5)
    with pytest.raises(TermLost):
        stage.store.move_cursors(0, stage.term, [])
    with pytest.raises(TermLost):
        note(stage, "2026a", "2026b", ZoneCount("Africa/Tunis", 1, 0))
    stage.store.end_term(0, stage.term + 1, stage.leader)
    stage.term += 1
    with pytest.raises(TermLost):
        note(stage, "2026a", "2026b")
    assert read(stage, job_id).next_us == NEXT_US
    assert stage.store.zone_versions() == {0: ""}
    assert stage.store.zone_changes(limit=10) == []


def test_moved_cursors_are_announced_by_the_earliest(stage: Stage) -> None:
    one, two, three = stage.add(NEXT_US), stage.add(NEXT_US), stage.add(NEXT_US)
    stage.read_hints()
    assert move(stage, one, NEXT_US + 3)
    assert stage.read_hints() == [(0, NEXT_US + 3, one)]
    fences = {each.firing_id: each.fence for each in cursors(stage)}
    wanted = [(three, NEXT_US + 1), (two, NEXT_US + 2), (one, INFINITY_US)]
    moves = [CursorMove(FiringId(each), fences[FiringId(each)], to_us) for each, to_us in wanted]
    assert stage.store.move_cursors(0, stage.term, moves) == {one, two, three}
    assert stage.read_hints() == [(0, NEXT_US + 1, 0)]
    assert move(stage, two, None)
    assert stage.read_hints() == []


def note(stage: Stage, before: str, after: str, *counts: ZoneCount) -> None:
    stage.store.note_zone_version(
        0, stage.term, from_version=before, to_version=after, counts=counts
    )


def test_what_a_release_did_is_added_up_over_shards_and_shown_newest_first(stage: Stage) -> None:
    """A walk that was broken off and begun again is one change as well."""
    assert stage.store.zone_versions() == {0: ""}
    note(stage, "", "2026a")
    assert stage.store.zone_versions(0) == {0: "2026a"}
    assert stage.store.zone_changes(limit=10) == []
    note(stage, "2026a", "2026b", ZoneCount("Africa/Accra", 3, 1), ZoneCount("Africa/Cairo", 1, 0))
    stage.clock.pass_s(60)
    note(stage, "2026a", "2026b", ZoneCount("Africa/Cairo", 2, 2))
    note(stage, "2026b", "2026c", ZoneCount("Africa/Cairo", 0, 1))

    later_us = START_US + 60 * US_PER_S
    changes = [
        ZoneChange(later_us, "Africa/Cairo", 3, 2, "2026a", "2026b"),
        ZoneChange(later_us, "Africa/Cairo", 0, 1, "2026b", "2026c"),
        ZoneChange(START_US, "Africa/Accra", 3, 1, "2026a", "2026b"),
    ]
    assert stage.store.zone_changes(limit=10) == changes
    assert stage.store.zone_changes(limit=1) == changes[:1]
    assert stage.store.zone_versions() == {0: "2026c"}


def test_each_shard_has_a_release_of_its_own(bare_store: Store) -> None:
    bare_store.make_shards(3)
    term = bare_store.take_term(1, bare_store.register_holder("scheduler", "s", "s"))
    bare_store.note_zone_version(1, term, from_version="", to_version="2026a", counts=[])
    assert bare_store.zone_versions() == {0: "", 1: "2026a", 2: ""}
    assert bare_store.zone_versions(1) == {1: "2026a"}
    assert bare_store.zone_versions(7) == {}
