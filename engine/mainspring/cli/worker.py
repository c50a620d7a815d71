"""`mainspring worker module:object`: run firings until a signal."""

from __future__ import annotations

import os
from typing import Any

import click

from mainspring.cli.database import START_PATIENCE_S, dsn_option, open_store, require_dsn
from mainspring.cli.output import announce, announce_text, json_option
from mainspring.cli.signals import on_stop_signal
from mainspring.cli.targets import load_tasks, worker_settings
from mainspring.logs import configure
from mainspring.metrics import WorkerMetrics, serve_metrics
from mainspring.model import format_holder_id
from mainspring.parent import die_with_parent, process_name
from mainspring.store.outage import Outage
from mainspring.worker import WorkerProcess

POOL_CONNECTIONS = 3  # starter, completer, directory


@click.command()
@click.argument("target")
@click.option("--concurrency", type=int, help="Handlers at a time.  [default: 100]")
@click.option("--queue", "queues", multiple=True, help="Queue to take; repeat for more.")
@click.option("--metrics-port", type=int, help="Loopback port of /metrics.  [default: a free one]")
@dsn_option
@json_option
def worker(
    target: str, dsn: str | None, queues: tuple[str, ...], as_json: bool, **given: Any
) -> None:
    """Run the handlers of TARGET, which is `module:object`, until SIGTERM.

    SIGTERM drains: takes nothing new, gives back what is not started, finishes what runs.
    All settings of WorkerSettings can be given as MAINSPRING_* variables.
    """
    die_with_parent(os.environ)
    configure("worker")
    tasks = load_tasks(target)
    dsn = require_dsn(dsn)
    settings = worker_settings(tasks, os.environ, given | {"queues": queues or None})
    metrics, outage = WorkerMetrics(), Outage()
    with open_store(
        dsn,
        "worker",
        pool_max=POOL_CONNECTIONS,
        outage=outage,
        patience_s=START_PATIENCE_S,
    ) as store:
        process = WorkerProcess(
            tasks, store, dsn, settings, metrics, name=process_name(), outage=outage
        )
        on_stop_signal(process.stop)
        port, stop_metrics = serve_metrics(
            metrics.registry, settings.bind_host, settings.metrics_port
        )
        if as_json:
            announce(
                {
                    "holder_id": process.holder_id,
                    "metrics_port": port,
                    "tasks": list(tasks.names),
                }
            )
        else:
            announce_text(
                f"worker {format_holder_id(process.holder_id)} runs {', '.join(tasks.names)}; "
                f"its figures: http://{settings.bind_host}:{port}/metrics"
            )
        try:
            process.run()
        finally:
            stop_metrics()
