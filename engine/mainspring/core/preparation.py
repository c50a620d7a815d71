"""From a claim to frames that are encoded: what is done before the second counts in.

`claim_and_prepare` is the procedure a driver runs for one claim request, on any store: claim,
judge what came too late, record it, compute the next occurrences, render the keys, cut the batch
into frames.  Everything but the calls of the store is a pure function here.

A frame holds firings of one queue, one task and one release tick, either live ones or catch-up, and
no more payload than a wire takes at once; a firing that has lost two workers already travels alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mainspring import frame
from mainspring.claim import ClaimBatch
from mainspring.core.catch_up import CatchUps
from mainspring.core.ending import UNREADABLE_US
from mainspring.core.judgement import Judgement, judge, late_rows, settled
from mainspring.core.requests import ClaimIds, ClaimPage, Prepared, PreparedFrame
from mainspring.cron import OccurrenceMemo, is_spread, load_zone
from mainspring.errors import InvalidSchedule
from mainspring.instants import INFINITY_US
from mainspring.keys import compile_template, default_key, firing_suffix, render
from mainspring.model import Trigger, format_job_id
from mainspring.store.protocol import FiringStore, JobStore, Missed, MissedStep

Int64s = NDArray[np.int64]
LOSSES_BEFORE_ALONE = 2
MISSED_NAMED_MAX = 5
FRAME_PAYLOAD_BYTES_MAX = 1_048_576
"""A sixteenth of what a frame may have: one large frame does not hold up small ones behind it."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """On whose behalf a claim is made."""

    shard: int
    term: int
    holder_id: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """What preparation needs besides the batch; `take_frame_no` numbers frames of one leader."""

    memo: OccurrenceMemo
    tick_us: int
    frame_firings_max: int
    take_frame_no: Callable[[], int]
    catch_ups: CatchUps


class ClaimStore(FiringStore, JobStore, Protocol):
    """What a claim needs of a store."""


def claim_and_prepare(
    store: ClaimStore, who: Leadership, request: ClaimPage | ClaimIds, recipe: Recipe
) -> Prepared:
    """Carry out one claim; raises what the store raises."""
    if isinstance(request, ClaimPage):
        batch = store.claim_page(
            who.shard,
            who.term,
            who.holder_id,
            after=request.after,
            until_us=request.until_us,
            limit=request.limit,
        )
    else:
        batch = store.claim_ids(
            who.shard,
            who.term,
            who.holder_id,
            request.firing_ids,
            request.fences,
            until_us=request.until_us,
        )
    if not len(batch):
        return Prepared([], claimed_count=0, last=None, missed_count=0, claimed_us=None)
    claimed_count, claimed_us = len(batch), int(batch.claimed_us[0])
    last = (int(batch.due_us[-1]), int(batch.firing_id[-1]))
    batch, judgement, put_off = _judge(store, who, batch, recipe)
    next_us = next_occurrences(batch, recipe.memo)
    frames = [
        _encode(batch, rows, next_us, who, recipe, release_tick)
        for rows, release_tick in cut(batch, recipe.tick_us, recipe.frame_firings_max)
    ]
    return Prepared(
        frames=frames,
        claimed_count=claimed_count,
        last=last,
        missed_count=judgement.missed_count,
        claimed_us=claimed_us,
        missed_job_ids=judgement.missed_job_ids[:MISSED_NAMED_MAX],
        dropped_count=judgement.dropped_count,
        large=judgement.large,
        put_off_ids=np.array([row.firing_id for row in put_off], np.int64),
        put_off_us=np.array([row.due_us for row in put_off], np.int64),
    )


def _judge(
    store: ClaimStore, who: Leadership, batch: ClaimBatch, recipe: Recipe
) -> tuple[ClaimBatch, Judgement, list[Missed]]:
    """Judge and record what came late; returns what is left, and what is due at another time."""
    rows = late_rows(batch)
    if not len(rows):
        return batch, Judgement(), []
    jobs = store.get_jobs(batch.job_id[rows].tolist())
    judgement = judge(batch, rows, jobs, recipe.catch_ups.of(who.shard, who.term))
    if not judgement.rows:
        return batch, judgement, []
    fences = store.record_missed(who.shard, who.term, who.holder_id, judgement.rows)
    put_off = [
        row
        for row in judgement.rows
        if row.step is MissedStep.WAIT and row.firing_id in fences and row.due_us != INFINITY_US
    ]
    return settled(batch, judgement, fences), judgement, put_off


def next_occurrences(batch: ClaimBatch, memo: OccurrenceMemo) -> Int64s:
    """Return the occurrence after each firing's own, int64, shape (n,).

    INFINITY_US for extra firings and for one-offs.  One evaluation serves all rows that share
    expression, zone, occurrence and, where they matter, anchor (@every) and job id (`H`).
    """
    count = len(batch)
    result = np.full(count, INFINITY_US, np.int64)
    schedule_codes, zone_codes = batch.schedule.codes, batch.zone.codes
    if not count:
        return result
    is_every = np.array([text.startswith("@every") for text in batch.schedule.values], bool)
    has_own = np.array([is_spread(text) for text in batch.schedule.values], bool)
    anchor_us = np.where(is_every[schedule_codes], batch.anchor_us, 0)
    job_id = np.where(has_own[schedule_codes], batch.job_id, 0)
    dst = (batch.dst_gap.codes, batch.dst_overlap.codes)
    keys = (anchor_us, job_id, batch.scheduled_us, *dst, zone_codes, schedule_codes)
    for rows in _runs_of_equals(keys):
        first = int(rows[0])
        text, zone = batch.schedule[first], batch.zone[first]
        dst_gap, dst_overlap = batch.dst_gap[first], batch.dst_overlap[first]
        assert text is not None
        assert zone is not None
        assert dst_gap is not None
        assert dst_overlap is not None
        try:
            next_us = memo.next_us(
                text,
                zone,
                int(batch.anchor_us[first]),
                int(batch.scheduled_us[first]),
                int(batch.job_id[first]),
                dst_gap,
                dst_overlap,
            )
        except InvalidSchedule:
            next_us = UNREADABLE_US
        result[rows] = next_us
    result[batch.trigger != int(Trigger.SCHEDULE)] = INFINITY_US
    return result


def cut(batch: ClaimBatch, tick_us: int, frame_firings_max: int) -> Iterator[tuple[Int64s, int]]:
    """Yield (row numbers, release tick) of each frame, earliest release first.

    The release tick is the first at or after `due_at`, so no frame is early (I7).  A firing with
    more payload than a frame should have gets one to itself.
    """
    if not len(batch):
        return
    payload_bytes = np.diff(batch.payload.offsets)
    ticks = -(-batch.due_us // tick_us)
    alone = np.where(batch.lost_count >= LOSSES_BEFORE_ALONE, np.arange(1, len(batch) + 1), 0)
    keys = (alone, batch.catch_up, batch.task.codes, batch.queue.codes, ticks)
    for equals in _runs_of_equals(keys):
        ends_bytes = np.cumsum(payload_bytes[equals])
        first, sent_bytes = 0, 0
        while first < len(equals):
            fitting = int(
                np.searchsorted(ends_bytes, sent_bytes + FRAME_PAYLOAD_BYTES_MAX, "right")
            )
            last = min(first + frame_firings_max, max(first + 1, fitting))
            yield equals[first:last], int(ticks[equals[first]])
            first, sent_bytes = last, int(ends_bytes[last - 1])


def _runs_of_equals(keys: tuple[NDArray[np.integer[Any]], ...]) -> Iterator[Int64s]:
    """Yield the row numbers of each run of rows with equal keys; the last key sorts first."""
    order = np.lexsort(keys).astype(np.int64)
    differs = np.zeros(len(order) - 1, bool)
    for key in keys:
        ordered = key[order]
        differs |= ordered[1:] != ordered[:-1]
    yield from np.split(order, np.flatnonzero(differs) + 1)


def explicit_keys(batch: ClaimBatch, rows: Int64s) -> list[str] | None:
    """Return the keys of firings that do not have the default one, parallel to `rows`.

    None if all have it; an empty text stands for the default.
    """
    is_special = (batch.template.codes[rows] >= 0) | np.isin(
        batch.trigger[rows], (int(Trigger.MANUAL), int(Trigger.BACKFILL))
    )
    if not is_special.any():
        return None
    keys = [""] * len(rows)
    for place in np.flatnonzero(is_special).tolist():
        keys[place] = _key(batch, int(rows[place]))
    return keys


def _key(batch: ClaimBatch, i: int) -> str:
    row = batch.row(i)
    job_id = format_job_id(row.job_id)
    if row.template is None:
        key = default_key(job_id, row.scheduled_us)
    else:
        key = render(
            compile_template(row.template),
            job_id=job_id,
            name=row.name,
            scheduled_at_us=row.scheduled_us,
            zone=_zone(row.zone),
        )
    if row.trigger in {Trigger.MANUAL, Trigger.BACKFILL}:
        key += firing_suffix(row.firing_id)
    return key


def _zone(name: str) -> tzinfo:
    """Return the zone, or UTC if a newer tzdata dropped it: a run is worth more than its name."""
    try:
        return load_zone(name).tz
    except InvalidSchedule:
        return UTC


def _encode(
    batch: ClaimBatch,
    rows: Int64s,
    next_us: Int64s,
    who: Leadership,
    recipe: Recipe,
    release_tick: int,
) -> PreparedFrame:
    first = int(rows[0])
    queue, task = batch.queue[first], batch.task[first]
    assert queue is not None
    assert task is not None
    frame_no = recipe.take_frame_no()
    data = frame.encode(
        leader=who.holder_id,
        frame_no=frame_no,
        shard=who.shard,
        term=who.term,
        queue=queue,
        task=task,
        batch=batch,
        indices=rows,
        next_us=next_us,
        keys=explicit_keys(batch, rows),
    )
    return PreparedFrame(
        shard=who.shard,
        frame_no=frame_no,
        queue=queue,
        task=task,
        release_tick=release_tick,
        firing_ids=batch.firing_id[rows],
        fences=batch.fence[rows],
        due_us=batch.due_us[rows],
        data=data,
        is_catch_up=bool(batch.catch_up[first]),
    )
