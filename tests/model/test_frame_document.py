"""The worked example of docs/frame.md is a frame, and says what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from mainspring import _frame, _frame_pure, frame
from mainspring.claim import ClaimBatch, ClaimRow
from mainspring.instants import INFINITY_US, MINUS_INFINITY_US

PAGE = Path(__file__).parents[2] / "docs" / "frame.md"
NINE_US = 1_780_923_600_000_000
FIRST = ClaimRow(
    firing_id=1001,
    job_id=1001,
    due_us=NINE_US,
    scheduled_us=NINE_US,
    fence=7,
    rev=2,
    attempt=1,
    trigger=0,
    catch_up=False,
    lost_count=0,
    first_claim=True,
    claimed_us=0,
    anchor_us=0,
    previous_us=1_780_318_800_000_000,
    timeout_s=300,
    grace_s=60,
    task="send-report",
    queue="default",
    schedule="0 9 * * 1",
    zone="America/New_York",
    dst_gap="next_valid",
    dst_overlap="first",
    template=None,
    name="weekly",
    payload=b'{"n":1}',
)
SECOND = FIRST._replace(
    firing_id=1002,
    due_us=NINE_US + 5_000_000,
    fence=12,
    rev=0,
    previous_us=MINUS_INFINITY_US,
    attempt=2,
    trigger=1,
    catch_up=True,
    timeout_s=60,
    payload=b"null",
)


def example() -> bytes:
    """Read the bytes of the example: on each line, what stands before the remark."""
    found = re.search(r"^```hex\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    lines = [re.match(r"(?:[0-9a-f]{2} {1,2})+", line) for line in found[1].splitlines()]
    assert all(lines)
    return bytes.fromhex("".join(line[0] for line in lines if line))


def test_the_example_is_what_encode_writes() -> None:
    written = frame.encode(
        leader=9,
        frame_no=300,
        shard=5,
        term=3,
        queue="default",
        task="send-report",
        batch=ClaimBatch.from_rows([FIRST, SECOND]),
        indices=np.array([0, 1]),
        next_us=np.array([NINE_US + 7 * 86_400 * 1_000_000, INFINITY_US]),
        keys=["", "report-w24"],
    )

    assert example() == written


def test_both_twins_read_the_example_as_its_remarks_say() -> None:
    for decode in (_frame.decode, _frame_pure.decode):
        decoded = frame.Frame(*decode(example()))

        assert (decoded.leader, decoded.frame_no, decoded.shard, decoded.term) == (9, 300, 5, 3)
        assert (decoded.queue, decoded.task, len(decoded)) == ("default", "send-report", 2)
        assert decoded.firing_id.tolist() == [1001, 1002]
        assert decoded.job_id.tolist() == [1001, 1001]
        assert decoded.fence.tolist() == [7, 12]
        assert decoded.scheduled_us.tolist() == [NINE_US, NINE_US]
        assert decoded.due_us.tolist() == [NINE_US, NINE_US + 5_000_000]
        assert decoded.next_us.tolist() == [1_781_528_400_000_000, INFINITY_US]
        assert decoded.rev.tolist() == [2, 0]
        assert decoded.attempt.tolist() == [1, 2]
        assert decoded.timeout_s.tolist() == [300, 60]
        assert [decoded.trigger(0), decoded.trigger(1)] == [0, 1]
        assert [decoded.catch_up(0), decoded.catch_up(1)] == [False, True]
        assert [decoded.key(0), decoded.key(1)] == ["", "report-w24"]
        assert [decoded.payload(0), decoded.payload(1)] == [b'{"n":1}', b"null"]


def test_the_table_lists_the_fields_in_the_order_of_the_wire() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    names = [name for _number, name in rows]

    assert [int(number) for number, _name in rows] == list(range(23))
    assert [name for name in names if name not in {"version", "n"}] == list(
        frame.Frame.__slots__  # type: ignore[attr-defined]
    )
