"""Reads the body of a request, within a size and a time.

A body that is too large is read to its end, up to a limit, and thrown away before the answer is
sent: a client that writes everything before it reads would otherwise see a reset connection
instead of the problem.  After such an answer the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.requests import ClientDisconnect, Request

from mainspring_api.problems import ProblemRaised

DRAIN_BYTES_MAX: Final = 16 * 1024 * 1024
DRAIN_S_MAX: Final = 10.0

_CLOSE: Final = {"Connection": "close"}


async def read_json_body(request: Request, *, bytes_max: int, seconds_max: float) -> bytes:
    """Return the whole body of a request that says it is JSON.

    Raises
    ------
    ProblemRaised
        415 for another content type, 413 beyond `bytes_max` whether announced or sent in chunks,
        408 when it took longer than `seconds_max`, 400 for a length that is no number.
    ClientDisconnect
        The connection was closed before the body's end.
    """
    _check_content_type(request)
    length = _announced_length(request)
    too_large = length is not None and length > bytes_max
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(seconds_max):
            while more and not too_large:
                chunk, more = await _next_chunk(request)
                body += chunk
                too_large = len(body) > bytes_max
    except TimeoutError:
        raise ProblemRaised(
            408,
            f"the request body did not arrive within {seconds_max:g} s",
            hint="Send the body at once.",
            headers=_CLOSE,
        ) from None
    if too_large:
        await _drain(request, more=more)
        raise ProblemRaised(
            413,
            f"the request body has more than {bytes_max} bytes",
            hint=f"Send at most {bytes_max} bytes.",
            headers=_CLOSE,
        )
    return bytes(body)


def _check_content_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    media_type, _, parameters = given.partition(";")
    charset = parameters.strip().lower().replace('"', "").replace(" ", "")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if media_type.strip().lower() != "application/json" or charset not in {"", "charset=utf-8"}:
        shown = ascii(given[:80]) if given else "missing"
        raise ProblemRaised(
            415,
            f"the content type is {shown}",
            hint="Send JSON with the header Content-Type: application/json.",
            headers={"Accept": "application/json"},
        )
    if encoding != "identity":
        raise ProblemRaised(
            415,
            f"the content encoding is {encoding[:80]!a}",
            hint="Send the body as it is, without compression.",
            headers={"Accept-Encoding": "identity"},
        )


def _announced_length(request: Request) -> int | None:
    text = request.headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ProblemRaised(400, "the content length is not a number", headers=_CLOSE)
    return int(text[:19])


async def _next_chunk(request: Request) -> tuple[bytes, bool]:
    """Return the next piece of the body, and whether more may follow."""
    event = await request.receive()
    if event["type"] == "http.disconnect":
        raise ClientDisconnect
    return event.get("body", b""), event.get("more_body", False)


async def _drain(request: Request, *, more: bool) -> None:
    """Read on and throw away, unless the client waits for our leave to send."""
    if "expect" in request.headers:
        return
    drained_bytes = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S_MAX):
            while more and drained_bytes <= DRAIN_BYTES_MAX:
                chunk, more = await _next_chunk(request)
                drained_bytes += len(chunk)
