"""mainspring: cron at scale.  See README.md for what it promises and ARCHITECTURE.md for how."""

from __future__ import annotations

from mainspring.errors import Dead, MainspringError, Retry
from mainspring.handlers import Context, Worker

__all__ = ["Context", "Dead", "MainspringError", "Retry", "Worker", "__version__"]
__version__ = "0.1.0"
