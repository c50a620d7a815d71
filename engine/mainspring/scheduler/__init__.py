"""The scheduler process: drives the leaders of its shards with real time, store and sockets.

Threads: the *loop* owns every core object and the sockets; the *pulse* beats, reads the clock and
the holders, campaigns and renews; the *claimers* carry out the leaders' requests on the store; the
*listener* takes hints.  They talk to the loop through one inbox, and the loop never waits for the
database, so a slow statement delays its own shard only.
"""

from __future__ import annotations

from mainspring.scheduler.lives import SchedulerLives
from mainspring.scheduler.process import Scheduler

__all__ = ["Scheduler", "SchedulerLives"]
