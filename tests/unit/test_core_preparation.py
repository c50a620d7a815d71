"""From a claim to frames: judged, cut, keyed, encoded."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import frame
from mainspring.claim import ClaimBatch
from mainspring.core.ending import UNREADABLE_US
from mainspring.core.preparation import (
    FRAME_PAYLOAD_BYTES_MAX,
    LOSSES_BEFORE_ALONE,
    claim_and_prepare,
    cut,
    explicit_keys,
    next_occurrences,
)
from mainspring.core.requests import ClaimIds, ClaimPage
from mainspring.cron import OccurrenceMemo, parse_schedule
from mainspring.cron.occurrence import next_occurrence_us
from mainspring.instants import INFINITY_US
from mainspring.model import RunStatus, Trigger, format_job_id
from unit.core_stage import EPOCH_US, MS, TICK_US, S, Stage, row

rows = st.builds(
    row,
    st.integers(1, 10**9),
    task=st.sampled_from(["a", "b"]),
    queue=st.sampled_from(["p", "q"]),
    due_us=st.integers(EPOCH_US, EPOCH_US + 200 * MS),
    lost_count=st.integers(0, LOSSES_BEFORE_ALONE),
    payload=st.sampled_from([b"{}", b"[" + b"0" * 400_000 + b"]", b"0" * (2**21)]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, max_size=30), st.integers(1, 5))
def test_a_cut_puts_every_row_into_one_frame_of_its_kind(
    claimed: list[object], frame_firings: int
) -> None:
    """Equal queue, task and tick; bounded in count and bytes; never early; earliest first."""
    batch = ClaimBatch.from_rows(claimed)  # type: ignore[arg-type]
    frames = list(cut(batch, TICK_US, frame_firings))

    assert list(range(len(batch))) == sorted(i for chosen, _ in frames for i in chosen.tolist())
    assert sorted(tick for _, tick in frames) == [tick for _, tick in frames]
    for chosen, tick in frames:
        members = [batch.row(i) for i in chosen.tolist()]
        assert len({(each.queue, each.task) for each in members}) == 1
        assert all((tick - 1) * TICK_US < each.due_us <= tick * TICK_US for each in members)
        assert len(members) <= frame_firings
        size = sum(len(each.payload) for each in members)
        assert size <= FRAME_PAYLOAD_BYTES_MAX or len(members) == 1
        assert len(members) == 1 or all(m.lost_count < LOSSES_BEFORE_ALONE for m in members)


def test_a_cut_is_no_finer_than_the_limits_ask_for() -> None:
    """Full frames, and a new one only where the payload would be too much."""
    third = b"0" * (FRAME_PAYLOAD_BYTES_MAX // 3)
    batch = ClaimBatch.from_rows([row(i, payload=third) for i in range(1, 8)])
    small = ClaimBatch.from_rows([row(i) for i in range(1, 8)])

    assert [3, 3, 1] == [len(chosen) for chosen, _ in cut(batch, TICK_US, 100)]
    assert [4, 3] == [len(chosen) for chosen, _ in cut(small, TICK_US, 4)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            row,
            st.integers(1, 10**9),
            schedule=st.sampled_from(
                ["0 9 * * 1", "*/5 * * * *", "@every 7s", "@every 3h", "H H * * *"]
            ),
            zone=st.sampled_from(["UTC", "Europe/Berlin"]),
            scheduled_us=st.integers(EPOCH_US - 10**6, EPOCH_US),
            anchor_us=st.integers(EPOCH_US - 10**7, EPOCH_US - 10**6 - 1),
            trigger=st.sampled_from([0, 0, 1, 2, 3]),
        ),
        max_size=20,
    )
)
def test_next_occurrences_are_those_of_each_row_alone(claimed: list[object]) -> None:
    """Rows that share an evaluation get what each would get by itself."""
    batch = ClaimBatch.from_rows(claimed)  # type: ignore[arg-type]

    expected = []
    for i in range(len(batch)):
        each = batch.row(i)
        schedule = parse_schedule(
            each.schedule, each.zone, anchor_us=each.anchor_us, job_id=each.job_id
        )
        after = next_occurrence_us(schedule, each.scheduled_us)
        is_cursor = each.trigger == Trigger.SCHEDULE
        expected.append(after if is_cursor and after is not None else INFINITY_US)
    assert expected == next_occurrences(batch, OccurrenceMemo()).tolist()


def test_jobs_that_share_an_h_do_not_share_an_evaluation() -> None:
    """One text, one zone, one occurrence, and another minute for each of them."""
    batch = ClaimBatch.from_rows([row(i, schedule="H 9 * * *") for i in range(1, 6)])
    expected = [
        next_occurrence_us(
            parse_schedule("H 9 * * *", "UTC", anchor_us=0, job_id=i), batch.row(0).scheduled_us
        )
        for i in range(1, 6)
    ]

    assert len(set(expected)) > 1
    assert expected == next_occurrences(batch, OccurrenceMemo()).tolist()


def test_a_schedule_that_cannot_be_read_any_more_is_run_once_more_and_then_parked() -> None:
    """Its key falls back to UTC; nobody else is held up by it."""
    gone = row(1, zone="Nowhere/Gone", schedule="0 9 * * *", template="{{hour}}", claimed_us=2**60)
    batch = ClaimBatch.from_rows([gone, row(2, claimed_us=EPOCH_US)])

    assert [UNREADABLE_US, EPOCH_US + 10 * S] == next_occurrences(batch, OccurrenceMemo()).tolist()
    assert ["2026-06-08T12+0000", ""] == explicit_keys(batch, np.array([0, 1]))


def test_a_claim_names_the_first_few_jobs_that_missed_occurrences() -> None:
    """Not all of them: after an outage there may be thousands."""
    stage = Stage()
    for _ in range(7):
        stage.add_every(40 * S)
    stage.mono_us = 110 * S
    _, who = stage.begin_term()
    page = ClaimPage((0, 0), EPOCH_US + 110 * S, 10)
    answer = claim_and_prepare(stage.store, who, page, stage.recipe)

    assert (answer.missed_count, answer.missed_job_ids) == (7, [1, 2, 3, 4, 5])


def test_default_keys_are_not_written_out_and_manual_ones_name_their_firing() -> None:
    batch = ClaimBatch.from_rows(
        [row(1), row(2, trigger=int(Trigger.MANUAL), job_id=9), row(3, template="x-{{date}}")]
    )
    unix = EPOCH_US // S

    assert explicit_keys(batch, np.array([0])) is None
    keys = explicit_keys(batch, np.array([0, 1, 2]))
    assert keys is not None
    assert ["", "x-2026-06-08"] == [keys[0], keys[2]]
    assert keys[1].startswith(f"{format_job_id(9)}:{unix}:m")


def test_a_page_becomes_frames_with_the_stores_fences_and_a_cursor() -> None:
    stage = Stage(frame_firings=2)
    stage.add_once(EPOCH_US, EPOCH_US, EPOCH_US + 1 * S)
    _, who = stage.begin_term()
    page = ClaimPage((0, 0), EPOCH_US + 3 * S, 10)
    answer = claim_and_prepare(stage.store, who, page, stage.recipe)

    assert ([[1, 2], [3]], (EPOCH_US + 1 * S, 3), 3) == (
        [each.firing_ids.tolist() for each in answer.frames],
        answer.last,
        answer.claimed_count,
    )
    first = frame.decode(answer.frames[0].data)
    assert (stage.scheduler, 0, who.term) == (first.leader, first.shard, first.term)
    assert answer.frames[0].fences.tolist() == first.fence.tolist() == [1, 1]
    empty = claim_and_prepare(stage.store, who, page, stage.recipe)
    assert (0, None, []) == (empty.claimed_count, empty.last, empty.frames)


def test_what_was_missed_is_recorded_and_the_latest_missed_one_runs_in_its_place() -> None:
    """Late by 35 s at a period of 10 with a grace of 1: three dropped, the newest caught up."""
    stage = Stage()
    stage.add_every(10 * S, misfire_grace_seconds=1)
    stage.mono_us = 45 * S
    _, who = stage.begin_term()
    answer = claim_and_prepare(
        stage.store, who, ClaimIds(np.array([1]), np.array([-1]), 2**62), stage.recipe
    )

    (prepared,) = answer.frames
    sent = frame.decode(prepared.data)
    assert (EPOCH_US + 40 * S, EPOCH_US + 50 * S, True, 4) == (
        int(sent.scheduled_us[0]),
        int(sent.next_us[0]),
        sent.catch_up(0),
        answer.missed_count,
    )
    missed = [run for run in stage.store.runs_of_job(1, limit=9) if run.missed_count]
    assert [(RunStatus.MISSED, EPOCH_US + 10 * S, 3)] == [
        (run.status, run.scheduled_us, run.missed_count) for run in missed
    ]
