"""Root, root without user namespaces, and ordinary users."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.devpg import Binaries, DevPostgres, binaries, find_binaries, privilege
from processes.devpg.stage import (
    ENVIRONMENT,
    FAST,
    INSTALLED,
    IS_ROOT,
    finish,
    script,
)

pytestmark = pytest.mark.slow


needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root has to become somebody else")

# Enters a user namespace in which every id is what it was, and forbids further ones in it: to the
# processes inside, a machine like Docker's stock one, where root may not make a namespace.
NO_USERNS = """
import ctypes
ready_read, ready_write = os.pipe(); go_read, go_write = os.pipe()
pid = os.fork()
if pid:
    os.read(ready_read, 1)
    for which in ("uid_map", "gid_map"):
        Path(f"/proc/{pid}/{which}").write_text("0 0 65536")
    os.write(go_write, b"g")
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
if ctypes.CDLL(None).unshare(0x10000000) != 0:
    sys.exit("no user namespace to try it in")
os.write(ready_write, b"r"); os.read(go_read, 1)
assert Path("/proc/self/uid_map").read_text().split() == ["0", "0", "65536"]
Path("/proc/sys/user/max_user_namespaces").write_text("0")
"""
SERVE = """
os.umask(0o022)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
with DevPostgres(folder, settings=FAST) as pg:
    import psycopg
    with psycopg.connect(pg.dsn, autocommit=True) as session:
        session.execute("CREATE TABLE IF NOT EXISTS served (n int)")
        session.execute("INSERT INTO served VALUES (1)")
        print(session.execute("SELECT count(*) FROM served").fetchone()[0])
    with psycopg.connect(pg.tcp_dsn) as session:
        pass
    print(os.stat(f"/proc/{pg.pid}").st_uid, pg.data_dir.stat().st_uid, pg.version[0])
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own are not."""
    path = Path("/tmp", f"devpg-test-{os.getpid()}")
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def modes_above(path: Path) -> list[tuple[int, int]]:
    return [(above.stat().st_mode, above.stat().st_uid) for above in path.parents]


@needs_root
def test_root_serves_its_own_folder_from_a_user_namespace_every_time(own_folder: Path) -> None:
    if not privilege.userns_works(find_binaries()):
        pytest.skip("user namespaces are forbidden here")
    before = modes_above(own_folder)
    for count in (1, 2):
        assert [str(count), "0", "0"] == finish(script(SERVE, str(own_folder))).split()[:3]
    with DevPostgres(own_folder, settings=FAST) as pg:
        # No id in it means anything outside, so it has no rights there.
        assert Path(f"/proc/{pg.pid}/uid_map").read_text() == ""
    assert before == modes_above(own_folder)


@needs_root
def test_root_without_user_namespaces_falls_back_on_a_user() -> None:
    uid = str(pwd.getpwnam("postgres").pw_uid)
    expected = ["1", uid, uid, str(find_binaries().version[0])]
    assert expected == finish(script(NO_USERNS + SERVE)).split()


@needs_root
def test_a_folder_that_root_made_is_handed_over_where_namespaces_are_forbidden_and_stays_so(
    folder: Path, open_folder: Path
) -> None:
    kept = Path(shutil.copytree(folder, open_folder / "data"))
    before = modes_above(kept)
    uid = str(pwd.getpwnam("postgres").pw_uid)
    assert ["1", uid, uid] == finish(script(NO_USERNS + SERVE, str(kept))).split()[:3]
    # Where namespaces work again, the folder is still served by its owner.
    assert ["2", uid, uid] == finish(script(SERVE, str(kept))).split()[:3]
    assert before == modes_above(kept)
    # A folder above that the user cannot enter stays shut, which the error says.
    open_folder.chmod(0o700)
    process = script(NO_USERNS + SERVE, str(kept))
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "who must be able to reach the data folder" in problem
    assert stat.S_IMODE(open_folder.stat().st_mode) == 0o700


@needs_root
@pytest.mark.parametrize("found", INSTALLED, ids=lambda found: str(found.version[0]))
def test_an_ordinary_user_serves_as_themselves_and_root_serves_their_folder_as_them(
    found: Binaries, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRONMENT, binaries.PG_BIN_VARIABLE, str(found.bin_dir))
    nobody = pwd.getpwnam("nobody")
    pythons = (sys.executable, "/usr/bin/python3")
    python = next((path for path in pythons if can_run(path, nobody.pw_uid)), None)
    if python is None:
        pytest.skip("no Python that nobody may run imports what is needed")
    os.chown(open_folder, nobody.pw_uid, nobody.pw_gid)
    kept, uid = str(open_folder / "data"), str(nobody.pw_uid)
    expected = [uid, uid, str(found.version[0])]
    process = script(become(nobody.pw_uid) + SERVE, kept, python=python)
    assert ["1", *expected] == finish(process).split()
    assert ["2", *expected] == finish(script(SERVE, kept)).split()


def can_run(python: str, uid: int) -> bool:
    """Whether a user can start this Python, of our version, and import psycopg in it."""
    check = f"import sys, psycopg; assert sys.version_info[:2] == {sys.version_info[:2]}"
    try:
        done = subprocess.run(
            [python, "-c", check], user=uid, env=ENVIRONMENT, capture_output=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


def become(uid: int) -> str:
    return f"os.setgroups([]); os.setgid({uid}); os.setuid({uid}); os.environ.pop('HOME', None)\n"
