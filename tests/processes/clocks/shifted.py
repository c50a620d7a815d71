"""Processes whose wall clock a test moves, by a small library that is preloaded into them."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("shifted_clock.c")
SHIFT = struct.Struct("=q")


class ShiftedClock:
    """The library, and the shift that every process with `environment` reads."""

    def __init__(self) -> None:
        # Readable for whatever user a server runs as; pytest's own folders are not.
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-clock-"))
        self._folder.chmod(0o755)
        library = self._folder / "shifted_clock.so"
        compiler = os.environ.get("CC", "cc")
        flags = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, "-o", library, SOURCE, "-ldl"], check=True)
        path = self._folder / "shift"
        path.write_bytes(SHIFT.pack(0))
        for each in (library, path):
            each.chmod(0o644)
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), SHIFT.size)
        self.environment = {
            "LD_PRELOAD": str(library),
            "MAINSPRING_TEST_CLOCK_FILE": str(path),
        }

    def shift_s(self, seconds: float) -> None:
        """Let the clock differ by so much from the machine's, at once and everywhere."""
        self._page[:] = SHIFT.pack(round(seconds * 1_000_000))

    def read_us(self) -> int:
        """Return what a process with that clock reads."""
        command = [sys.executable, "-c", "import time; print(time.time_ns() // 1000)"]
        environment = {**os.environ, **self.environment}
        said = subprocess.run(command, env=environment, check=True, capture_output=True)
        return int(said.stdout)

    def close(self) -> None:
        """Remove the files; processes that still run keep what they have."""
        self._page.close()
        shutil.rmtree(self._folder)
