"""Decides as whom Postgres runs, since it refuses to run as root.

An ordinary user runs it as themselves.  For root the owner of the data folder decides, so that a
folder works in every later run: root's own folder is served from a user namespace, in which root
is a user without rights but still the owner of its files; another user's folder is served as that
user.  Where the machine forbids user namespaces (the stock seccomp profile of Docker does), root's
folder is handed over to the user `postgres`, or `nobody`, and stays theirs.

Only our own folders ever change owner; nothing above them is touched.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mainspring.devpg.binaries import Binaries
from mainspring.devpg.child import launch_command
from mainspring.errors import DevPostgresError

FALLBACK_USERS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class RunAs:
    """As whom a program runs: in a user namespace, as user `uid`, or (-1) as we are."""

    userns: bool = False
    uid: int = -1
    gid: int = -1
    name: str = ""

    @property
    def is_other_user(self) -> bool:
        """Whether our folders must belong to somebody else."""
        return self.uid >= 0

    def own(self, path: Path) -> None:
        """Make the user owner of one file or folder of ours; a link is not followed."""
        if self.is_other_user:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def adopt(self, folder: Path) -> None:
        """Make the user owner of a folder of ours and of all in it."""
        if not self.is_other_user:
            return
        self.own(folder)
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                self.own(Path(parent, name))


def choose_user(folder: Path, binaries: Binaries) -> RunAs:
    """Return as whom to serve the data folder `folder`, which exists.

    Raises
    ------
    DevPostgresError
        We are root, user namespaces are forbidden, and there is no user to fall back on.
    """
    if os.geteuid() != 0:
        return RunAs()
    owner = folder.stat()
    if owner.st_uid != 0:
        return RunAs(uid=owner.st_uid, gid=owner.st_gid, name=_name_of(owner.st_uid))
    if userns_works(binaries):
        return RunAs(userns=True)
    for name in FALLBACK_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunAs(uid=user.pw_uid, gid=user.pw_gid, name=name)
    raise DevPostgresError(
        "Postgres cannot run as root here",
        detail="User namespaces are forbidden, and there is neither a user "
        + " nor ".join(FALLBACK_USERS),
        hint="Run as an ordinary user, or use a running server by its DSN.",
    )


def userns_works(binaries: Binaries) -> bool:
    """Whether these binaries run in a user namespace here; tried, since no file says so."""
    command = launch_command([binaries.path("postgres"), "--version"], userns=True)
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
