"""What an engine is made with, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar, Unpack, cast

import msgspec

from mainspring.config import SchedulerSettings, WorkerSettings
from mainspring.errors import InvalidInput
from mainspring.handlers import Tasks, Worker

SHARDS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Embedded:
    """A Postgres that the engine brings along, kept in a folder or thrown away."""

    data_dir: Path | None = None


class Options(TypedDict, total=False):
    """Keyword arguments of `Engine` and `SyncEngine`.

    The environment is not read: what is not given has the default of the settings.
    """

    shards: int
    """How many shards a new database gets; 8.  One that has shards keeps them."""
    name: str
    """What the engine is called in logs, figures and `holders`; `engine`."""
    tasks: Tasks
    """Handlers that are registered elsewhere, as a `Worker`.  None are, as a default."""
    concurrency: int
    """Handlers at a time; 100."""
    queues: Sequence[str]
    """Queues to take; `default`."""
    scheduler: SchedulerSettings
    worker: WorkerSettings
    """Every other setting; `concurrency` and `queues` win over it."""
    run_scheduler: bool
    run_worker: bool
    """Which parts run; both.  With neither the engine gives access to jobs only."""
    migrate: bool
    """Whether to bring the schema forward at the start, as `mainspring migrate` does; True."""
    metrics_port: int
    """A loopback port for /metrics, 0 for a free one.  None is opened as a default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Checked options."""

    database: str | Embedded
    tasks: Tasks
    scheduler: SchedulerSettings
    worker: WorkerSettings
    shards: int = 8
    name: str = "engine"
    run_scheduler: bool = True
    run_worker: bool = True
    migrate: bool = True
    metrics_port: int | None = None
    shards_asked: int | None = None
    """What was given for `shards`, if it was."""


def plan_of(database: str | Embedded | None, **options: Unpack[Options]) -> Plan:
    """Check the options of one engine.

    Raises
    ------
    InvalidInput
        No database, or a value that is out of its bounds; `pointer` names the option.
    TypeError
        An option that does not exist.
    """
    if database is None or (isinstance(database, str) and not database.strip()):
        raise InvalidInput(
            "no database was named",
            pointer="/dsn",
            hint="Write Engine('postgresql://user@host/database'), or Engine.embedded() for a "
            "Postgres that the engine brings along.",
        )
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"an engine has no option {min(unknown)!r}; it has "
            f"{', '.join(sorted(Options.__annotations__))}"
        )
    shards = options.get("shards", 8)
    if not 1 <= shards <= SHARDS_MAX:
        raise InvalidInput(
            f"shards is {shards}, not in 1..{SHARDS_MAX}",
            pointer="/shards",
            hint="Eight will do for some hundred thousand jobs; the number is fixed at first use.",
        )
    name = options.get("name", "engine")
    if not (0 < len(name) <= 100 and name.isprintable()):
        raise InvalidInput(
            f"bad engine name {name[:40]!a}",
            pointer="/name",
            hint="Write 1 to 100 printable characters.",
        )
    tasks = options.get("tasks", Tasks())
    scheduler = options.get("scheduler", SchedulerSettings())
    kept = {"name", "run_scheduler", "run_worker", "migrate", "metrics_port"}
    return Plan(
        database=database,
        tasks=tasks,
        shards=shards,
        shards_asked=options.get("shards"),
        scheduler=_checked(SchedulerSettings, msgspec.structs.asdict(scheduler), "scheduler"),
        worker=_checked(WorkerSettings, _worker_values(tasks, options), "worker"),
        **cast("dict[str, Any]", {key: value for key, value in options.items() if key in kept}),
    )


def _worker_values(tasks: Tasks, options: Options) -> dict[str, object]:
    """Return the worker's settings: an option wins over the struct, that over what tasks say."""
    values: dict[str, object] = {}
    if "worker" in options:
        values = msgspec.structs.asdict(options["worker"])
        _refuse_two_values(values, options)
    elif isinstance(tasks, Worker):
        said = {"concurrency": tasks.concurrency, "queues": tasks.queues}
        values = {key: value for key, value in said.items() if value is not None}
    if "concurrency" in options:
        values["concurrency"] = options["concurrency"]
    if "queues" in options:
        values["queues"] = options["queues"]
    return values


def _refuse_two_values(values: Mapping[str, object], options: Options) -> None:
    """Refuse an option that says other than the struct; what the struct has by default is none."""
    for name, default in (("concurrency", 100), ("queues", ("default",))):
        in_struct = values[name]
        if name not in options or in_struct == default:
            continue
        asked = options[name]  # type: ignore[literal-required]
        if (tuple(asked) if name == "queues" else asked) != in_struct:
            raise InvalidInput(
                f"{name} is {asked!r}, and {in_struct!r} in worker=WorkerSettings(...)",
                pointer=f"/{name}",
                hint="Give it in one place.",
            )


_Settings = TypeVar("_Settings", SchedulerSettings, WorkerSettings)


def _checked(kind: type[_Settings], values: Mapping[str, object], option: str) -> _Settings:
    """Check a settings struct: one that was made in Python has been checked by nobody."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"bad setting: {error}",
            pointer=f"/{option}",
            hint=f"See mainspring.config.{kind.__name__} for each setting and its bounds.",
        ) from None
