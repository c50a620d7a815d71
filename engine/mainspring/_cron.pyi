from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class ZoneTable:
    def put_year(self, year: int, segments: Sequence[tuple[int, int, int]]) -> None: ...

class CronSpec:
    zone: ZoneTable
    def __init__(self, zone: ZoneTable, **sets: Any) -> None: ...

class Answers:
    def __init__(self, answers_max: int) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...

def next_wall(cron: CronSpec, from_min: int) -> int | None: ...
def next_one(cron: CronSpec, after_us: int) -> tuple[int, int]: ...
def next_batch(
    crons: list[CronSpec],
    handles: NDArray[np.int32],
    after_us: NDArray[np.int64],
    next_us: NDArray[np.int64],
    first: int,
    answers: Answers | None = None,
) -> tuple[int, int]: ...
