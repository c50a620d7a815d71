"""Tells addresses that only this machine can reach.

Sockets without keys or passwords are bound to such addresses alone.  Names are not resolved, since
a name may change its meaning after the check; `localhost` is reserved for loopback (RFC 6761).
"""

from __future__ import annotations

import ipaddress

from mainspring.errors import InvalidInput


def is_loopback(host: str) -> bool:
    """Return whether `host` is `localhost` or a literal loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def require_loopback(host: str, what: str) -> None:
    """Refuse any other host; `what` names the socket in the message.

    Raises
    ------
    InvalidInput
        `host` can be reached from other machines, or is a name other than `localhost`.
    """
    if not is_loopback(host):
        raise InvalidInput(
            f"{what} cannot listen on {host[:100]!r}: it has no keys yet",
            hint="Use 127.0.0.1, ::1 or localhost.",
        )
