"""Loads the named SQL statements of `store/sql/*.sql`.

A file holds statements of one noun.  Each begins with a line `-- name: x`, then comment lines
that say who calls it and which index serves it, then the statement.  `{x}` inside a statement
stands for the text of the statement `x`: a part that several share.  Nothing else is ever put
together here; values travel as parameters.

Source: the layout after River's named queries and procrastinate's `queries.sql`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

FILES: Final = ("audit", "firing", "history", "holder", "job", "migration", "shard", "zone")

_HEADING: Final = re.compile(r"^-- name: (.*)$", re.MULTILINE)
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_PART: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def parse_statements(text: str) -> dict[str, str]:
    """Split the text of one file into its statements, without comments and final semicolons.

    Raises
    ------
    ValueError
        A name is used twice or is no name, a statement is empty, or a part is unknown.
    """
    pieces = _HEADING.split(text)
    raw: dict[str, str] = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if not _NAME.fullmatch(name):
            raise ValueError(f"bad statement name {name!r}")
        if name in raw:
            raise ValueError(f"statement {name!r} is there twice")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        raw[name] = "\n".join(lines).strip().removesuffix(";").rstrip()
        if not raw[name]:
            raise ValueError(f"statement {name!r} is empty")
    return {name: _splice(name, raw) for name in raw}


def _splice(name: str, raw: Mapping[str, str]) -> str:
    """Put the shared parts in; a part holds no parts of its own."""

    def part(found: re.Match[str]) -> str:
        if found[1] not in raw:
            raise ValueError(f"statement {name!r} names an unknown part {found[1]!r}")
        return raw[found[1]]

    return _PART.sub(part, raw[name])


@cache
def _all_statements() -> Mapping[str, bytes]:
    """Read every file, once in the life of a process."""
    known: dict[str, bytes] = {}
    for file in FILES:
        text = files("mainspring.store").joinpath("sql", f"{file}.sql").read_text("utf-8")
        for name, statement in parse_statements(text).items():
            if name in known:
                raise ValueError(f"statement {name!r} is in two files, {file}.sql is the second")
            known[name] = statement.encode()
    return known


def statement(name: str) -> bytes:
    """Return a statement by name, with its `%(name)s` parameters.

    Raises
    ------
    LookupError
        There is no statement of that name; a bug of the caller.
    """
    try:
        return _all_statements()[name]
    except KeyError:
        raise LookupError(f"there is no statement {name!r}") from None


def statement_names() -> frozenset[str]:
    """Return the names of all statements."""
    return frozenset(_all_statements())
