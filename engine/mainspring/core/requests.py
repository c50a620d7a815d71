"""What a shard's leader asks its driver to do on the store, and the answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mainspring.core.catch_up import LargeCatchUp
from mainspring.store.protocol import StartedRun

Int64s = NDArray[np.int64]


def _none() -> Int64s:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Refill:
    """Read ids and due times in [from_us, until_us) for the wheel."""

    from_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class ClaimPage:
    """Claim the next firings beyond the key `after`, due by `until_us`."""

    after: tuple[int, int]
    until_us: int
    limit: int


@dataclass(frozen=True, slots=True, eq=False)
class ClaimIds:
    """Claim named firings; a fence of -1 means: unless this leader has leased it."""

    firing_ids: Int64s
    fences: Int64s
    until_us: int


@dataclass(frozen=True, slots=True)
class SweepUnleased:
    """Look for unstarted rows at or before the cursor that the leader may not know."""

    cursor: tuple[int, int]
    full: bool
    limit: int


@dataclass(frozen=True, slots=True)
class SweepEnded:
    """Look for started rows whose worker is dead or whose lease ran out, and end them.

    `asked_us` is the database time at which it was asked, at the latest, as the leader knows it.
    """

    extension_us: int
    asked_us: int


Request = Refill | ClaimPage | ClaimIds | SweepUnleased | SweepEnded


@dataclass(frozen=True, slots=True, eq=False)
class Refilled:
    """Answer to `Refill`; `is_full` means that there was more than the limit."""

    firing_ids: Int64s
    due_us: Int64s
    is_full: bool


@dataclass(frozen=True, slots=True, eq=False)
class PreparedFrame:
    """Leased firings, encoded; released at `release_tick`.

    `data` is the frame as it goes on the wire; `is_catch_up` means that live ones go first.  The
    arrays are its ledger entry, shape (n,).
    """

    shard: int
    frame_no: int
    queue: str
    task: str
    release_tick: int
    firing_ids: Int64s
    fences: Int64s
    due_us: Int64s
    data: bytes
    is_catch_up: bool = False

    def __len__(self) -> int:
        return len(self.firing_ids)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Answer to a claim.

    `last` is the key of the last row, None if nothing was claimed; `missed_job_ids` are the first
    few jobs of which occurrences were missed, `dropped_count` how many of those nothing will run,
    and `large` the catch-ups that begin and are worth an alert.  `put_off_ids` and `put_off_us`,
    shape (k,), are firings whose lease ended, and when each is due.
    """

    frames: list[PreparedFrame]
    claimed_count: int
    last: tuple[int, int] | None
    missed_count: int
    claimed_us: int | None
    missed_job_ids: list[int] = field(default_factory=list)
    dropped_count: int = 0
    large: list[LargeCatchUp] = field(default_factory=list)
    put_off_ids: Int64s = field(default_factory=_none)
    put_off_us: Int64s = field(default_factory=_none)


@dataclass(frozen=True, slots=True, eq=False)
class Swept:
    """Answer to `SweepUnleased`, parallel arrays; `is_full` means that there may be more."""

    firing_ids: Int64s
    fences: Int64s
    is_mine: NDArray[np.uint8]
    is_full: bool


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """Answer to `SweepEnded`: the dead runs that were ended, and when each is due again.

    `is_full` means that there may be more.
    """

    runs: list[StartedRun]
    due_us: list[int]
    retried_count: int
    letter_count: int
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The store did not answer; whether it did the request is unknown."""

    error: Exception


Answer = Refilled | Prepared | Swept | Ended | Failed
