"""The data folder: whose it is, whether it is whole, and how it is made.

A folder is whole when it holds `PG_VERSION`.  initdb writes that file early, so it works in a
folder inside, `.mainspring-initdb`, whose entries then move up with `PG_VERSION` last.  We begin
only in an empty folder; so while the inner one exists, everything is ours and unfinished, and may
be removed and made anew.  A folder that is neither empty, nor whole, nor such a one, is refused.

Source: PostgreSQL manual, "Database File Layout"; lock file: src/backend/utils/init/miscinit.c.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

from mainspring.clock import monotonic_s, sleep_s
from mainspring.devpg import child
from mainspring.devpg.binaries import Binaries, find_major
from mainspring.devpg.locks import try_lock
from mainspring.devpg.pidfile import live_postmaster, read_postmaster_pid, take_over_pid_file
from mainspring.devpg.privilege import RunAs
from mainspring.errors import DevPostgresError

SUPERUSER = "postgres"
WORK_NAME = ".mainspring-initdb"
PASSWORD_NAME = "mainspring-tcp-password"  # noqa: S105  a file's name
LOG_NAME = "mainspring-postgres.log"

# MAXPGPATH is 1024 with its NUL, and the server appends up to about 60 bytes to the folder.
PATH_BYTES_MAX = 900

# How long a server may take to go after its owner was killed, or an owner to exit.
DYING_S = 5.0
_OWNER_WAIT_S = 0.3
_INITDB_S = 120.0

# Present in the root of a file system; not a sign of use.
_HARMLESS = frozenset({"lost+found"})


class DataFolder:
    """A data folder, locked for this process from construction to `release`.

    Raises
    ------
    DevPostgresError
        It cannot be made or read, or a server lives in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        if len(os.fsencode(self.path)) > PATH_BYTES_MAX:
            raise DevPostgresError(
                f"the path of the data folder has {len(os.fsencode(self.path))} bytes: {self.path}",
                hint=f"Postgres takes at most {PATH_BYTES_MAX} here; choose a shorter path.",
            )
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock_fd = try_lock(self.path, wait_s=_OWNER_WAIT_S)
        except OSError as problem:
            raise self._unusable(problem) from problem
        if lock_fd is None:
            raise self._is_live(read_postmaster_pid(self.path))
        self._lock_fd = lock_fd

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._lock_fd)

    @property
    def password(self) -> str | None:
        """The password TCP asks for; None in a folder that was not made by us."""
        try:
            return (self.path / PASSWORD_NAME).read_text(encoding="ascii").strip()
        except OSError:
            return None

    def prepare(self, binaries: Binaries, run_as: RunAs, *, durable: bool) -> None:
        """Make the folder ready for `postgres`, with a new cluster where there is none.

        Parameters
        ----------
        durable
            Whether a new cluster is flushed to disk.  A throw-away one need not be.

        Raises
        ------
        DevPostgresError
            See the class, and: it is not ours, or another version's, or initdb failed.
        """
        try:
            names = {entry.name for entry in self.path.iterdir()} - _HARMLESS
            if "PG_VERSION" in names:
                self._check_version(binaries)
                self.clear_stale_server()
                if WORK_NAME in names:
                    # Killed between the last move and its removal; nothing is left in it.
                    shutil.rmtree(self.path / WORK_NAME)
                if self.path.stat().st_uid == os.geteuid():
                    # Only what is ours is handed over: in another user's folder a hard link to
                    # anything could wait to be given away.
                    run_as.adopt(self.path)
            else:
                self._make_cluster(names, binaries, run_as, durable=durable)
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _make_cluster(
        self, names: set[str], binaries: Binaries, run_as: RunAs, *, durable: bool
    ) -> None:
        if names and WORK_NAME not in names:
            raise DevPostgresError(
                f"{self.path} is not empty and not a data folder of Postgres",
                detail="it holds " + ", ".join(sorted(names)[:5]),
                hint="Choose another folder; nothing in this one was touched.",
            )
        for name in names:
            leftover = self.path / name
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()
        self.path.chmod(0o700)  # the server refuses anything more open; initdb would do the same
        work = self.path / WORK_NAME
        work.mkdir(mode=0o700)
        password_file = self.path / PASSWORD_NAME
        descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            out.write(secrets.token_urlsafe(24) + "\n")
        for ours in (self.path, work, password_file):
            run_as.own(ours)
        self._run_initdb(work, password_file, binaries, run_as, durable=durable)
        for entry in sorted(work.iterdir(), key=lambda entry: entry.name == "PG_VERSION"):
            if entry.name == "PG_VERSION" and durable:
                os.fsync(self._lock_fd)  # the moves so far, before the one that declares it whole
            entry.rename(self.path / entry.name)
        work.rmdir()
        if durable:
            os.fsync(self._lock_fd)

    def _run_initdb(
        self,
        work: Path,
        password_file: Path,
        binaries: Binaries,
        run_as: RunAs,
        *,
        durable: bool,
    ) -> None:
        command = child.launch_command(
            [
                binaries.path("initdb"),
                f"--pgdata={work}",
                f"--username={SUPERUSER}",
                "--encoding=UTF8",
                "--locale=C",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                f"--pwfile={password_file}",
                *([] if durable else ["--no-sync"]),
            ],
            userns=run_as.userns,
            uid=run_as.uid,
            gid=run_as.gid,
            mode="prctl" if child.DEATH_MODE == "prctl" else "none",
            death_signal=signal.SIGKILL,
        )
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=child.server_environment(),
                # The lock is theirs too: a folder is not begun anew while a killed initdb writes.
                pass_fds=(self._lock_fd,),
                timeout=_INITDB_S,
                check=False,
            )
        except subprocess.SubprocessError as problem:
            raise DevPostgresError(
                f"initdb of {binaries.bin_dir} did not end within {_INITDB_S:.0f} s"
            ) from problem
        if done.returncode != 0 or not (work / "PG_VERSION").is_file():
            raise DevPostgresError(
                f"initdb failed in {self.path} with status {done.returncode}",
                detail=last_lines(done.stdout),
                hint=reach_hint(run_as),
            )

    def _check_version(self, binaries: Binaries) -> None:
        text = (self.path / "PG_VERSION").read_text(encoding="ascii", errors="replace").strip()
        if text != str(binaries.version[0]):
            other = find_major(int(text)) if text.isascii() and text.isdigit() else None
            raise DevPostgresError(
                f"{self.path} was made by Postgres {text}, "
                f"and {binaries.bin_dir} is Postgres {binaries.version[0]}",
                hint=f"Set MAINSPRING_PG_BIN={other.bin_dir}."
                if other is not None
                else f"Set MAINSPRING_PG_BIN to the bin directory of a Postgres {text}, "
                "or bring the folder forward with pg_upgrade, or choose an empty folder.",
            )
        if not (self.path / "global" / "pg_control").is_file():
            raise DevPostgresError(
                f"{self.path} is half a data folder: it has PG_VERSION and no global/pg_control",
                detail="it was not made by us, so it was left as it is",
                hint="Remove the folder if nothing in it matters, or choose another.",
            )

    def clear_stale_server(self) -> None:
        """Wait until a server whose owner was killed is gone, and make its pid file harmless.

        Raises
        ------
        DevPostgresError
            A postmaster stays.  It is somebody else's and was not touched.
        """
        deadline_s = monotonic_s() + DYING_S
        while (pid := live_postmaster(self.path)) is not None:
            if monotonic_s() >= deadline_s:
                raise self._is_live(pid)
            sleep_s(0.02)
        take_over_pid_file(self.path)

    def _is_live(self, pid: int | None) -> DevPostgresError:
        server = "a server that is starting" if pid is None else f"server {pid}"
        end_it = "" if pid is None else f" end it with `kill -INT {pid}`,"
        return DevPostgresError(
            f"{server} is already running in {self.path}",
            detail="a data folder has one server at a time",
            hint=f"Use the running one by its DSN,{end_it} or choose another data folder.",
        )

    def _unusable(self, problem: OSError) -> DevPostgresError:
        place = problem.filename if isinstance(problem.filename, str) else self.path
        return DevPostgresError(
            f"cannot use {self.path} as data folder: {problem.strerror}",
            detail=f"at {place}",
            hint="Choose a folder that this user may write.",
        )


def last_lines(text: str, count: int = 15) -> str:
    """Return the end of a log, for an error."""
    return "\n".join(text.strip().splitlines()[-count:])


def reach_hint(run_as: RunAs) -> str | None:
    """Return what to look at when Postgres ran as another user and failed; else None."""
    if not run_as.is_other_user:
        return None
    return (
        f"Postgres ran as user {run_as.name}, who must be able to reach the data folder and the "
        "binaries; folders above them are not opened for it."
    )
