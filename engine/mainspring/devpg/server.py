"""Runs one embedded Postgres: start, stop, restart, and databases in it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from mainspring.devpg import databases
from mainspring.devpg.binaries import Binaries, find_binaries
from mainspring.devpg.child import ServerProcess
from mainspring.devpg.datafolder import LOG_NAME, SUPERUSER, DataFolder
from mainspring.devpg.defaults import as_arguments, effective_settings
from mainspring.devpg.privilege import RunAs, choose_user
from mainspring.devpg.runfolder import RunFolder
from mainspring.devpg.startup import StopMode, end_process, start_process
from mainspring.errors import DevPostgresError


class DevPostgres:
    """An embedded Postgres, used as a context manager or by `start` and `stop`.

    Not for several threads at once, but any thread may start it: see `child`.

    Parameters
    ----------
    data_dir
        Folder that is kept between runs, made where missing.  None, the default, means a
        throw-away one.
    settings
        Server settings over `defaults`.  Only they decide about durability.
    bin_dir
        A `bin` directory to use.  None, the default, looks for one; see `binaries`.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        bin_dir: Path | None = None,
    ) -> None:
        self._kept_dir = data_dir
        self._settings = dict(settings or {})
        self._chosen_bin = bin_dir
        self._owner_pid = os.getpid()
        self._binaries: Binaries | None = None
        self._run: RunFolder | None = None
        self._data: DataFolder | None = None
        self._run_as = RunAs()
        self._arguments: list[str] = []
        self._process: ServerProcess | None = None
        self._port = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nobody will read a throw-away folder, so nothing is written to it any more.
        self.stop("fast" if self._kept_dir is not None else "immediate")

    # What it is ------------------------------------------------------------------------------

    @property
    def dsn(self) -> str:
        """Connection string over the unix socket, to the database `postgres`."""
        return self.dsn_of(SUPERUSER)

    @property
    def tcp_dsn(self) -> str:
        """Connection string over 127.0.0.1, with the password that TCP asks for."""
        return self.dsn_of(SUPERUSER, tcp=True)

    def dsn_of(self, database: str, *, tcp: bool = False) -> str:
        """Return the connection string of one database."""
        run, data = self._require_started()
        if not tcp:
            place = f"host={quote(str(run.socket_dir), safe='')}&port={self._port}"
            return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?{place}"
        password = data.password
        user = SUPERUSER if password is None else f"{SUPERUSER}:{quote(password, safe='')}"
        return f"postgresql://{user}@127.0.0.1:{self._port}/{quote(database, safe='')}"

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        self._require_started()
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended since, by `stop` or by itself."""
        return self._process is not None and not self._process.has_ended

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version."""
        return self._require_binaries().version

    @property
    def bin_dir(self) -> Path:
        """Where the binaries in use lie; `pgbench` and `psql` are there too, as a rule."""
        return self._require_binaries().bin_dir

    @property
    def data_dir(self) -> Path:
        """The data folder."""
        return self._require_started()[1].path

    @property
    def log_path(self) -> Path:
        """What the server writes to stderr; the file of the run before has `.1` behind."""
        return self.data_dir / LOG_NAME

    @property
    def port(self) -> int:
        """TCP port on 127.0.0.1, also part of the socket's name."""
        self._require_started()
        return self._port

    # Life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server and return when it takes connections.

        Raises
        ------
        DevPostgresError
            It runs already, here or in the data folder; no binaries; the folder cannot be used;
            or the server ended, or was not ready within `START_S`.  The detail then quotes its log.
            Nothing is left running or locked.
        """
        if self._data is not None:
            raise DevPostgresError(
                f"the server in {self._data.path} was already started",
                hint="Call `stop` first, or `restart`.",
            )
        self._owner_pid = os.getpid()
        binaries = self._binaries = find_binaries(self._chosen_bin)
        settings = effective_settings(self._settings, has_lz4=binaries.has_lz4)
        try:
            run = self._run = RunFolder()
            data = self._data = DataFolder(self._kept_dir or run.path / "data")
            run_as = self._run_as = choose_user(data.path, binaries)
            run.open_to(run_as)
            data.prepare(binaries, run_as, durable=self._kept_dir is not None)
            self._arguments = as_arguments(settings)
            self._launch()
        except BaseException:
            self._let_go()
            raise
        atexit.register(self.stop)
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """End the server, and return when it is gone; does nothing if it is not started.

        Parameters
        ----------
        mode
            `fast` ends sessions and writes a checkpoint.  `immediate` is like a power cut for the
            server: the next start recovers.
        """
        if os.getpid() != self._owner_pid or self._data is None:
            return  # a forked copy of us does not own the server
        atexit.unregister(self.stop)
        try:
            self._end_process(mode)
        finally:
            self._let_go()

    def restart(self, mode: StopMode = "fast") -> None:
        """End the server and start it again in the same place: the DSNs stay as they are.

        Also after it ended by itself, or was killed.

        Raises
        ------
        DevPostgresError
            As `start`; the server is then stopped.
        """
        self._require_started()
        try:
            self._end_process(mode)
            self._launch()
        except BaseException:
            self.stop("immediate")
            raise

    # Databases -------------------------------------------------------------------------------

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, a copy of `template` where given, and return its connection string.

        The copy goes through the WAL where the server can do that: copying files begins and ends
        with a checkpoint, which waits for what every other session has written.
        """
        strategy = "wal_log" if self.version[0] >= databases.STRATEGY_VERSION_MIN else None
        databases.create_database(self.dsn, name, template, strategy=strategy)
        return self.dsn_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there, ending the sessions in it."""
        databases.drop_database(self.dsn, name)

    # Inside ----------------------------------------------------------------------------------

    def _launch(self) -> None:
        run, data = self._require_started()
        self._process, self._port = start_process(
            self._require_binaries(), run, data, self._run_as, self._arguments, self._port
        )

    def _end_process(self, mode: StopMode) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_process(process, mode)

    def _let_go(self) -> None:
        """End what still runs, remove the run folder, give the locks back."""
        self._end_process("immediate")
        run, data = self._run, self._data
        self._run = self._data = None
        self._port = 0
        if data is not None:
            data.release()
        if run is not None:
            run.remove()

    def _require_started(self) -> tuple[RunFolder, DataFolder]:
        if self._run is None or self._data is None:
            raise DevPostgresError(
                "the embedded Postgres is not started", hint="Call `start`, or use `with`."
            )
        return self._run, self._data

    def _require_binaries(self) -> Binaries:
        if self._binaries is None:
            self._binaries = find_binaries(self._chosen_bin)
        return self._binaries
