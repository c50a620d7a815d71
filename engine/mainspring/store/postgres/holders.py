"""Live processes and their heartbeats in Postgres."""

from __future__ import annotations

from mainspring.model import HolderId
from mainspring.store.postgres.connection import Session
from mainspring.store.postgres.database import Part
from mainspring.store.protocol import HolderBeat, HolderReading


class PostgresHolders(Part):
    """The facet `HolderStore`; see `mainspring.store.protocol`."""

    def register_holder(self, kind: str, address: str, name: str) -> HolderId:
        """Draw a new id; rows of the long gone go on this occasion."""

        def work(session: Session) -> HolderId:
            execute = self._database.execute
            execute(session, "prune_holders")
            ((holder_id,),) = execute(
                session, "register_holder", kind=kind, address=address, name=name
            )
            return HolderId(holder_id)

        return self._database.transact(work)

    def beat(self, holder_id: int) -> bool:
        """Beat once; False means that this holder was declared dead, or left."""
        return bool(self._database.rows_of("beat", holder=holder_id))

    def read_holders(self) -> HolderReading:
        """Return the living and their beats."""
        rows = self._database.rows_of("read_holders")
        # The clock and the server are asked beside the holders, so that a reading of nobody
        # still says when and by whom.
        *_, (_, _, _, _, _, _, server_started_us, read_us) = rows
        living = [HolderBeat(*row[:6]) for row in rows if row[0] is not None]
        return HolderReading(living, server_started_us, read_us)

    def declare_dead(self, holder_id: int, beat: int) -> bool:
        """Declare a holder dead, unless it has beaten since `beat` was read."""
        return bool(self._database.rows_of("declare_dead", holder=holder_id, beat=beat))

    def leave(self, holder_id: int) -> bool:
        """Say that this holder exits cleanly."""
        return bool(self._database.rows_of("leave", holder=holder_id))

    def database_us(self) -> int:
        """Read the database clock."""
        ((now_us,),) = self._database.rows_of("database_clock")
        return int(now_us)
