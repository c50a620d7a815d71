"""The program that a worker runs: its handlers, and what it says of itself."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType

from mainspring.config import WorkerSettings, read_environment
from mainspring.errors import InvalidInput
from mainspring.handlers import Tasks, Worker


def load_tasks(target: str) -> Tasks:
    """Import `module:object`; the current directory is looked in first.

    Raises
    ------
    InvalidInput
        The text names no object, its module cannot be imported (whatever that raised), or the
        object is not a set of tasks with handlers in it.
    """
    module_name, separator, attribute = target.partition(":")
    if not separator or not module_name or not attribute:
        raise InvalidInput(
            f"{target!r} does not name an object",
            hint="Write it as module:object, as in app:worker.",
        )
    module = _import(module_name)
    if not hasattr(module, attribute):
        raise InvalidInput(
            f"{module_name!r} has no {attribute!r}",
            detail=f"It was imported from {getattr(module, '__file__', None)}.",
            hint=f"Define it there, as in `{attribute} = mainspring.Worker()`.",
        )
    found = getattr(module, attribute)
    tasks = found if isinstance(found, Tasks) else getattr(found, "tasks", found)  # of an Engine
    if not isinstance(tasks, Tasks):
        raise InvalidInput(
            f"{target!r} is not a set of tasks",
            detail=f"It is of type {type(tasks).__name__}.",
            hint="Define it as `worker = mainspring.Worker()` and decorate handlers with "
            "`@worker.task()`.",
        )
    if not tasks.names:
        raise InvalidInput(
            f"{target!r} has no handlers", hint="Decorate functions with `@worker.task()`."
        )
    return tasks


def worker_settings(
    tasks: Tasks, environ: Mapping[str, str], flags: Mapping[str, object]
) -> WorkerSettings:
    """Return the settings: a flag wins over the environment, that over what the program says."""
    said = {}
    if isinstance(tasks, Worker) and tasks.concurrency is not None:
        said["MAINSPRING_CONCURRENCY"] = str(tasks.concurrency)
    if isinstance(tasks, Worker) and tasks.queues is not None:
        said["MAINSPRING_QUEUES"] = ",".join(tasks.queues)
    return read_environment(WorkerSettings, said | dict(environ), flags)


def _import(module_name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  a path entry is text
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInput(
            f"cannot import {module_name!r}: {error}", hint=_import_hint(module_name, error)
        ) from error
    except (Exception, SystemExit) as error:
        # A module is a program: a slip of its syntax, or anything it raises, is its author's.
        raise InvalidInput(
            f"cannot import {module_name!r}: {type(error).__name__}: {error}",
            detail="".join(traceback.format_tb(error.__traceback__)[-1:]).strip() or None,
            hint=f"Run `python -m {module_name}` to see it fail.",
        ) from error


def _import_hint(module_name: str, error: ImportError) -> str:
    if module_name.endswith(".py"):
        return f"Name the module, not its file: {module_name.removesuffix('.py')}."
    if error.name is None or module_name == error.name or module_name.startswith(f"{error.name}."):
        return "Run from the folder that holds it, or install it."
    return f"It imports {error.name!r}: install that in the same environment."
