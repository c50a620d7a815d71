"""ClaimBatch: rows in, rows out, and columns that stay together."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.claim import KINDS, Blobs, ClaimBatch, ClaimRow, Codes

WIDTHS = {"2": 15, "4": 31, "8": 63, "t": 63}


def cell(kind: str, name: str) -> st.SearchStrategy[Any]:
    if kind in WIDTHS:
        return st.integers(-(2 ** WIDTHS[kind]), 2 ** WIDTHS[kind] - 1)
    if kind == "b":
        return st.booleans()
    if kind == "p":
        return st.binary(max_size=12)
    text = st.text("ab€", max_size=3)
    return st.none() | text if name == "template" else text


rows = st.builds(
    ClaimRow,
    **{name: cell(kind, name) for name, kind in zip(ClaimRow._fields, KINDS, strict=True)},
)


def listed(batch: ClaimBatch) -> list[ClaimRow]:
    return [batch.row(index) for index in range(len(batch))]


@given(st.lists(rows, max_size=5))
def test_a_batch_holds_the_rows_it_was_made_of(given_rows: list[ClaimRow]) -> None:
    assert given_rows == listed(ClaimBatch.from_rows(given_rows))


@given(st.lists(rows, min_size=1, max_size=5), st.data())
def test_taking_rows_gives_those_rows_in_that_order(
    given_rows: list[ClaimRow], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(given_rows) - 1), max_size=8))
    batch = ClaimBatch.from_rows(given_rows).take(np.array(chosen, np.int64))

    assert [given_rows[index] for index in chosen] == listed(batch)


def test_an_empty_batch_has_every_column_and_no_row() -> None:
    batch = ClaimBatch.empty()

    assert len(batch) == 0
    assert all(len(getattr(batch, name)) == 0 for name in ClaimRow._fields)
    assert len(batch.take(np.array([], np.int64))) == 0


def test_the_columns_are_those_of_a_row_in_the_order_of_the_kinds() -> None:
    columns = tuple(field.name for field in dataclasses.fields(ClaimBatch))

    assert columns == ClaimRow._fields
    assert len(columns) == len(KINDS)


def sample() -> ClaimBatch:
    values = {"b": True, "p": b"{}", "c": "text"}
    row = ClaimRow(*(values.get(kind, place) for place, kind in enumerate(KINDS)))  # type: ignore[arg-type]
    return ClaimBatch.from_rows([row, row._replace(firing_id=9)])


def test_replacing_a_column_leaves_the_batch_as_it_was() -> None:
    batch = sample()
    other = batch.replace(fence=np.array([41, 42]))

    assert other.fence.tolist() == [41, 42]
    assert batch.fence.tolist() == [4, 4]
    assert other.job_id is batch.job_id


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        ({"fence": np.array([1])}, "column fence has 1 rows where 2 are due"),
        ({"fence": np.array([1, 2], np.int32)}, "column fence is not of kind '8'"),
        ({"fence": np.arange(4)[::2]}, "column fence is not of kind '8'"),
        ({"fence": [1, 2]}, "column fence is not of kind '8'"),
        ({"task": np.array([0, 0], np.int32)}, "column task is not of kind 'c'"),
        ({"task": Codes(np.array([0], np.int32), ("a",))}, "column task has 1 rows"),
        ({"payload": Blobs.of([b""])}, "column payload has 1 rows where 2 are due"),
        ({"payload": np.array([0, 0, 0])}, "column payload is not of kind 'p'"),
    ],
)
def test_a_column_of_another_type_or_length_is_refused(column: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        sample().replace(**column)


def test_a_value_that_does_not_fit_its_column_is_refused() -> None:
    with pytest.raises(OverflowError):
        ClaimBatch.from_rows([sample().row(0)._replace(attempt=2**31)])


def test_blobs_are_cut_from_either_end_and_not_beyond() -> None:
    blobs = Blobs.of([b"a", b"", b"ccc"])

    assert [blobs[0], blobs[1], blobs[2], blobs[-1]] == [b"a", b"", b"ccc", b"ccc"]
    for index in (3, -4):
        with pytest.raises(IndexError):
            blobs[index]


@pytest.mark.parametrize("face", ["claim", "frame"])
def test_an_uncompiled_tree_says_what_to_run_and_the_pure_one_needs_nothing(face: str) -> None:
    code = f"import sys; sys.modules['mainspring._{face}'] = None; import mainspring.{face}"
    environment = {name: text for name, text in os.environ.items() if name != "MAINSPRING_PURE"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", code]

    compiled = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    pure = subprocess.run(
        command, env={**environment, "MAINSPRING_PURE": "1"}, capture_output=True, check=False
    )

    assert "run `make ext`" in compiled.stderr
    assert pure.returncode == 0
