"""Writes the answers of the API."""

from __future__ import annotations

import msgspec
from starlette.responses import Response


def json_response(
    value: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Write any value msgspec can encode."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )
