"""`mainspring worker module:object`: run firings until a signal."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from mainspring.cli.database import dsn_option, open_store, process_name, require_dsn
from mainspring.cli.output import json_option, print_json
from mainspring.cli.signals import on_stop_signal
from mainspring.config import WorkerSettings, read_environment
from mainspring.errors import InvalidInput
from mainspring.handlers import Tasks, Worker
from mainspring.logs import configure
from mainspring.metrics import WorkerMetrics, serve_metrics
from mainspring.parent import die_with_parent
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
    settings = read_environment(
        WorkerSettings, _defaults_of(tasks) | dict(os.environ), given | {"queues": queues or None}
    )
    metrics = WorkerMetrics()
    with open_store(dsn, "worker", pool_max=POOL_CONNECTIONS) as store:
        process = WorkerProcess(tasks, store, dsn, settings, metrics, name=process_name())
        on_stop_signal(process.stop)
        port, stop_metrics = serve_metrics(
            metrics.registry, settings.bind_host, settings.metrics_port
        )
        if as_json:
            print_json(
                {
                    "holder_id": process.holder_id,
                    "metrics_port": port,
                    "tasks": list(tasks.names),
                }
            )
        try:
            process.run()
        finally:
            stop_metrics()


def _defaults_of(tasks: Tasks) -> dict[str, str]:
    """Return what the program says of itself, as if the environment had said it."""
    defaults = {}
    if isinstance(tasks, Worker) and tasks.concurrency is not None:
        defaults["MAINSPRING_CONCURRENCY"] = str(tasks.concurrency)
    if isinstance(tasks, Worker) and tasks.queues is not None:
        defaults["MAINSPRING_QUEUES"] = ",".join(tasks.queues)
    return defaults


def load_tasks(target: str) -> Tasks:
    """Import `module:object`; the current directory is looked in first."""
    module_name, separator, attribute = target.partition(":")
    if not separator or not module_name or not attribute:
        raise InvalidInput(
            f"{target!r} does not name an object",
            hint="Write it as module:object, as in app:tasks.",
        )
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  a path entry is text
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInput(
            f"cannot import {module_name!r}: {error}",
            hint="Run from the folder that holds it, or install it.",
        ) from error
    tasks = getattr(module, attribute, None)
    if not isinstance(tasks, Tasks):
        raise InvalidInput(
            f"{target!r} is not a set of tasks",
            detail=f"It is {type(tasks).__name__}.",
            hint="Define it as `worker = mainspring.Worker()` and decorate handlers with "
            "`@worker.task()`.",
        )
    if not tasks.names:
        raise InvalidInput(
            f"{target!r} has no handlers", hint="Decorate functions with `@worker.task()`."
        )
    return tasks
