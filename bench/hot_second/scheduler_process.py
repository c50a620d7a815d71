"""`python -m bench.hot_second.scheduler_process`: a scheduler as it ships, with a record."""

from __future__ import annotations

import os
from pathlib import Path

from bench.hot_second.record import RecordedMetrics, RecordedStore, save
from mainspring.cli.output import announce
from mainspring.cli.signals import on_stop_signal
from mainspring.config import SchedulerSettings, read_environment
from mainspring.election import PostgresElector
from mainspring.logs import configure
from mainspring.parent import die_with_parent
from mainspring.scheduler import Scheduler, SchedulerLives
from mainspring.store.postgres.locks import open_lock_session

RECORD_VARIABLE = "MAINSPRING_BENCH_RECORD"
CLAIMS_VARIABLE = "MAINSPRING_BENCH_CLAIMS"
"""Write the record as soon as so many firings are claimed and encoded, and go on."""


def main() -> None:
    """Lead every shard until SIGTERM, then write the record."""
    die_with_parent(os.environ)
    configure("scheduler")
    dsn = os.environ["MAINSPRING_DSN"]
    settings = read_environment(SchedulerSettings, os.environ, {})
    store = RecordedStore(dsn, application_name="mainspring scheduler", pool_max=4)
    path = Path(os.environ[RECORD_VARIABLE])
    metrics = RecordedMetrics(
        prepared_wanted=int(os.environ.get(CLAIMS_VARIABLE, "0")),
        on_prepared=lambda: save(path, metrics, store),
    )
    process = SchedulerLives(
        lambda: Scheduler(
            store,
            PostgresElector(lambda: open_lock_session(dsn, "mainspring elector")),
            settings,
            metrics,
            name=f"bench:{os.getpid()}",
            hints=store.hints,
        )
    )
    on_stop_signal(process.stop)
    announce({"holder_id": process.holder_id, "pid": os.getpid()})
    try:
        process.run()
    finally:
        store.close()
        save(path, metrics, store)


if __name__ == "__main__":
    main()
