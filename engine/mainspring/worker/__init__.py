"""The worker process: drives an execution core with real sockets, store and handlers."""

from __future__ import annotations

from mainspring.worker.process import WorkerProcess

__all__ = ["WorkerProcess"]
