"""`mainspring serve`: scheduler, API and worker on an embedded Postgres, in one command."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import click

from mainspring.cli.children import Child, ChildFailed, wait_any
from mainspring.cli.database import DSN_VARIABLE, dsn_option
from mainspring.cli.migrate import prepare_database
from mainspring.cli.output import json_option, print_json
from mainspring.cli.signals import on_stop_signal
from mainspring.devpg import DevPostgres

DEFAULT_DATA_DIR = Path("~/.local/share/mainspring/postgres")


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_DATA_DIR,
    show_default=True,
    help="Where the embedded Postgres keeps its data between runs.",
)
@click.option("--worker", "targets", multiple=True, help="module:object; repeat for more workers.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8080, show_default=True)
@click.option("--shards", type=click.IntRange(1, 1024), default=8, show_default=True)
@dsn_option
@json_option
def serve(
    dsn: str | None,
    data_dir: Path,
    targets: tuple[str, ...],
    port: int,
    shards: int,
    as_json: bool,
) -> None:
    r"""Run everything on this machine until SIGTERM or Ctrl-C.

    \b
    mainspring serve --worker app:worker
    curl -X POST localhost:8080/api/v1/jobs -H 'content-type: application/json' \
      -d '{"name": "hello", "schedule": "* * * * *"}'
    """
    with contextlib.ExitStack() as stack:
        if not dsn:
            postgres = stack.enter_context(DevPostgres(data_dir.expanduser()))
            dsn = postgres.dsn
        prepare_database(dsn, shards=shards)
        environment = {DSN_VARIABLE: dsn, "MAINSPRING_PORT": str(port)}
        commands = {
            "scheduler": ["mainspring.cli", "scheduler", "--json"],
            "api": ["mainspring_api"],
        }
        for i, target in enumerate(targets):
            commands[f"worker {i + 1}"] = ["mainspring.cli", "worker", target, "--json"]
        children: list[Child] = []
        stack.callback(_stop_all, children)
        stopping = threading.Event()
        on_stop_signal(stopping.set)
        for title, arguments in commands.items():
            children.append(Child(title, arguments, environment=environment))
        answers = {child.title: child.wait_ready() for child in children}
        url = answers["api"]["url"]
        if as_json:
            print_json({"url": url, "processes": answers})
        else:
            click.echo(f"mainspring serves {url} (Ctrl-C ends it)")
            if not targets:
                click.echo("no --worker was given: firings wait until one comes")
        ended = wait_any(children, stopping)
        if ended is not None:
            raise ChildFailed(
                f"{ended.title} ended with exit code {ended.process.returncode}",
                hint="Its log is above.",
            )


def _stop_all(children: list[Child]) -> None:
    # Workers first, so that what they finish is still taken; all at once would do no harm.
    for child in reversed(children):
        child.terminate()
    for child in children:
        child.wait()
