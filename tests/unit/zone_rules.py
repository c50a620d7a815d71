"""Other rules for a zone, as a new release of tzdata would bring: the real data of another zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources.abc import Traversable

import pytest

from mainspring.cron import zone


@contextmanager
def rules(data_of: Mapping[str, str]) -> Iterator[None]:
    """Let each named zone have the data of another, and none where that is ''."""
    own_data, own_names = zone._zone_data, zone.zone_names()
    dropped = {name for name, other in data_of.items() if not other}

    def data(*path: str) -> Traversable:
        name = "/".join(path[1:])
        return own_data(path[0], *data_of.get(name, name).split("/"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            zone, "_zone_data", lambda *path: data(*path) if path[1:] else own_data(*path)
        )
        patch.setattr(zone, "zone_names", lambda: own_names - dropped)
        zone._load.cache_clear()
        try:
            yield
        finally:
            zone._load.cache_clear()
