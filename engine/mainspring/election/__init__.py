"""Who may ask for a shard's next term.  The protocol, before any code.

An elector decides who *asks*; it never decides who leads.  The term is always
`shards.term + 1 RETURNING` in Postgres, every claim compares it there, and so two processes that
both believe they were elected cannot both claim.

Each call is about one shard:

1. `campaign` says whether this process may ask for the next term now.  It does not wait.
2. `is_elected` says whether that still stands.  A session that broke, or silence for longer than
   the elector can vouch for, is a no.  A holder acts on a yes only within its own trust window.
3. `resign` gives way to others; it is never an error.

After a broken session nothing is remembered: campaign again.

Implementations: Postgres, by a session advisory lock, which the server frees within milliseconds
when a leader is killed.
"""

from __future__ import annotations

from typing import Protocol

from mainspring.election.postgres import LockSession, PostgresElector

__all__ = ["Elector", "LockSession", "PostgresElector"]


class Elector(Protocol):
    """Says who may ask; see the module's prose."""

    def campaign(self, shard: int) -> bool:
        """Return whether this process may ask for the shard's next term."""

    def is_elected(self, shard: int) -> bool:
        """Return whether an earlier yes still stands."""

    def resign(self, shard: int) -> None:
        """Give way."""

    def close(self) -> None:
        """Give way on every shard, and end the session."""
