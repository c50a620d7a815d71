"""`frame.encode` writes what `frame.decode` gives back, and refuses what it would refuse."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from mainspring import frame
from mainspring.claim import ClaimBatch
from mainspring.instants import INFINITY_US
from model.frame_samples import HEADER, ROW, arguments, encode_both, good_arguments


@given(arguments())
def test_decoding_an_encoded_frame_gives_the_chosen_firings(args: dict[str, Any]) -> None:
    batch, indices = args["batch"], args["indices"]
    data = encode_both(args)
    decoded = frame.decode(data)

    assert len(indices) == len(decoded)
    for name in ("leader", "frame_no", "shard", "term", "queue", "task"):
        assert args[name] == getattr(decoded, name)
    assert args["next_us"][indices].tolist() == decoded.next_us.tolist()
    for place, index in enumerate(indices):
        row = batch.row(int(index))
        for name in ("firing_id", "job_id", "fence", "scheduled_us", "due_us", "rev", "attempt"):
            assert getattr(row, name) == getattr(decoded, name)[place]
        assert row.timeout_s == decoded.timeout_s[place]
        assert row.trigger == decoded.trigger(place)
        assert row.catch_up is decoded.catch_up(place)
        assert row.payload == decoded.payload(place)
        assert (args["keys"][place] if args["keys"] else "") == decoded.key(place)


def test_a_full_frame_of_4096_firings_goes_there_and_back() -> None:
    batch = ClaimBatch.from_rows(
        [ROW._replace(firing_id=2**63 - 1 - n, payload=b"%d" % n) for n in range(4_096)]
    )
    args = {
        **HEADER,
        "queue": "default",
        "task": "send-report",
        "batch": batch,
        "indices": np.arange(4_095, -1, -1),
        "next_us": np.full(4_096, INFINITY_US),
    }
    decoded = frame.decode(encode_both(args))

    assert batch.firing_id[::-1].tolist() == decoded.firing_id.tolist()
    assert [b"%d" % n for n in range(4_095, -1, -1)] == [decoded.payload(i) for i in range(4_096)]
    args["indices"] = np.zeros(4_097, np.int64)
    with pytest.raises(ValueError, match="firing count 4097 is outside 1 to 4096"):
        encode_both(args)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"leader": 0}, "leader 0 is outside"),
        ({"frame_no": 0}, "frame_no 0 is outside"),
        ({"shard": 32_768}, "shard 32768 is outside"),
        ({"term": 2**63}, "term 9223372036854775808 is outside"),
        ({"queue": "q" * 256}, "queue's length 256 is outside"),
        ({"task": ""}, "task's length 0 is outside"),
        ({"queue": "other"}, "the firings have queue 'default', not 'other'"),
        ({"task": "other"}, "the firings have task 'send-report', not 'other'"),
        ({"indices": np.array([], np.int64)}, "firing count 0 is outside 1 to 4096"),
        ({"indices": np.array([0, 1])}, "firing 1: 1 is no row of a batch of 1"),
        ({"indices": np.array([-1])}, "firing 0: -1 is no row of a batch of 1"),
        ({"indices": np.array([0], np.int32)}, "are not both int64"),
        ({"next_us": np.array([1, 2])}, "2 next occurrences for a batch of 1"),
        ({"keys": ["a", "b"]}, "2 keys for 1 firings"),
    ],
)
def test_encode_refuses_arguments_that_break_a_rule(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        encode_both({**good_arguments(), **change})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"firing_id": 0}, "firing_id 0 of firing 1 is below 1"),
        ({"job_id": -1}, "job_id -1 of firing 1 is below 1"),
        ({"fence": 0}, "fence 0 of firing 1 is below 1"),
        ({"attempt": 0}, "attempt 0 of firing 1 is below 1"),
        ({"timeout_s": 0}, "timeout_s 0 of firing 1 is below 1"),
        ({"trigger": 4}, "trigger or catch_up of firing 1 has no bits"),
        ({"trigger": -1}, "trigger or catch_up of firing 1 has no bits"),
        ({"catch_up": 2}, "trigger or catch_up of firing 1 has no bits"),
        ({"queue": "mail"}, "firing 1 has another queue than firing 0"),
        ({"task": "other"}, "firing 1 has another task than firing 0"),
    ],
)
def test_encode_refuses_rows_that_decode_would_refuse(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        encode_both(good_arguments(ROW._replace(**change)))


def test_encode_refuses_offsets_that_leave_the_payloads() -> None:
    args = good_arguments()
    for offsets in ([0, 8], [-1, 2], [5, 4]):
        payload = dataclasses.replace(args["batch"].payload, offsets=np.array(offsets, np.int64))
        with pytest.raises(ValueError, match="payload offsets of the batch do not fit"):
            encode_both({**args, "batch": args["batch"].replace(payload=payload)})


def test_a_frame_above_16_mib_is_refused_and_one_of_16_mib_goes_through() -> None:
    args = good_arguments(ROW._replace(payload=b""))
    spare = frame.FRAME_BYTES_MAX - len(frame.encode(**args))
    # The payloads' bin head grows from two bytes to five.
    payload = b"1" * (spare - 3 + len(ROW.payload))
    args["batch"] = ClaimBatch.from_rows([ROW._replace(payload=payload), ROW._replace(payload=b"")])
    data = encode_both(args)

    assert len(data) == frame.FRAME_BYTES_MAX
    assert payload == frame.decode(data).payload(0)
    args["batch"] = ClaimBatch.from_rows(
        [ROW._replace(payload=payload), ROW._replace(payload=b"1")]
    )
    with pytest.raises(ValueError, match="a frame of 16777217 bytes is above 16777216"):
        encode_both(args)


def test_neither_direction_makes_an_object_per_firing() -> None:
    args = good_arguments(*([ROW] * 4_000))
    data = frame.encode(**args)
    frame.decode(data)

    before = sys.getallocatedblocks()
    kept = frame.encode(**args), frame.decode(data)
    blocks = sys.getallocatedblocks() - before

    assert len(kept[1]) == 4_001
    assert blocks < 200


@pytest.mark.parametrize("edge", [1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32])
def test_integers_and_binaries_at_the_edge_of_a_width_are_written_alike(edge: int) -> None:
    blob = b"1" * min(edge, 70_000)
    args = good_arguments(ROW._replace(payload=blob))
    decoded = frame.decode(encode_both({**args, "leader": edge, "frame_no": edge, "term": edge}))

    assert (decoded.leader, decoded.frame_no, decoded.term) == (edge, edge, edge)
    assert blob == decoded.payload(1)
    args["batch"] = args["batch"].take(np.array([1, 1]))
    args["keys"] = ["", "k" * len(blob)]
    assert "k" * len(blob) == frame.decode(encode_both(args)).key(1)


@pytest.mark.parametrize("length", [1, 31, 32, 255])
def test_texts_at_the_edge_of_a_width_are_written_alike(length: int) -> None:
    text = "q" * length
    args = good_arguments()
    args["batch"] = ClaimBatch.from_rows([ROW._replace(queue=text, task=text)])
    decoded = frame.decode(encode_both({**args, "queue": text, "task": text}))

    assert (decoded.queue, decoded.task) == (text, text)
