"""Every benchmark runs, small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_every_benchmark_runs_at_smoke_size() -> None:
    """Sizes are small, results are checked, nothing is timed."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "bench",
            "-q",
            "--benchmark-disable",
            "-p",
            "no:cacheprovider",
        ],
        cwd=ROOT,
        env={**os.environ, "MAINSPRING_BENCH_SMOKE": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
