"""Errors as RFC 9457 problems: one shape for everything that is not a success.

A problem says what is wrong (`detail`), where (`pointer` into the body, or `parameter` of the
query) and what to do (`hint`).  It never holds a stack trace, the text of an unexpected exception,
or the `detail` of an error of ours, which may quote the database: those are for the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ExceptionHandler

from mainspring.errors import (
    Conflict,
    InvalidInput,
    MainspringError,
    MalformedBody,
    MigrationRefused,
    NotFound,
    PoolerDetected,
    PreconditionFailed,
    StatementRetry,
    StoreUnavailable,
)

MEDIA_TYPE: Final = "application/problem+json"
LATER: Final = {"Retry-After": "1"}
"""What goes with every 503: a database comes back within seconds, or not soon."""

_TITLES: Final = {
    400: ("bad-request", "Bad request"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "Method not allowed"),
    408: ("timeout", "Request took too long"),
    409: ("conflict", "Conflict"),
    412: ("precondition-failed", "Precondition failed"),
    413: ("too-large", "Request body too large"),
    415: ("unsupported-media-type", "Unsupported media type"),
    422: ("invalid-input", "Invalid input"),
    500: ("internal", "Internal error"),
    503: ("unavailable", "Unavailable"),
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Members of RFC 9457, section 3, and our own `pointer`, `parameter` and `hint`."""

    type: str
    title: str
    status: int
    detail: str
    pointer: str | UnsetType = UNSET
    parameter: str | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class ProblemRaised(Exception):
    """Ends a request with a problem, from any depth of a route."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        pointer: str | None = None,
        parameter: str | None = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.response = problem_response(
            status, detail, pointer=pointer, parameter=parameter, hint=hint, headers=headers
        )


def problem_response(
    status: int,
    detail: str,
    *,
    pointer: str | None = None,
    parameter: str | None = None,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Write a problem as a response; text that is not Unicode is mended, never an error."""
    kind, title = _TITLES.get(status, ("other", HTTPStatus(status).phrase))
    problem = Problem(
        type=f"urn:mainspring:problem:{kind}",
        title=title,
        status=status,
        detail=_mended(detail),
        pointer=UNSET if pointer is None else _mended(pointer),
        parameter=UNSET if parameter is None else _mended(parameter),
        hint=UNSET if hint is None else _mended(hint),
    )
    return Response(msgspec.json.encode(problem), status, headers=headers, media_type=MEDIA_TYPE)


def exception_handlers() -> dict[int | type[Exception], ExceptionHandler]:
    """Return what `Starlette` does with each class of exception; subclasses follow their base."""
    return {
        ProblemRaised: _on_problem,
        InvalidInput: _on_invalid_input,
        MainspringError: _on_mainspring_error,
        HTTPException: _on_http_exception,
        ClientDisconnect: _on_disconnect,
        Exception: _on_unexpected,
    }


def _mended(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemRaised)
    return error.response


async def _on_invalid_input(_: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidInput)
    return problem_response(
        400 if isinstance(error, MalformedBody) else 422,
        error.message,
        pointer=error.pointer,
        hint=error.hint,
    )


async def _on_mainspring_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MainspringError)
    if isinstance(error, StoreUnavailable):
        return _unavailable(request, error)
    if isinstance(error, MigrationRefused | PoolerDetected):
        return problem_response(
            503, f"the database is not usable: {error.message}", hint=error.hint, headers=LATER
        )
    if isinstance(error, NotFound):
        return problem_response(404, error.message, hint=error.hint)
    if isinstance(error, PreconditionFailed):
        return problem_response(412, error.message, hint=error.hint)
    if isinstance(error, Conflict):
        return problem_response(409, error.message, hint=error.hint)
    raise error  # unexpected: it is logged, and answered as any other bug


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Answer what the router decided: no such route, or not with this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = sorted({*(error.headers or {}).get("Allow", "").split(", "), "OPTIONS"} - {""})
        headers = {"Allow": ", ".join(allowed)}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
        return problem_response(
            405,
            f"{request.method[:20]} is not possible here",
            hint=f"Use {' or '.join(method for method in allowed if method != 'OPTIONS')}.",
            headers=headers,
        )
    if error.status_code == 404:
        path = request.url.path
        shown = ascii(path if len(path) <= 80 else path[:77] + "...")
        return problem_response(
            404, f"there is nothing at {shown}", hint="Paths begin with /api/v1."
        )
    return problem_response(error.status_code, error.detail, headers=error.headers)


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    """Answer nobody: the client closed the connection in the middle of its request."""
    return Response(status_code=400)


async def _on_unexpected(_request: Request, _error: Exception) -> Response:
    return problem_response(
        500, "the request failed for a reason of our own", hint="The log of the API has more."
    )


def _unavailable(request: Request, error: StoreUnavailable) -> Response:
    if isinstance(error, StatementRetry):
        detail = "the database is too busy; the request took no effect"
    elif request.method in {"GET", "HEAD"}:
        detail = "the database cannot be reached"
    else:
        detail = "the database cannot be reached; whether the request took effect is not known"
    return problem_response(503, detail, hint="Try again.", headers=LATER)
