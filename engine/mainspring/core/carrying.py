"""Carries out one request of a shard's leader on a store: the procedure a driver's threads run."""

from __future__ import annotations

from mainspring.core.completion import Chance, end_lost_runs
from mainspring.core.preparation import Leadership, Recipe, claim_and_prepare
from mainspring.core.requests import (
    Answer,
    ClaimIds,
    ClaimPage,
    Refill,
    Refilled,
    Request,
    SweepEnded,
    SweepUnleased,
    Swept,
)
from mainspring.store.protocol import Store

REFILL_ROWS_MAX = 1_000_000  # 16 MB of arrays; the horizon shrinks where there is more
ENDED_ROWS_MAX = 5_000


def carry_out(
    store: Store, who: Leadership, request: Request, recipe: Recipe, chance: Chance
) -> Answer:
    """Carry out one request; raises what the store raises."""
    match request:
        case ClaimPage() | ClaimIds():
            return claim_and_prepare(store, who, request, recipe)
        case Refill():
            firing_ids, due_us = store.refill(
                who.shard, request.from_us, request.until_us, limit=REFILL_ROWS_MAX
            )
            return Refilled(firing_ids, due_us, is_full=len(firing_ids) >= REFILL_ROWS_MAX)
        case SweepUnleased():
            firing_ids, fences, is_mine = store.sweep_unleased(
                who.shard,
                who.holder_id,
                cursor=request.cursor,
                full=request.full,
                limit=request.limit,
            )
            return Swept(firing_ids, fences, is_mine, is_full=len(firing_ids) >= request.limit)
        case SweepEnded():
            return end_lost_runs(
                store,
                who.shard,
                who.term,
                extension_us=request.extension_us,
                asked_us=request.asked_us,
                limit=ENDED_ROWS_MAX,
                chance=chance,
            )
