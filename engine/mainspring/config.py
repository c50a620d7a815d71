"""Settings of the processes, with their defaults and limits, and how the environment sets them.

Every number has its reason beside it.  `read_environment` takes `MAINSPRING_<NAME>` for each
field; a flag of the command line wins over the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from mainspring.errors import InvalidInput

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Port = Annotated[int, Meta(ge=0, le=65_535)]


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one scheduler process leads its shards."""

    shards: Annotated[int, Meta(ge=1, le=1024)] = 8
    arm_ahead_seconds: Seconds = 3.0
    """Firings are claimed this long before their time, so that the hot second's claims are spread
    over the seconds before it.  0 turns arming off."""
    tick_seconds: Annotated[float, Meta(ge=0.001, le=1)] = 0.05
    """Resolution of the wheel."""
    refill_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    horizon_seconds: Annotated[float, Meta(ge=10, le=7200)] = 600.0
    claim_page_rows: Annotated[int, Meta(ge=1, le=50_000)] = 5_000
    """Pages of 5,000 cost the same per row as one statement for all, and hold locks for 30 ms."""
    queue_firings_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 200_000
    """Claimed and unfinished firings of one shard; beyond it rows simply stay due."""
    frame_firings_max: Annotated[int, Meta(ge=1, le=4_096)] = 256
    catch_up_rate: Annotated[float, Meta(ge=0.01, le=100_000)] = 100.0
    """Catch-up runs a second and shard, so that after an outage live firings go on beside them."""
    sweep_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    unanswered_seconds: Annotated[float, Meta(ge=0.5, le=60)] = 5.0
    """A frame that nobody holds after this long is claimed anew and sent elsewhere."""
    silence_seconds: Annotated[float, Meta(ge=0.2, le=60)] = 1.0
    """A worker that said nothing for this long gets nothing new."""
    dead_after_seconds: Annotated[float, Meta(ge=1, le=600)] = 5.0
    term_ttl_seconds: Annotated[float, Meta(ge=1, le=600)] = 3.0
    term_margin_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 0.5
    history_days: Annotated[int, Meta(ge=1, le=36_500)] = 90
    partition_days_ahead: Annotated[int, Meta(ge=1, le=366)] = 7
    metrics_port: Port = 0
    """0 takes a free one and logs it."""
    bind_host: str = "127.0.0.1"


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one worker process takes and runs firings."""

    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 100
    queues: tuple[str, ...] = ("default",)
    credit_firings: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_000
    """Firings in hand from one leader; what a dead worker can delay."""
    start_ahead_seconds: Annotated[float, Meta(ge=0, le=10)] = 0.1
    """Beyond its free slots a worker starts what it measured to finish within this long."""
    complete_rows_max: Annotated[int, Meta(ge=1, le=20_000)] = 2_000
    complete_delay_seconds: Annotated[float, Meta(ge=0, le=5)] = 0.01
    lease_slack_seconds: Annotated[int, Meta(ge=1, le=3600)] = 30
    beat_seconds: Annotated[float, Meta(ge=0.1, le=10)] = 1.0
    trust_seconds: Annotated[float, Meta(ge=0.5, le=600)] = 4.0
    """A worker whose last beat was sent longer ago starts nothing; less than dead_after_seconds."""
    beacon_seconds: Annotated[float, Meta(ge=0.01, le=1)] = 0.2
    drain_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 30.0
    """How long SIGTERM waits for running handlers before it cancels them.  Their ends are waited
    for, some seconds more."""
    output_bytes_max: Annotated[int, Meta(ge=0, le=65_536)] = 4_096
    metrics_port: Port = 0
    bind_host: str = "127.0.0.1"


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the HTTP API listens and what it refuses."""

    host: str = "127.0.0.1"
    port: Port = 8080
    metrics_port: Port = 0
    body_bytes_max: Annotated[int, Meta(ge=1_024, le=16_777_216)] = 131_072
    payload_bytes_max: Annotated[int, Meta(ge=2, le=1_048_576)] = 65_536
    depth_max: Annotated[int, Meta(ge=2, le=200)] = 32
    pool_connections: Annotated[int, Meta(ge=1, le=100)] = 4


_Settings = TypeVar("_Settings", SchedulerSettings, WorkerSettings, ApiSettings)


def read_environment(
    kind: type[_Settings], environ: Mapping[str, str], overrides: Mapping[str, object]
) -> _Settings:
    """Build settings from `MAINSPRING_*` variables and from flags, which win.

    Raises
    ------
    InvalidInput
        Naming the variable, its value and what would be right.
    """
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        text = environ.get(f"MAINSPRING_{field.name.upper()}")
        if text is not None:
            values[field.name] = text.split(",") if field.name == "queues" else text
    values.update({name: value for name, value in overrides.items() if value is not None})
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"bad setting: {error}",
            hint=f"Settings come from flags or MAINSPRING_* variables; see {kind.__name__}.",
        ) from error
