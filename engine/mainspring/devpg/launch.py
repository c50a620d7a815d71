"""Becomes a Postgres program that dies with our process; run as a script, never imported.

Between fork and exec a few system calls have to happen in the child: ask to be killed with the
parent, leave root.  A `preexec_fn` would run them in a copy of a process that may have threads,
which can deadlock; so this small program runs them, alone, and then execs.  Its process id becomes
the server's.

    launch.py PARENT_PID MODE SIGNAL USERNS UID GID WATCH_FD PROGRAM ARGUMENT...

- MODE `prctl`: the kernel sends SIGNAL when the *thread* that forked us ends.  `pipe`: a watcher
  process sends it when the other end of WATCH_FD is closed without a byte written.
- USERNS 1: enter a fresh user namespace; root becomes a user without rights in it.
- UID, GID: drop to these; -1 leaves them.

The order matters: a change of credentials clears the death signal, so that comes last, and the
parent may have died before it was set, so it is looked for once more.

Exits with 97 if the user namespace is refused, 98 if anything else here fails, and 0 if the parent
is already gone.  It stands alone: no import of ours, so that it starts in 20 ms.

Source: prctl(2) PR_SET_PDEATHSIG, user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import os
import sys

EXIT_USERNS_REFUSED = 97
EXIT_FAILED = 98

_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER = 0x10000000


def main(argv: list[str]) -> None:
    """Do what the module says and become the program; returns only by exiting."""
    parent_pid, mode, death_signal = int(argv[0]), argv[1], int(argv[2])
    userns, uid, gid, watch_fd = (int(text) for text in argv[3:7])
    command = argv[7:]
    libc = ctypes.CDLL(None, use_errno=True)
    if mode == "pipe":
        # Before root is left: the watcher has to be allowed to signal the server.
        _start_watcher(watch_fd, os.getpid(), death_signal)
    if userns and libc.unshare(_CLONE_NEWUSER) != 0:
        _fail(EXIT_USERNS_REFUSED, f"no user namespace: {os.strerror(ctypes.get_errno())}")
    try:
        if gid >= 0:
            os.setgroups([])
            os.setgid(gid)
        if uid >= 0:
            os.setuid(uid)
    except OSError as problem:
        _fail(EXIT_FAILED, f"cannot become user {uid}: {problem.strerror}")
    if mode == "prctl":
        if libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
            _fail(EXIT_FAILED, f"no death signal: {os.strerror(ctypes.get_errno())}")
        if os.getppid() != parent_pid:
            os._exit(0)
    try:
        os.execv(command[0], command)  # noqa: S606  there is no shell to want here
    except OSError as problem:
        _fail(EXIT_FAILED, f"cannot run {command[0]} as user {uid}: {problem.strerror}")


def _start_watcher(watch_fd: int, target_pid: int, death_signal: int) -> None:
    """Leave an orphan behind that signals `target_pid` at the end of the pipe.

    An orphan, since a postmaster must not find a child it did not start.  A byte in the pipe means
    that the server has already been seen to end, and that its id may be another's by now.
    """
    middle_pid = os.fork()
    if middle_pid != 0:
        os.waitpid(middle_pid, 0)
        os.close(watch_fd)
        return
    if os.fork() != 0:
        os._exit(0)
    try:
        # Only the pipe: an inherited lock would be held for as long as this process lives.
        os.closerange(0, watch_fd)
        os.closerange(watch_fd + 1, os.sysconf("SC_OPEN_MAX"))
        if os.read(watch_fd, 1) == b"":
            os.kill(target_pid, death_signal)
    finally:
        os._exit(0)


def _fail(code: int, text: str) -> None:
    sys.stderr.write(f"mainspring: {text}\n")
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
