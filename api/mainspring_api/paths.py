"""Reads what stands in the path of a request."""

from __future__ import annotations

from typing import Final

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request

from mainspring.errors import InvalidInput
from mainspring.model import JobId, parse_job_id
from mainspring_api.problems import ProblemRaised

ID: Final = "mainspring_id"
"""In a route: a segment without a colon, since behind a colon stands what to do, as `:pause`."""


class _IdConvertor(StringConvertor):
    regex = "[^/:]+"


register_url_convertor(ID, _IdConvertor())


def job_id_of(request: Request) -> JobId:
    """Read the id of a path; raises a problem of status 404 for anything that is no id."""
    text: str = request.path_params["job_id"]
    try:
        return parse_job_id(text)
    except InvalidInput as error:
        raise ProblemRaised(404, error.message, hint=error.hint) from None
