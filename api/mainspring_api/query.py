"""Reads query parameters strictly: each known, each once, each in its range."""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request

from mainspring_api.problems import ProblemRaised


def read_query(request: Request, known: Collection[str] = ()) -> dict[str, str]:
    """Return the parameters of a request.

    Raises
    ------
    ProblemRaised
        400, for a parameter that is not among `known` or that is given twice.
    """
    values: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        shown = ascii(name if len(name) <= 40 else name[:37] + "...")
        if name not in known:
            hint = f"Known are {', '.join(sorted(known))}." if known else "There are none here."
            raise ProblemRaised(
                400, f"unknown query parameter {shown}", parameter=name[:200], hint=hint
            )
        if name in values:
            raise ProblemRaised(
                400, f"query parameter {shown} is given twice", parameter=name, hint="Give it once."
            )
        values[name] = value
    return values


def read_limit(values: dict[str, str], *, default: int, limit_max: int) -> int:
    """Return the page size, 1 to `limit_max`; raises a problem of status 400 for anything else."""
    text = values.get("limit")
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= limit_max):
        raise ProblemRaised(
            400,
            f"limit {text[:40]!a} is not in 1..{limit_max}",
            parameter="limit",
            hint=f"Write a whole number from 1 to {limit_max}.",
        )
    return int(text)
