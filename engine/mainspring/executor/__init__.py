"""Runs handlers and says how each run ended, exactly once: the protocol, in prose.

**Submit.**  `submit` hands over one run; `on_end(run_key, outcome)` is called exactly once for it,
whatever its handler does.  Ends come from several threads, also from within `submit`, so `on_end`
is quick, thread safe and raises nothing.

**Time.**  A run's time-out counts from `submit`, as its lease does, so a run that waits too long
for a slot fails as one that runs too long.  At its time-out a run has failed, whatever its handler
returns afterwards.

**What a time-out can do** depends on where the handler runs (`carriers`):

- *loop* (`async def`): the coroutine is cancelled.  One that swallows this, or that blocks the loop
  and never sees it, is given up after `grace_s`.  The loop may be the host's (`HostLoop`).
- *thread* (`def`): its `ctx.cancelled` is set and it is given up at once, since nothing can end a
  thread.
- *process*: the child and its descendants are killed, and the next run gets a new child.

A run that is *given up* has failed, but its handler still holds its slot.  Such slots are counted
in `stuck` and come back when the handler ends.

**Cancel.**  Sets `ctx.cancelled`, cancels a coroutine, and after `grace_s` does what a time-out
does.  A handler that ends by itself within that time keeps its own outcome, except for a coroutine
that was cancelled.

**Slots.**  Each of the three kinds runs at most `concurrency` handlers at a time, processes at
most `children_max`; what is beyond waits in order.  The worker bounds the sum by what it submits.

**Whatever a handler does** is an outcome: any exception, `SystemExit` too, values that are no JSON,
texts that cannot be read or stored (`outcomes`).

**What it does not do.**  A coroutine that computes for long holds up all others of its worker, and
a thread that never ends is a slot lost until the worker restarts; `isolation="process"` is for
handlers that cannot be trusted with either.
"""

from __future__ import annotations

from mainspring.executor.executor import GRACE_S, Executor
from mainspring.executor.loop import LOOP_CLOSED, HostLoop

__all__ = ["GRACE_S", "LOOP_CLOSED", "Executor", "HostLoop"]
