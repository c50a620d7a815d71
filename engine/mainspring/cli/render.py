"""What is shown, as cells of a table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

CELL_CHARACTERS_MAX = 120


def cell(value: object) -> str:
    """Return a value as a cell of a table."""
    if value is None:
        return "-"
    text = bytes(value).decode() if isinstance(value, msgspec.Raw) else str(value)
    return text.replace("\n", " ")[:CELL_CHARACTERS_MAX]


def cells(shown: Sequence[object], columns: Sequence[str]) -> list[list[str]]:
    """Return the named fields of several things as rows of a table."""
    return [[cell(getattr(one, column)) for column in columns] for one in shown]
