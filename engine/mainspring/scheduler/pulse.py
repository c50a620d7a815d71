"""The scheduler's pulse: beat, read clock and holders, declare deaths, campaign, renew.

One thread, one round a second.  A round that fails tells the death observer, so that nobody's
silence during an outage counts against them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from mainspring.clock import monotonic_us
from mainspring.core.observer import DeathObserver
from mainspring.election import Elector
from mainspring.errors import MainspringError, StoreUnavailable
from mainspring.logs import get_logger
from mainspring.scheduler.events import Event, Pulse, TermBegun, TermEnded, TermsRenewed
from mainspring.store.protocol import Store

PARTITION_PERIOD_US = 3_600 * 1_000_000
PRUNE_PERIOD_US = 600 * 1_000_000
PRUNE_ROWS_MAX = 3_000
"""Idempotency keys forgotten in one round, at 20 to 50 us each.  If there were as many, the next
round goes on, which outruns 2,800 effects a second."""

log = get_logger("mainspring.scheduler")


class PulseThread:
    """Tells the loop who is alive, what time it is and which shards it leads."""

    def __init__(
        self,
        store: Store,
        elector: Elector,
        holder_id: int,
        *,
        shard_count: int,
        observer: DeathObserver,
        tell: Callable[[Event], None],
        on_lost_holder: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        period_s: float,
        partition_days_ahead: int,
        history_days: int,
    ) -> None:
        self._store = store
        self._elector = elector
        self._holder_id = holder_id
        self._shard_count = shard_count
        self._observer = observer
        self._tell = tell
        self._on_lost_holder = on_lost_holder
        self._on_failure = on_failure
        self._period_s = period_s
        self._partition_days_ahead = partition_days_ahead
        self._history_days = history_days
        self._next_partitions_us = monotonic_us() + PARTITION_PERIOD_US
        self._next_prune_us = monotonic_us()
        self._terms: dict[int, int] = {}
        self._given_up: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Start the thread; it makes its first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, resign every shard and say that this holder leaves.

        A store that does not answer is asked once: closing the elector frees the shards by itself.
        """
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        is_told = self._end(list(self._terms.items()))
        self._elector.close()
        if not is_told:
            return
        try:
            self._store.leave(self._holder_id)
        except MainspringError as error:
            log.failed("could not say goodbye", error)

    def give_up(self, shard: int, term: int) -> None:
        """Have a term ended, from any thread: the loop threw the shard's state away.

        Were the term renewed instead, nobody would lead the shard.
        """
        self._given_up.put((shard, term))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._round()
            except StoreUnavailable as error:
                self._observer.on_failure(monotonic_us())
                log.failed("pulse failed", error)
            except BaseException as error:  # noqa: BLE001  handed to the loop, which ends with it
                self._on_failure(error)
                return
            self._stopping.wait(self._period_s)

    def _round(self) -> None:
        if not self._store.beat(self._holder_id):
            # Somebody saw us silent for too long.  What we lead is already another's to take.
            self._on_lost_holder()
            return
        sent_us = monotonic_us()
        reading = self._store.read_holders()
        received_us = monotonic_us()
        for death in self._observer.on_reading(received_us, reading):
            if death.holder_id == self._holder_id:
                continue
            if self._store.declare_dead(death.holder_id, death.beat):
                log.warning("holder declared dead", holder_id=death.holder_id)
                reading.holders[:] = [
                    holder for holder in reading.holders if holder.holder_id != death.holder_id
                ]
        extension_us = self._observer.extension_us(received_us)
        self._tell(Pulse(sent_us, received_us, reading, extension_us))
        self._renew()
        self._campaign()
        self._keep_partitions()
        self._prune_keys()

    def _keep_partitions(self) -> None:
        if monotonic_us() < self._next_partitions_us:
            return
        self._next_partitions_us = monotonic_us() + PARTITION_PERIOD_US
        self._store.make_partitions(days_ahead=self._partition_days_ahead)
        self._store.drop_partitions(history_days=self._history_days)
        if self._store.default_partition_rows():
            log.error("runs without a partition of their day", hint="Run mainspring migrate.")

    def _prune_keys(self) -> None:
        if monotonic_us() < self._next_prune_us:
            return
        # Set first: a batch that fails costs one round's readings, not every round's.
        self._next_prune_us = monotonic_us() + PRUNE_PERIOD_US
        count = self._store.prune_keys(history_days=self._history_days, limit=PRUNE_ROWS_MAX)
        if count == PRUNE_ROWS_MAX:
            self._next_prune_us = monotonic_us()

    def _renew(self) -> None:
        while not self._given_up.empty():
            shard, term = self._given_up.get()
            if self._terms.get(shard) == term:
                self._end([(shard, term)])
        self._end([each for each in self._terms.items() if not self._elector.is_elected(each[0])])
        if not self._terms:
            return
        sent_us = monotonic_us()
        standing = self._store.renew_terms(self._holder_id, dict(self._terms))
        self._tell(TermsRenewed(frozenset(standing), sent_us))
        lost = [each for each in self._terms.items() if each[0] not in standing]
        if lost:
            log.warning("terms lost", shards=[shard for shard, _ in lost])
        self._end(lost)

    def _campaign(self) -> None:
        for shard in range(self._shard_count):
            if shard not in self._terms and self._elector.campaign(shard):
                sent_us = monotonic_us()
                term = self._store.take_term(shard, self._holder_id)
                self._terms[shard] = term
                self._tell(TermBegun(shard, term, sent_us))
                log.info("term begun", shard=shard, term=term)

    def _end(self, terms: list[tuple[int, int]]) -> bool:
        """Lead these no more; returns whether the store could be told.

        The first refusal is the last question: each may take seconds, and what is not told is
        overruled by the next term anyway.
        """
        for shard, _ in terms:
            del self._terms[shard]
            self._tell(TermEnded(shard))
        try:
            for shard, term in terms:
                self._store.end_term(shard, term, self._holder_id)
                self._elector.resign(shard)
        except MainspringError as error:
            log.failed("could not resign", error, count=len(terms))
            return False
        return True
