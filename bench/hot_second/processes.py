"""Processor time of process trees, from /proc.

Source: proc(5), /proc/[pid]/stat: utime, stime, cutime, cstime.
"""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree_cpu_s(root_pid: int) -> float:
    """Return the processor time of a process, of its descendants, and of those it has reaped."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue  # it ended meanwhile; its parent has its time
        # The name in parentheses may hold anything.
        words = text[text.rindex(")") + 2 :].split()
        pid = int(entry.name)
        parents[pid] = int(words[1])
        used[pid] = sum(int(word) for word in words[11:15]) / _TICKS_PER_S
    return sum(
        seconds
        for pid, seconds in used.items()
        if pid == root_pid or _descends(pid, root_pid, parents)
    )


def _descends(pid: int, root_pid: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        pid = parents.get(pid, 0)
        if pid == root_pid:
            return True
    return False
