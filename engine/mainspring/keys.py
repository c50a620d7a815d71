"""Idempotency keys: the text by which a job's side effect is recognised when it runs again.

A key is rendered from the firing's nominal time, never from the attempt, so every retry and every
redrive of one occurrence carries the same key.  A template is literal text with `{{variable}}`
in it; it is read by hand and not by `str.format`, which would let a template reach attributes.

What this does not do: remember keys.  That is the caller's own database.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from mainspring.errors import InvalidTemplate
from mainspring.instants import US_PER_S, format_instant, to_datetime

TEMPLATE_LENGTH_MAX: Final = 200
KEY_LENGTH_MAX: Final = 255
"""Characters of a finished key, suffix included."""

SUFFIX_LENGTH_MAX: Final = len(":m") + len(str(2**63 - 1))

VARIABLE_LENGTH_MAX: Final = {
    "job_id": len("j_") + 13,  # 63 bits in base 32
    "scheduled_at": len("2026-06-08T13:00:00.000000Z"),
    "scheduled_at_unix": len("253402300799"),
    "date": len("2026-06-08"),
    "week": len("2026-W24"),
    "month": len("2026-06"),
    "hour": len("2026-06-08T09-004430"),  # Monrovia kept seconds in its offset until 1972
}
"""Longest rendering of each variable; `name` is as long as the job's own."""

VARIABLES: Final = ("name", *VARIABLE_LENGTH_MAX)

_POINTER: Final = "/idempotency_key_template"
_PIECE: Final = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Template:
    """A checked template, split where its variables stand.

    `literals` has one entry more than `variables`: they alternate and a literal, perhaps empty,
    comes first and last.
    """

    text: str
    literals: tuple[str, ...]
    variables: tuple[str, ...]

    def length_max(self, name: str) -> int:
        """Give the length no key of a job called `name` exceeds, with the firing suffix."""
        literal = sum(map(len, self.literals))
        variable = sum(
            len(name) if each == "name" else VARIABLE_LENGTH_MAX[each] for each in self.variables
        )
        return literal + variable + SUFFIX_LENGTH_MAX


def compile_template(text: str) -> Template:
    """Check a template and split it.

    Raises
    ------
    InvalidTemplate
        Empty or longer than `TEMPLATE_LENGTH_MAX`, a control character, a stray brace, or an
        unknown variable; the hint lists those that exist.
    """
    if not text:
        raise InvalidTemplate(
            "idempotency key template is empty",
            pointer=_POINTER,
            hint="Leave it out for the default key, the job's id and the scheduled time.",
        )
    if len(text) > TEMPLATE_LENGTH_MAX:
        msg = f"idempotency key template has {len(text)} characters"
        raise InvalidTemplate(
            msg, pointer=_POINTER, hint=f"Write at most {TEMPLATE_LENGTH_MAX} characters."
        )
    bad = _UNPRINTABLE.search(text)
    if bad:
        msg = f"character U+{ord(bad[0]):04X} at column {bad.start() + 1} of the template"
        raise InvalidTemplate(msg, pointer=_POINTER, hint="Write printable characters only.")
    literals: list[str] = []
    variables: list[str] = []
    end = 0
    for piece in _PIECE.finditer(text):
        literals.append(_checked_literal(text, end, piece.start()))
        variables.append(_checked_variable(piece[1], piece.start(1) + 1))
        end = piece.end()
    literals.append(_checked_literal(text, end, len(text)))
    return Template(text, tuple(literals), tuple(variables))


def require_fit(template: Template, name: str) -> None:
    """Refuse a template whose key could exceed `KEY_LENGTH_MAX` for a job called `name`.

    Judged once, at registration, over the longest rendering of each variable: a key is never cut,
    since two cut keys could be equal.
    """
    length = template.length_max(name)
    if length > KEY_LENGTH_MAX:
        msg = f"idempotency key could reach {length} characters"
        raise InvalidTemplate(
            msg,
            pointer=_POINTER,
            hint=f"Shorten the template or the name; a key has at most {KEY_LENGTH_MAX}, "
            f"of which {SUFFIX_LENGTH_MAX} are kept for the suffix of manual firings.",
        )


def render(
    template: Template, *, job_id: str, name: str, scheduled_at_us: int, zone: tzinfo
) -> str:
    """Write the key of one firing.

    Parameters
    ----------
    job_id
        External id, as in `j_0000000000042`.
    scheduled_at_us
        The firing's nominal instant.
    zone
        The job's zone, in which `date`, `week`, `month` and `hour` are read; `scheduled_at` is
        written in UTC.
    """
    local = to_datetime(scheduled_at_us).astimezone(zone)
    parts = [template.literals[0]]
    for variable, literal in zip(template.variables, template.literals[1:], strict=True):
        parts.append(_value(variable, job_id, name, scheduled_at_us, local))
        parts.append(literal)
    return "".join(parts)


def default_key(job_id: str, scheduled_at_us: int) -> str:
    """Write the key of a firing whose job has no template: `j_42:1780923600`."""
    return f"{job_id}:{scheduled_at_us // US_PER_S}"


def firing_suffix(firing_id: int) -> str:
    """Write what manual and backfill firings add, so that they differ from the planned one."""
    return f":m{firing_id}"


def _checked_literal(text: str, start: int, end: int) -> str:
    literal = text[start:end]
    for index, character in enumerate(literal, start + 1):
        if character in "{}":
            msg = f"stray {character!r} at column {index} of the template"
            raise InvalidTemplate(
                msg, pointer=_POINTER, hint="Braces only enclose a variable, as in {{week}}."
            )
    return literal


def _checked_variable(name: str, column: int) -> str:
    if name not in VARIABLES:
        near = difflib.get_close_matches(name.lower(), VARIABLES, n=1)
        suggestion = f"Did you mean {near[0]}?  " if near else ""
        msg = f"unknown variable {name!r} at column {column} of the template"
        raise InvalidTemplate(
            msg, pointer=_POINTER, hint=f"{suggestion}Variables are {', '.join(VARIABLES)}."
        )
    return name


def _value(variable: str, job_id: str, name: str, scheduled_at_us: int, local: datetime) -> str:
    match variable:
        case "job_id":
            return job_id
        case "name":
            return name
        case "scheduled_at":
            return format_instant(scheduled_at_us)
        case "scheduled_at_unix":
            return str(scheduled_at_us // US_PER_S)
        case "date":
            return local.date().isoformat()
        case "week":
            year, week, _ = local.isocalendar()
            return f"{year:04}-W{week:02}"
        case "month":
            return f"{local.year:04}-{local.month:02}"
        case "hour":
            return f"{local.date().isoformat()}T{local.hour:02}{_offset(local)}"
    msg = f"no such variable: {variable}"
    raise AssertionError(msg)


def _offset(local: datetime) -> str:
    """Write the offset as `-0400`, with seconds where history had them."""
    offset_s = (local.utcoffset() or timedelta()) // timedelta(seconds=1)
    minutes, seconds = divmod(abs(offset_s), 60)
    text = f"{'-' if offset_s < 0 else '+'}{minutes // 60:02}{minutes % 60:02}"
    return f"{text}{seconds:02}" if seconds else text
