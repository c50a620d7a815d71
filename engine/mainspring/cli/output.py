"""How commands speak: one JSON value, or text for people; problems in Postgres' three parts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from mainspring.errors import (
    Conflict,
    DevPostgresError,
    InvalidInput,
    MainspringError,
    NotFound,
)

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(command: _Command) -> _Command:
    """Add `--json`, and turn errors of ours into a problem and an exit code."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, as_json: bool, **keywords: Any) -> Any:
        try:
            return command(*arguments, as_json=as_json, **keywords)
        except MainspringError as error:
            fail(error, as_json=as_json)

    option = click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON value on stdout, also for a problem.",
    )
    return option(wrapped)  # type: ignore[return-value]


def print_json(value: Any) -> None:
    """Print one JSON value and a newline."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: drawn for a terminal, tab separated for a pipe."""
    if not sys.stdout.isatty():
        click.echo("\t".join(columns))
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console  # noqa: PLC0415  only where a person looks
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def fail(error: MainspringError, *, as_json: bool) -> NoReturn:
    """Print a problem and exit: 2 for bad input, 1 for anything else."""
    is_input = isinstance(error, InvalidInput | NotFound | Conflict)
    if as_json:
        print_json(
            {
                "problem": error.message,
                "kind": type(error).__name__,
                "pointer": getattr(error, "pointer", ""),
                "detail": error.detail,
                "hint": error.hint,
            }
        )
    else:
        place = getattr(error, "pointer", "")
        click.echo(f"mainspring: {place + ': ' if place else ''}{error.message}", err=True)
        for label, text in (("detail", error.detail), ("hint", error.hint)):
            if text:
                click.echo(f"  {label}: {text}", err=True)
    is_refused_setup = isinstance(error, DevPostgresError)
    sys.exit(EXIT_BAD_INPUT if is_input and not is_refused_setup else EXIT_FAILED)
