"""The temporary folder of one run: the socket, and the data where it is not kept.

Its lock is inherited by the server.  So it is free only when owner, postmaster and every backend
are gone, and a folder whose lock can be taken is provably left over from a killed run.  Each start
removes those of its own user.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mainspring.devpg.locks import try_lock
from mainspring.devpg.privilege import RunAs
from mainspring.errors import DevPostgresError

PREFIX = "mainspring-pg-"

# sun_path is 108 bytes on Linux with its NUL, 104 elsewhere.
SOCKET_PATH_BYTES_MAX = 107
_SOCKET_NAME_MAX = ".s.PGSQL.65535"
_SHORT_BASE = Path("/tmp")  # noqa: S108  where TMPDIR is too long for a socket; mkdtemp makes it safe


class RunFolder:
    """A fresh, locked folder with a `s` for the socket and a place for `data`."""

    def __init__(self) -> None:
        sweep_leftovers()
        self.path, self.lock_fd = _make_locked()
        self.socket_dir = self.path / "s"
        self.socket_dir.mkdir(mode=0o700)

    def open_to(self, run_as: RunAs) -> None:
        """Let the user the server runs as reach its socket folder, and nobody read anything."""
        if run_as.is_other_user:
            self.path.chmod(0o711)
            run_as.own(self.socket_dir)

    def remove(self) -> None:
        """Remove all of it, then give the lock back."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock_fd)


def sweep_leftovers() -> None:
    """Remove run folders of this user whose owner and server are gone."""
    for base in {Path(tempfile.gettempdir()), _SHORT_BASE}:
        for folder in _own_folders(base):
            try:
                lock_fd = try_lock(folder)
            except OSError:
                continue  # another start was quicker, or it is not ours to open
            if lock_fd is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock_fd)


def _own_folders(base: Path) -> Iterator[Path]:
    try:
        entries = list(os.scandir(base))
    except OSError:
        return
    for entry in entries:
        try:
            is_ours = (
                entry.name.startswith(PREFIX)
                and entry.is_dir(follow_symlinks=False)
                and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            )
        except OSError:
            continue
        if is_ours:
            yield Path(entry.path)


def _make_locked() -> tuple[Path, int]:
    base = _base()
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        except OSError as problem:
            raise DevPostgresError(
                f"cannot make a folder in {base}: {problem.strerror}",
                hint="Set TMPDIR to a folder that can be written.",
            ) from problem
        try:
            lock_fd = try_lock(folder, wait_s=1.0)
        except FileNotFoundError:
            continue  # swept between mkdtemp and lock by a start beside us
        if lock_fd is None:
            continue
        if os.fstat(lock_fd).st_nlink != 0 and folder.is_dir():
            return folder, lock_fd
        os.close(lock_fd)


def _base() -> Path:
    """Return the temporary directory, or /tmp where that leaves no room for a socket's name."""
    tried = (Path(tempfile.gettempdir()), _SHORT_BASE)
    for base in tried:
        longest = base / f"{PREFIX}xxxxxxxx" / "s" / _SOCKET_NAME_MAX
        if len(os.fsencode(longest)) <= SOCKET_PATH_BYTES_MAX:
            return base
    raise DevPostgresError(
        f"no temporary directory is short enough for a socket: {tried[0]}",
        detail=f"a socket's path may have {SOCKET_PATH_BYTES_MAX} bytes",
        hint="Set TMPDIR to a shorter path.",
    )
