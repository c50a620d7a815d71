"""A scheduler and a worker within somebody else's process: `Engine` and `SyncEngine`.

**What it is.**  The scheduler and the worker that the command runs, each in a thread of the host's
process, on a Postgres of the host's or an embedded one.  Everything that holds for processes holds
for it: other engines and other processes may work on the same database, and a host that is killed
is a scheduler and a worker that died.

**Two faces.**  `Engine` is for hosts with an event loop: async handlers run on that loop, where
the host's pools and sessions belong, and no call of it blocks the loop.  `SyncEngine` is for hosts
without one: its calls block, and async handlers run on a loop of its own.  Both are thin; `life`
has what they share, `parts` what runs between start and stop.

**What it leaves alone.**  No signal handler, no logging configuration, no environment variable, no
port but the two on loopback by which scheduler and worker talk; a metrics port only if asked for.
Several engines may run in one process, start and stop in any order, and be started again.

**Failure.**  An engine is whole or it is over: when scheduler or worker ends by itself, the other
is asked to end as well, it is logged as an error, `wait` raises it at once and leaving the block
raises it at the latest.

**The end.**  Stopping drains as SIGTERM does: nothing new is taken, what is not started is given
back, what runs may finish within `drain_seconds`.  A host that ends without stopping leaves nothing
behind: the threads are daemons, and children end with their parent.
"""

from __future__ import annotations

from mainspring.engine.blocking import SyncEngine
from mainspring.engine.figures import EngineMetrics, Health
from mainspring.engine.hosted import Engine
from mainspring.engine.options import Options

__all__ = ["Engine", "EngineMetrics", "Health", "Options", "SyncEngine"]
