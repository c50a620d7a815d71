"""The benchmark's handler, and the log of its own that each worker process keeps.

The log is binary, five int64 a run, appended in blocks: job_id, scheduled_us, attempt, fence, and
the wall clock when the handler began.
"""

from __future__ import annotations

import atexit
import os
import time
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.hot_second.load import TASK
from mainspring import Context, Worker

LOG_VARIABLE = "MAINSPRING_BENCH_LOG_DIR"
COLUMNS = 5
FLUSH_VALUES = 50_000

worker = Worker()
_rows = array("q")


@worker.task(TASK)
async def noop(ctx: Context, _payload: Any) -> None:
    """Do nothing but say that it began."""
    facts = ctx.facts
    _rows.extend(
        (facts.job, facts.scheduled_us, facts.attempt, facts.fence, time.time_ns() // 1_000)
    )
    if len(_rows) >= FLUSH_VALUES:
        flush()


@atexit.register
def flush() -> None:
    """Append what is held to this process's log."""
    folder = os.environ.get(LOG_VARIABLE)
    if folder and _rows:
        with (Path(folder) / f"worker-{os.getpid()}.log").open("ab") as file:
            _rows.tofile(file)
        del _rows[:]


def read_logs(folder: Path) -> NDArray[np.int64]:
    """Return every logged run, int64, shape (n, 5), columns as in the module's docstring."""
    logs = [np.fromfile(path, np.int64) for path in sorted(folder.glob("worker-*.log"))]
    return np.concatenate([np.empty(0, np.int64), *logs]).reshape(-1, COLUMNS)
