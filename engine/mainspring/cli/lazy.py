"""A command group that imports a command when it is used.

`mainspring jobs list` must not import NumPy, ZeroMQ and uvicorn to print ten lines.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands by name, each named `module:object`."""

    def __init__(
        self, *arguments: Any, commands_by_name: Mapping[str, str], **keywords: Any
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._places = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's face
        """Return the names, in the order in which they are taught."""
        return list(self._places)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  click's face
        cmd_name: str,
    ) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command
