"""What the scheduler's threads tell its loop."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.core.requests import Answer
from mainspring.store.protocol import HolderReading


@dataclass(frozen=True, slots=True)
class TermBegun:
    """A shard is led by this process; the term was asked for at `sent_us`."""

    shard: int
    term: int
    sent_us: int


@dataclass(frozen=True, slots=True)
class TermsRenewed:
    """The terms that still stand, by a renewal sent at `sent_us`."""

    shards: frozenset[int]
    sent_us: int


@dataclass(frozen=True, slots=True)
class TermEnded:
    """A shard is not this process' any more."""

    shard: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """A good reading of clock and holders, between two monotonic instants."""

    sent_us: int
    received_us: int
    reading: HolderReading
    extension_us: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a leader's request, made under `term`."""

    shard: int
    term: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Hinted:
    """A firing of a shard is due; id 0 stands for any."""

    shard: int
    due_us: int
    firing_id: int


@dataclass(frozen=True, slots=True)
class HintsLost:
    """The connection that hears hints broke for a while."""


Event = TermBegun | TermsRenewed | TermEnded | Pulse | Answered | Hinted | HintsLost
