"""Writes the key of an effect as the value of the HTTP field `Idempotency-Key`.

The key itself where it names its job, as the default one does: `j_1:1780923600`.  Other keys are
preceded by the job, `j_1/report-2026-W24`, since two jobs may render the same one and share an
account at the API.  The name of an effect follows after a slash.  Everything that is not plainly
safe in a header is percent-encoded, slash and percent sign too; a value that is too long becomes a
digest, marked by `*`.

So different (job, key, effect) have different values, and the same always have the same.

Source: draft-ietf-httpapi-idempotency-key-header-07 (the field is a structured field string,
RFC 9651 section 3.3.3); RFC 3986 section 2.
"""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote

FIELD: Final = "Idempotency-Key"

VALUE_LENGTH_MAX: Final = 255
"""Quotes included: what many APIs accept, Stripe among them."""

_AS_THEY_ARE: Final = ":@+=,"
"""Beside letters, digits and `-._~`."""


def header_value(job_id: str, key: str, effect: str, *, quoted: bool) -> str:
    """Write the value of the field.

    Parameters
    ----------
    job_id
        External id, as in `j_0000000000042`.
    key
        The firing's idempotency key.
    effect
        Name of this effect within the run; empty for the only one.
    quoted
        As a structured field string, with quotes around it; False leaves them out.

    Returns
    -------
    str
        Printable ASCII without blanks, at most `VALUE_LENGTH_MAX` characters.
    """
    value = quote(key, safe=_AS_THEY_ARE)
    if not key.startswith(f"{job_id}:"):
        value = f"{job_id}/{value}"
    if effect:
        value = f"{value}/{quote(effect, safe=_AS_THEY_ARE)}"
    if len(value) + len('""') > VALUE_LENGTH_MAX:
        value = f"{job_id}*{hashlib.sha256(value.encode()).hexdigest()}"
    # Neither a quote nor a backslash is left that would have to be escaped.
    return f'"{value}"' if quoted else value
