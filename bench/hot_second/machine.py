"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("cython", "msgspec", "numpy", "psycopg", "pyzmq", "uvloop")


def describe_machine(
    postgres_version: tuple[int, int] | None = None, packages: tuple[str, ...] = PACKAGES
) -> dict[str, object]:
    """Return processor, memory, kernel, versions, commit and load of this machine.

    Without a version of Postgres, none took part.
    """
    postgres = {"postgres": ".".join(map(str, postgres_version))} if postgres_version else {}
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **postgres,
        "packages": {name: version(name) for name in packages},
        "commit": _commit(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
