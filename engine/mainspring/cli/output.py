"""How commands speak: one JSON value, or text for people; problems in Postgres' three parts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from mainspring.errors import (
    Conflict,
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


def announce(value: Any) -> None:
    """Print the JSON value by which a process says that it is ready, if somebody reads it.

    A process that serves goes on without its standard output: a reader that took the line and left,
    or none at all, is no reason to end.
    """
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            print_json(value)


def announce_text(text: str) -> None:
    """Print the line by which a process says to a person that it is ready; as `announce`."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            click.echo(text)


def print_columns(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, numbers to the right; the same for a terminal and a pipe.

    For what people read in both; machines have `--json`.
    """
    is_number = [
        all(row[i].replace(",", "").isdigit() for row in rows) for i in range(len(columns))
    ]
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, is_number, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


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
    sys.exit(EXIT_BAD_INPUT if is_input else EXIT_FAILED)
