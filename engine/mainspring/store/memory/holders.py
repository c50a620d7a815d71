"""Live processes and their heartbeats; the rules of sql/holder.sql."""

from __future__ import annotations

from typing import Final

from mainspring.instants import US_PER_DAY
from mainspring.model import HolderId
from mainspring.store.memory.state import Facet, Holder, State
from mainspring.store.protocol import HolderBeat, HolderReading

KEPT_US: Final = US_PER_DAY
"""How long the row of a holder stays after its end."""


class MemoryHolders(Facet):
    """The facet `HolderStore`."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._server_started_us = state.database_now()

    def register_holder(self, kind: str, address: str, name: str) -> HolderId:
        """Draw a new id; rows of the long gone go on this occasion."""
        state = self._state
        with state.lock:
            state.last_holder_id += 1
            holder_id = HolderId(state.last_holder_id)
            now_us = state.database_now()
            for old in list(state.holders.values()):
                gone_us = old.left_us if old.dead_us is None else old.dead_us
                if gone_us is not None and gone_us < now_us - KEPT_US:
                    del state.holders[old.holder_id]
            state.holders[holder_id] = Holder(holder_id, kind, address, name, now_us)
            return holder_id

    def beat(self, holder_id: int) -> bool:
        """Beat once; False means that this holder was declared dead, or left."""
        with self._state.lock:
            holder = self._living(holder_id)
            if holder is not None:
                holder.beat += 1
            return holder is not None

    def read_holders(self) -> HolderReading:
        """Return the living and their beats, in id order."""
        state = self._state
        with state.lock:
            beats = [
                HolderBeat(
                    holder.holder_id,
                    holder.kind,
                    holder.address,
                    holder.name,
                    holder.beat,
                    holder.started_us,
                )
                for holder in state.holders.values()
                if holder.is_alive
            ]
            return HolderReading(beats, self._server_started_us, state.database_now())

    def declare_dead(self, holder_id: int, beat: int) -> bool:
        """Declare a holder dead, unless it has beaten since `beat` was read."""
        with self._state.lock:
            holder = self._living(holder_id)
            if holder is None or holder.beat != beat:
                return False
            holder.dead_us = self._state.database_now()
            return True

    def leave(self, holder_id: int) -> bool:
        """Say that this holder exits cleanly."""
        with self._state.lock:
            holder = self._living(holder_id)
            if holder is not None:
                holder.left_us = self._state.database_now()
            return holder is not None

    def database_us(self) -> int:
        """Read the clock that this store was given."""
        with self._state.lock:
            return self._state.database_now()

    def _living(self, holder_id: int) -> Holder | None:
        holder = self._state.holders.get(HolderId(holder_id))
        return holder if holder is not None and holder.is_alive else None
