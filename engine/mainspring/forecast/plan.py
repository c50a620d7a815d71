"""The file of a forecast: jobs and outages in TOML.

A job has exactly the fields of a registration, read by the same rules, and up to three more:
`runs_take`, `registered_at`, `job_id`.  Every refusal says where: line and column of what is not
TOML, else a pointer such as `/jobs/3/schedule`, counted from 0.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from mainspring.cron import Schedule, parse_schedule
from mainspring.cron.every import parse_period
from mainspring.errors import InvalidInput, InvalidSchedule
from mainspring.forecast.outages import Outages
from mainspring.instants import check_range, from_datetime, parse_instant
from mainspring.model import Definition, parse_job_id
from mainspring.payload import pointer_token
from mainspring.registration import job_from, job_in

FILE_BYTES_MAX: Final = 4 * 1_048_576
JOBS_MAX: Final = 10_000
OUTAGES_MAX: Final = 1_000

_OUTAGE_KEYS: Final = ("from", "to", "what")
_TABLES: Final = ("jobs", "outages")
_SHOWN_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job as the scheduler would know it, and how long its runs take.

    `registered_us` is when it was registered; `@every` counts from it.
    """

    definition: Definition
    schedule: Schedule
    registered_us: int
    runs_take_us: int = 0

    @property
    def name(self) -> str:
        """Its name, which no other job of the plan has."""
        return self.definition.name


@dataclass(frozen=True, slots=True)
class Plan:
    """What a file asks about."""

    jobs: list[PlannedJob]
    outages: Outages


def read_plan(data: bytes, *, from_us: int) -> Plan:
    """Read a file's bytes.

    Parameters
    ----------
    from_us
        When jobs are registered that do not say.

    Raises
    ------
    InvalidInput
        Not TOML, over a limit, or a job that registration would refuse; `pointer` says where.
    """
    tables = _toml(data)
    for key in tables:
        if key not in _TABLES:
            raise InvalidInput(
                f"unknown table {_shown(key)}",
                pointer=pointer_token(key),
                hint="Write [[jobs]] and [[outages]].",
            )
    jobs: list[PlannedJob] = []
    names: set[str] = set()
    for place, table in enumerate(_array(tables, "jobs", JOBS_MAX)):
        with _at(f"/jobs/{place}"):
            job = _job(table, from_us, number=place + 1)
            if job.name in names:
                raise InvalidInput(
                    f"name {_shown(job.name)} is taken by a job above",
                    pointer="/name",
                    hint="Give each job of a forecast a name of its own.",
                )
        names.add(job.name)
        jobs.append(job)
    if not jobs:
        raise InvalidInput(
            "there are no jobs",
            pointer="/jobs",
            hint="Write [[jobs]], and under it name and schedule of a job.",
        )
    spans = []
    for place, table in enumerate(_array(tables, "outages", OUTAGES_MAX)):
        with _at(f"/outages/{place}"):
            spans.append(_outage(table))
    return Plan(jobs, Outages(spans))


def _toml(data: bytes) -> dict[str, Any]:
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInput(
            f"the file has {len(data):,} bytes",
            hint=f"Write at most {FILE_BYTES_MAX:,}; payloads change nothing here, leave them out.",
        )
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the file is not UTF-8: byte {error.start}", hint="Save it as UTF-8."
        ) from None
    except RecursionError:
        raise InvalidInput(
            "not TOML: nested too deep", hint="Nest arrays and tables less deep."
        ) from None
    except ValueError as error:
        # TOMLDecodeError is one; a number of a thousand digits raises another.
        text = str(error)
        raise InvalidInput(
            f"not TOML: {text[:1].lower()}{text[1:200]}", hint="See https://toml.io for its rules."
        ) from None


def _array(tables: Mapping[str, Any], key: str, count_max: int) -> list[dict[str, Any]]:
    found = tables.get(key, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise InvalidInput(
            f"{key} is not an array of tables", pointer=f"/{key}", hint=f"Write [[{key}]]."
        )
    if len(found) > count_max:
        raise InvalidInput(
            f"there are {len(found):,} {key}",
            pointer=f"/{key}",
            hint=f"Write at most {count_max:,} into one file.",
        )
    return found


def _job(table: dict[str, Any], from_us: int, *, number: int) -> PlannedJob:
    fields = dict(table)
    registered_us = from_us
    if "registered_at" in fields:
        registered_us = _instant(fields.pop("registered_at"), "registered_at")
    runs_take_us = _runs_take_us(fields.pop("runs_take", None))
    job_id = number
    if "job_id" in fields:
        job_id = _job_id(fields.pop("job_id"))
    for key, value in fields.items():
        if key != "payload" and isinstance(value, dt.date | dt.time):
            raise InvalidInput(
                f"{_shown(key)} is a TOML date",
                pointer=pointer_token(key),
                hint="Put it into quotes.",
            )
    new = job_from(job_in(fields), registered_us)
    schedule = parse_schedule(
        new.definition.schedule,
        new.definition.timezone,
        anchor_us=registered_us,
        job_id=job_id,
        dst_gap=new.definition.dst_gap,
        dst_overlap=new.definition.dst_overlap,
    )
    return PlannedJob(new.definition, schedule, registered_us, runs_take_us)


def _outage(table: dict[str, Any]) -> tuple[int, int]:
    for key in table:
        if key not in _OUTAGE_KEYS:
            raise InvalidInput(
                f"unknown field {_shown(key)}",
                pointer=pointer_token(key),
                hint=f"Fields of an outage are {', '.join(_OUTAGE_KEYS)}.",
            )
    for key in ("from", "to"):
        if key not in table:
            raise InvalidInput(
                f"an outage without {key}", pointer=f"/{key}", hint="Give from and to."
            )
    if table.get("what", "all") != "all":
        raise InvalidInput(
            f"what is {_shown(table['what'])}",
            pointer="/what",
            hint='Write what = "all", or leave it out: everything is down.',
        )
    from_us, to_us = _instant(table["from"], "from"), _instant(table["to"], "to")
    if to_us <= from_us:
        raise InvalidInput("it ends before it begins", pointer="/to", hint="Put to after from.")
    return from_us, to_us


def _instant(value: object, key: str) -> int:
    """Read an instant, in quotes or not."""
    with _at(f"/{key}"):
        if isinstance(value, str):
            return parse_instant(value)
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return check_range(from_datetime(value), value.isoformat())
        raise InvalidInput(
            f"{key} is no instant with an offset", hint="Write it as 2026-06-08T13:00:00Z."
        )


def _runs_take_us(value: object) -> int:
    if value is None:
        return 0
    try:
        if isinstance(value, str):
            return parse_period(value, value, 1)
    except InvalidSchedule:
        pass
    raise InvalidInput(
        f"runs_take is {_shown(value)}, not a duration of one second to ten years",
        pointer="/runs_take",
        hint="Write it as 30s, 5m or PT30S, in quotes; leave it out where runs take no time.",
    )


def _job_id(value: object) -> int:
    with _at("/job_id"):
        if isinstance(value, str):
            return parse_job_id(value)
        raise InvalidInput(
            f"job_id is {_shown(value)}", hint='Write it as job_id = "j_1", as the API gave it.'
        )


@contextmanager
def _at(pointer: str) -> Iterator[None]:
    """Put the place of what is read within before the place that an error names."""
    try:
        yield
    except InvalidInput as error:
        error.pointer = pointer + error.pointer
        raise


def _shown(value: object) -> str:
    """Quote foreign text for a message: ASCII, one line, cut."""
    text = value if isinstance(value, str) else str(value)
    return ascii(text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "...")
