"""mainspring: cron at scale.  See README.md for what it promises and ARCHITECTURE.md for how."""

from __future__ import annotations

from mainspring.errors import Dead, MainspringError, Retry

__all__ = ["Dead", "MainspringError", "Retry", "__version__"]
__version__ = "0.1.0"
