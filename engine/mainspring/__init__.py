"""mainspring: cron at scale.  See README.md for what it promises and ARCHITECTURE.md for how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.errors import Dead, MainspringError, Retry
from mainspring.handlers import Context, Worker

if TYPE_CHECKING:
    from mainspring.engine import Engine, SyncEngine

__all__ = [
    "Context",
    "Dead",
    "Engine",
    "MainspringError",
    "Retry",
    "SyncEngine",
    "Worker",
    "__version__",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # An engine brings the database, the sockets and NumPy along; a module of handlers needs none.
    if name in {"Engine", "SyncEngine"}:
        from mainspring import engine  # noqa: PLC0415

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
