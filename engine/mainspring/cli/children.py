"""Processes of ours as children: started, awaited until ready, stopped, never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.cli.output import EXIT_BAD_INPUT
from mainspring.clock import monotonic_s, sleep_s
from mainspring.errors import InvalidInput, MainspringError
from mainspring.parent import VARIABLE as PARENT_VARIABLE

READY_S = 30.0
STOP_S = 40.0


class ChildFailed(MainspringError):
    """A child ended before it was ready, or without being asked to."""


class Child:
    """One process: `python -m ARGUMENTS`, dying with this one.

    Its stdout's first line is one JSON value that says it is ready; stderr goes to `log_path`, or
    to ours.  Start children from the main thread (see parent.py).
    """

    def __init__(
        self,
        title: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        log_path: Path | None = None,
    ) -> None:
        self.title = title
        self.log_path = log_path
        self._line: bytes | None = None
        self._has_line = threading.Event()
        log = log_path.open("ab") if log_path else None
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env={**os.environ, **environment, PARENT_VARIABLE: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        finally:
            if log is not None:
                log.close()
        self._reader = threading.Thread(target=self._read, name=f"{title}-stdout", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def wait_ready(self, timeout_s: float = READY_S) -> dict[str, Any]:
        """Return what it said when it was ready.

        Raises
        ------
        InvalidInput
            It ended because of its input, and said so.
        ChildFailed
            It ended for another reason, or never became ready.
        """
        deadline_s = monotonic_s() + timeout_s
        while not self._has_line.wait(0.05):
            if self.has_ended or monotonic_s() > deadline_s:
                break
        self._has_line.wait(0.5)
        if not self._line:
            raise ChildFailed(
                f"{self.title} did not become ready",
                detail=self._last_words(),
                hint=f"Its log is {self.log_path}." if self.log_path else "Its log is above.",
            )
        answer: dict[str, Any] = msgspec.json.decode(self._line)
        if "problem" in answer:
            kind = InvalidInput if self.wait() == EXIT_BAD_INPUT else ChildFailed
            raise kind(
                f"{self.title}: {answer['problem']}",
                detail=answer.get("detail"),
                hint=answer.get("hint"),
            )
        return answer

    def terminate(self) -> None:
        """Ask it to end."""
        if not self.has_ended:
            self.process.terminate()

    def wait(self, timeout_s: float = STOP_S) -> int:
        """Return its exit code; kills it if it has not ended by then."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._reader.join()
        return code

    def stop(self) -> int:
        """Ask it to end and wait for it."""
        self.terminate()
        return self.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if self._line is None:
                    self._line = line
                    self._has_line.set()
        self._has_line.set()

    def _last_words(self) -> str | None:
        if self.log_path is None or not self.log_path.exists():
            return None
        return self.log_path.read_text(errors="replace")[-2_000:].strip() or None


def wait_any(children: Sequence[Child], stopping: threading.Event) -> Child | None:
    """Wait until a child ends or `stopping` is set; returns the child, or None."""
    while not stopping.is_set():
        for child in children:
            if child.has_ended:
                return child
        sleep_s(0.1)
    return None
