"""Reads every run and every open firing as arrays, for audits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mainspring.claim import Codes, decode_copy
from mainspring.store.postgres.database import Database

RUN_KINDS = "88ttt44bc"
OPEN_KINDS = "88tt84b"
Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """All recorded attempts, one array per column, shape (n,), oldest first.

    `started_us` is -2**63 for what never started.
    """

    firing_id: Int64s
    job_id: Int64s
    scheduled_us: Int64s
    started_us: Int64s
    finished_us: Int64s
    attempt: NDArray[np.int32]
    missed_count: NDArray[np.int32]
    catch_up: NDArray[np.uint8]
    status: Codes


@dataclass(frozen=True, slots=True)
class OpenFirings:
    """Firings that are due or started, one array per column, shape (n,)."""

    firing_id: Int64s
    job_id: Int64s
    scheduled_us: Int64s
    due_us: Int64s
    fence: Int64s
    attempt: NDArray[np.int32]
    is_started: NDArray[np.uint8]


class Audit:
    """A reader of one database."""

    def __init__(self, dsn: str) -> None:
        self._database = Database(dsn, "mainspring audit", 1, None)

    def runs(self) -> RecordedRuns:
        """Return every recorded run."""
        columns: list[Any] = list(decode_copy(self._database.copy_of("audit_runs"), RUN_KINDS))
        codes, values = columns[-1]
        columns[-1] = Codes(codes, tuple(values))
        return RecordedRuns(*columns)

    def open_firings(self) -> OpenFirings:
        """Return every firing without an end."""
        columns: list[Any] = list(decode_copy(self._database.copy_of("audit_open"), OPEN_KINDS))
        return OpenFirings(*columns)

    def close(self) -> None:
        """Give the connection up."""
        self._database.close()
