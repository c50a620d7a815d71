"""`mainspring serve`: scheduler, API and worker on an embedded Postgres, in one command."""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from mainspring.cli.children import Child, ChildFailed, wait_any
from mainspring.cli.database import DSN_VARIABLE, dsn_option
from mainspring.cli.output import json_option, print_json
from mainspring.cli.signals import on_stop_signal
from mainspring.devpg import DevPostgres
from mainspring.errors import MainspringError
from mainspring.store.prepare import prepare_database

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
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    envvar="MAINSPRING_PORT",
    default=8080,
    show_default=True,
    help="Port of the API; 0 takes a free one.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 1024),
    default=8,
    show_default=True,
    help="How many shards a new database gets.",
)
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
    """Run everything on this machine until SIGTERM or Ctrl-C.

    \b
    mainspring serve --worker app:worker
    curl -X POST localhost:8080/api/v1/jobs -H 'content-type: application/json' \\
      -d '{"name": "hello", "schedule": "* * * * *"}'

    Other commands find its database by the MAINSPRING_DSN that it prints.
    """  # noqa: D301  \b is a character, by which click keeps line breaks
    say = _sayer(as_json=as_json)
    with contextlib.ExitStack() as stack:
        is_embedded = not dsn
        if not dsn:
            folder = data_dir.expanduser()
            say(f"starting a Postgres in {folder}")
            dsn = stack.enter_context(DevPostgres(folder)).dsn
        prepare_database(dsn, shards=shards)
        say(f"starting scheduler, API and {len(targets)} worker{'s' * (len(targets) != 1)}")
        environment = {DSN_VARIABLE: dsn, "MAINSPRING_PORT": str(port)}
        children: list[Child] = []
        stack.callback(_stop_all, children)
        stopping = threading.Event()
        on_stop_signal(stopping.set)
        for title, arguments in _commands(targets).items():
            children.append(Child(title, arguments, environment=environment))
        try:
            answers = {child.title: child.wait_ready() for child in children}
        except MainspringError:
            if stopping.is_set():
                return  # Ctrl-C goes to the children too: they were told to end, and did
            raise
        # A DSN that was given may hold a password, and whoever gave it has it.
        own_dsn = dsn if is_embedded else None
        if as_json:
            print_json({"url": answers["api"]["url"], "dsn": own_dsn, "processes": answers})
        else:
            _say_served(answers, own_dsn, has_workers=bool(targets))
        ended = wait_any(children, stopping)
        if ended is not None:
            raise ChildFailed(
                f"{ended.title} ended with exit code {ended.process.returncode}",
                hint="Its log is above.",
            )


def _commands(targets: tuple[str, ...]) -> dict[str, list[str]]:
    commands = {
        "scheduler": ["mainspring.cli", "scheduler", "--json"],
        "api": ["mainspring_api"],
    }
    for number, target in enumerate(targets, 1):
        commands[f"worker {number}"] = ["mainspring.cli", "worker", target, "--json"]
    return commands


def _sayer(*, as_json: bool) -> Callable[[str], None]:
    return (lambda _text: None) if as_json else click.echo


def _say_served(
    answers: Mapping[str, Mapping[str, Any]], own_dsn: str | None, *, has_workers: bool
) -> None:
    if own_dsn is not None:
        click.echo("for other commands, in another shell:")
        click.echo(f"  export {DSN_VARIABLE}={shlex.quote(own_dsn)}")
    click.echo("figures of each process:")
    for title, answer in answers.items():
        click.echo(f"  {title:<10} http://127.0.0.1:{answer['metrics_port']}/metrics")
    if not has_workers:
        click.echo("no --worker was given: firings wait until one comes")
    click.echo(f"mainspring serves {answers['api']['url']} (Ctrl-C ends it)")


def _stop_all(children: list[Child]) -> None:
    # Workers first, so that what they finish is still taken; all at once would do no harm.
    for child in reversed(children):
        child.terminate()
    for child in children:
        child.wait()
