"""Arguments of `frame.encode` for the tests of frames, and both twins called with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from mainspring import _frame, _frame_pure, frame
from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.instants import INFINITY_US

ROW = ClaimRow(
    firing_id=1001,
    job_id=1001,
    due_us=1_780_923_600_000_000,
    scheduled_us=1_780_923_600_000_000,
    fence=7,
    rev=2,
    attempt=1,
    trigger=0,
    catch_up=False,
    lost_count=0,
    first_claim=True,
    claimed_us=1_780_923_598_000_000,
    anchor_us=0,
    previous_us=1_780_318_800_000_000,
    timeout_s=300,
    grace_s=60,
    task="send-report",
    queue="default",
    schedule="0 9 * * 1",
    zone="UTC",
    dst_gap="next_valid",
    dst_overlap="first",
    template=None,
    name="weekly",
    payload=b'{"n":1}',
)
ids = st.integers(1, 2**63 - 1)
instants = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(1, 2**31 - 1)
rows = st.builds(
    ROW._replace,
    firing_id=ids,
    job_id=ids,
    fence=ids,
    scheduled_us=instants,
    due_us=instants,
    previous_us=instants,
    rev=st.integers(-(2**31), 2**31 - 1),
    attempt=counts,
    timeout_s=counts,
    trigger=st.integers(0, 3),
    catch_up=st.booleans(),
    payload=st.binary(max_size=30),
)
headers = st.fixed_dictionaries(
    {"leader": ids, "frame_no": ids, "shard": st.integers(0, 32_767), "term": ids}
)
HEADER = {"leader": 9, "frame_no": 1, "shard": 0, "term": 3}


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Draw arguments of `frame.encode`."""
    batch = ClaimBatch.from_rows(draw(st.lists(rows, min_size=1, max_size=6)))
    chosen = draw(st.lists(st.integers(0, len(batch) - 1), min_size=1, max_size=8))
    key = st.text("kñ€\U0001f570", max_size=4)
    keys = st.lists(key, min_size=len(chosen), max_size=len(chosen))
    next_us = draw(st.lists(instants, min_size=len(batch), max_size=len(batch)))
    return {
        **draw(headers),
        "queue": "default",
        "task": "send-report",
        "batch": batch,
        "indices": np.array(chosen, np.int64),
        "next_us": np.array(next_us, np.int64),
        "keys": draw(st.none() | keys),
    }


def encode_both(given_arguments: dict[str, Any]) -> bytes:
    """Encode with both twins; they agree on bytes or on the refusal, which is raised."""
    outcomes: list[Any] = []
    for codec in (_frame, _frame_pure):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(frame, "_encode", codec.encode)
            try:
                outcomes.append(frame.encode(**given_arguments))
            except ValueError as error:
                outcomes.append(error)
    if isinstance(outcomes[0], ValueError):
        assert str(outcomes[0]) == str(outcomes[1])
        raise outcomes[0]
    assert outcomes[0] == outcomes[1]
    return bytes(outcomes[0])


def good_arguments(*changed: ClaimRow) -> dict[str, Any]:
    batch = ClaimBatch.from_rows([ROW, *changed])
    return {
        **HEADER,
        "queue": "default",
        "task": "send-report",
        "batch": batch,
        "indices": np.arange(len(batch)),
        "next_us": np.full(len(batch), INFINITY_US),
    }
