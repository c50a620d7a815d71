"""`mainspring scheduler`: lead shards until a signal."""

from __future__ import annotations

import os
from typing import Any

import click

from mainspring.cli.database import START_PATIENCE_S, dsn_option, open_store, require_dsn
from mainspring.cli.output import announce, announce_text, json_option
from mainspring.cli.signals import on_stop_signal
from mainspring.config import SchedulerSettings, read_environment
from mainspring.election import PostgresElector
from mainspring.errors import InvalidInput
from mainspring.logs import configure
from mainspring.metrics import SchedulerMetrics, serve_metrics
from mainspring.model import format_holder_id
from mainspring.parent import die_with_parent, process_name
from mainspring.scheduler import Scheduler, SchedulerLives
from mainspring.store.outage import Outage
from mainspring.store.postgres.locks import open_lock_session

POOL_CONNECTIONS = 4  # two claimers, the pulse, the rezoner


@click.command()
@click.option("--arm-ahead-seconds", type=float, help="Claim this long before due.  [default: 3]")
@click.option("--metrics-port", type=int, help="Loopback port of /metrics.  [default: a free one]")
@dsn_option
@json_option
def scheduler(dsn: str | None, as_json: bool, **given: Any) -> None:
    """Lead every shard that no live scheduler leads, until SIGTERM.

    SIGTERM hands unsent firings back and resigns; a second one ends at once.  All settings of
    SchedulerSettings can be given as MAINSPRING_* variables.
    """
    die_with_parent(os.environ)
    configure("scheduler")
    dsn = require_dsn(dsn)
    settings = read_environment(SchedulerSettings, os.environ, given)
    metrics, outage = SchedulerMetrics(), Outage()
    with open_store(
        dsn,
        "scheduler",
        pool_max=POOL_CONNECTIONS,
        outage=outage,
        patience_s=START_PATIENCE_S,
    ) as store:
        if store.count_shards() == 0:
            raise InvalidInput(
                "the database has no shards", hint="Run `mainspring migrate --shards N` first."
            )
        process = SchedulerLives(
            lambda: Scheduler(
                store,
                PostgresElector(lambda: open_lock_session(dsn, "mainspring elector", outage)),
                settings,
                metrics,
                name=process_name(),
                hints=store.hints,
            )
        )
        on_stop_signal(process.stop)
        port, stop_metrics = serve_metrics(
            metrics.registry, settings.bind_host, settings.metrics_port
        )
        if as_json:
            announce({"holder_id": process.holder_id, "metrics_port": port})
        else:
            announce_text(
                f"scheduler {format_holder_id(process.holder_id)} leads what nobody leads; "
                f"its figures: http://{settings.bind_host}:{port}/metrics"
            )
        try:
            process.run()
        finally:
            stop_metrics()
