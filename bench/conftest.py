"""Sizes: small in the tests, large when measured."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def size() -> int:
    """Return how many rows or timers a benchmark handles."""
    return 2_000 if os.environ.get("MAINSPRING_BENCH_SMOKE") == "1" else 500_000
