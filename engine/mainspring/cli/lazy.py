"""A command group that imports a command when it is used, and reports bad usage as a problem.

`mainspring --help` must not import NumPy, psycopg and ZeroMQ to print twenty lines.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from mainspring.cli.output import fail
from mainspring.errors import InvalidInput, MainspringError


class LazyGroup(click.Group):
    """Commands by name, each with its place, `module:object`, and its line in the help."""

    def __init__(
        self, *arguments: Any, commands_by_name: Mapping[str, tuple[str, str]], **keywords: Any
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._commands_by_name = commands_by_name

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as a program; with `--json` bad usage is one JSON value on stdout, as any problem."""
        arguments = sys.argv[1:] if args is None else list(args)
        if not standalone_mode or "--json" not in arguments:
            return super().main(arguments, prog_name, complete_var, standalone_mode, **extra)
        try:
            code = super().main(arguments, prog_name, complete_var, False, **extra)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = context.command_path if context is not None else self.name
            message = error.format_message().rstrip(".")
            fail(
                InvalidInput(
                    message[:1].lower() + message[1:], hint=f"See `{path} --help` for its options."
                ),
                as_json=True,
            )
        except click.Abort:
            fail(MainspringError("interrupted"), as_json=True)
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's face
        """Return the names, in the order in which they are taught."""
        return list(self._commands_by_name)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  click's face
        cmd_name: str,
    ) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        if cmd_name not in self._commands_by_name:
            return None
        module, _, attribute = self._commands_by_name[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._commands_by_name.items()])
