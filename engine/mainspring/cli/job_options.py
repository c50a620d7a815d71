"""The fields of a job as options of a command, and back."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
import msgspec

from mainspring.errors import InvalidInput
from mainspring.model import Backoff, DstGap, DstOverlap, MissedWindow

_C = TypeVar("_C", bound=Callable[..., Any])

_Kind = type[str] | type[int] | type[enum.StrEnum]

_FIELDS: Final[tuple[tuple[tuple[str, ...], _Kind, str, str | None], ...]] = (
    (("--name",), str, "What people call the job; need not be unique.", None),
    (
        ("--schedule",),
        str,
        "Five cron fields, @daily, '@every 10s', or an instant, as in 2026-06-08T13:00:00Z.",
        None,
    ),
    (("--timezone",), str, "IANA zone of the schedule.", "UTC"),
    (("--task",), str, "Which handler runs it.", "the name"),
    (("--queue",), str, "Which workers take it.", "default"),
    (("--payload",), str, "JSON for the handler.", "null"),
    (
        ("--key-template", "idempotency_key_template"),
        str,
        "Idempotency key, as in 'report-{{week}}'.",
        None,
    ),
    (("--max-retries",), int, "Attempts in all.", "3"),
    (("--retry-backoff",), Backoff, "How delays between attempts grow.", "exponential"),
    (("--retry-base-seconds",), int, "The first delay.", "5"),
    (("--retry-cap-seconds",), int, "The longest delay.", "3600"),
    (("--timeout-seconds",), int, "Then an attempt has failed.", "300"),
    (
        ("--missed-window",),
        MissedWindow,
        "Of occurrences that passed in an outage: run none, one for all of them, or each.",
        "RUN_ONCE",
    ),
    (("--max-missed",), int, "RUN_ALL: the newest so many are run.", "100"),
    (("--misfire-grace-seconds",), int, "Later than this is missed.", "60"),
    (
        ("--dst-gap",),
        DstGap,
        "A fixed time that a gap of the zone leaves out fires after it, or not that day.",
        "next_valid",
    ),
    (
        ("--dst-overlap",),
        DstOverlap,
        "Which pass of a fixed time that the zone has twice fires.",
        "first",
    ),
)
"""Each field: how it is given, its type, what it is, and what a registration takes without it."""


def field_options(*, is_new: bool) -> Callable[[_C], _C]:
    """Give a command an option for each field of a job; a change has no defaults."""

    def decorate(command: _C) -> _C:
        for names, kind, text, default in reversed(_FIELDS):
            shown = f"{text}  [default: {default}]" if is_new and default else text
            command = click.option(
                *names,
                type=click.Choice(_values(kind)) if issubclass(kind, enum.StrEnum) else kind,
                required=is_new and names[0] in {"--name", "--schedule"},
                help=shown,
            )(command)
        return command

    return decorate


def _values(kind: type[enum.StrEnum]) -> list[str]:
    """Return the words a user writes; of the members click would take the names."""
    return [each.value for each in kind]


def fields_of(given: Mapping[str, Any]) -> Any:
    """Return the fields whose options were given."""
    fields = {name: value for name, value in given.items() if value is not None}
    if "payload" in fields:
        fields["payload"] = _payload_of(fields["payload"])
    return fields


def _payload_of(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"the payload is not JSON: {error}",
            pointer="/payload",
            hint="""Quote it for the shell, as in --payload '{"n": 1}'.""",
        ) from error
