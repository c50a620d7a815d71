"""The thread that brings the cursors of a shard to this process' zone data, once for each term.

Beside the pulse and the claimers, since a large shard takes minutes and nobody is to wait for it.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from mainspring.core.preparation import Leadership
from mainspring.core.rezoning import Outcome, Rezoning, rezone_shard
from mainspring.cron import tzdata_version
from mainspring.errors import MainspringError, StoreUnavailable, TermLost
from mainspring.logs import get_logger
from mainspring.metrics import SchedulerMetrics
from mainspring.store.protocol import Store

PAUSE_S: Final = 1.0
"""Before a walk that the store broke off is begun again."""

ZONES_NAMED_MAX: Final = 20

log = get_logger("mainspring.scheduler")


class Rezoner:
    """Looks at each shard that is led, and walks over it if its zone data is another.

    Parameters
    ----------
    on_bug
        Is told what no store raises; the thread is over then.
    """

    def __init__(
        self, store: Store, metrics: SchedulerMetrics, *, on_bug: Callable[[BaseException], None]
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._on_bug = on_bug
        self._version = tzdata_version()
        self._begun: queue.SimpleQueue[Leadership | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rezoner", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def on_term(self, who: Leadership) -> None:
        """Have a shard looked at, from any thread."""
        self._begun.put(who)

    def stop(self) -> None:
        """End the thread after the page under way; the next term begins anew."""
        self._stopping.set()
        self._begun.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while (who := self._begun.get()) is not None and not self._stopping.is_set():
            try:
                self._look(who)
            except BaseException as error:  # noqa: BLE001  handed to the loop, which ends with it
                self._on_bug(error)
                return

    def _look(self, who: Leadership) -> None:
        try:
            walk = rezone_shard(self._store, who, self._version, self._stopping.is_set)
        except TermLost:
            return  # whoever leads next looks as well
        except StoreUnavailable as error:
            log.failed("time zones not checked yet", error, shard=who.shard)
            self._stopping.wait(PAUSE_S)
            self._begun.put(who)
        except MainspringError as error:
            log.failed("time zones not checked", error, shard=who.shard)
        else:
            self._report(who.shard, walk)

    def _report(self, shard: int, walk: Rezoning) -> None:
        versions = {"from_version": walk.from_version, "to_version": walk.to_version}
        if walk.outcome is Outcome.OLDER:
            log.warning(
                "older time zone data than the cursors of the shard; left as they are",
                shard=shard,
                recorded=walk.from_version,
                package=walk.to_version,
                hint="Upgrade the tzdata package of this node, as those of the others.",
            )
            return
        counts = self._metrics.shard(shard)
        counts.zone_moved += walk.moved.total()
        counts.zone_parked += walk.parked.total()
        if walk.outcome is Outcome.DONE:
            log.info(
                "new time zone data",
                shard=shard,
                **versions,
                moved=walk.moved.total(),
                parked=walk.parked.total(),
                moved_by_zone=_named(walk.moved),
            )
        if walk.parked:
            log.warning(
                "jobs parked: their schedule or zone cannot be read any more",
                shard=shard,
                **versions,
                parked_by_zone=_named(walk.parked),
                hint="Give them another timezone: `mainspring jobs update ID --timezone ZONE`.",
            )


def _named(counts: Counter[str]) -> dict[str, int]:
    """Return the zones with most, and how many are in the others."""
    named = dict(counts.most_common(ZONES_NAMED_MAX))
    others = counts.total() - sum(named.values())
    return {**named, "others": others} if others else named
