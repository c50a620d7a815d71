"""One cluster for each test that asks, on a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.cluster.stage import Cluster


@pytest.fixture
def cluster(dsn: str, tmp_path: Path) -> Iterator[Cluster]:
    """Yield a cluster without processes yet."""
    made = Cluster(dsn, tmp_path)
    try:
        yield made
    finally:
        made.stop()
