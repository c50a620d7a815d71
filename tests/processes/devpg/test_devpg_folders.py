"""Data folders that are half made, of another version, or cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.devpg import DevPostgres, datafolder, find_binaries
from mainspring.errors import DevPostgresError
from processes.devpg.stage import (
    FAST,
    INSTALLED,
    IS_ROOT,
    ask,
    eventually,
    script,
)

pytestmark = pytest.mark.slow


@pytest.mark.skipif(len(INSTALLED) < 2, reason="needs two major versions of Postgres")
def test_a_folder_of_another_major_version_is_refused_by_naming_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by = find_binaries().version[0]
    other = next(found for found in INSTALLED if found.version[0] != made_by)
    message = f"was made by Postgres {made_by}, and .* is Postgres {other.version[0]}"
    with pytest.raises(DevPostgresError, match=message) as caught:
        DevPostgres(folder, bin_dir=other.bin_dir).start()
    assert f"MAINSPRING_PG_BIN={find_binaries().bin_dir}" in (caught.value.hint or "")


def test_a_killed_initdb_is_seen_and_done_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    process = script("DevPostgres(Path(sys.argv[1]), settings=FAST).start()", str(folder))
    work = folder / datafolder.WORK_NAME
    assert eventually((work / "global").exists)
    process.kill()
    process.communicate()
    assert not (folder / "PG_VERSION").exists()
    assert work.exists()
    # As if it had died a little later, while the finished cluster moved in.
    (folder / "base" / "1").mkdir(parents=True)
    (folder / "postgresql.conf").write_text("of the half-made one")
    with DevPostgres(folder, settings=FAST) as pg:
        assert ask(pg.dsn, "SELECT count(*) FROM pg_database") == 3
        assert not work.exists()


def test_a_death_between_the_last_move_and_the_end_loses_nothing(folder: Path) -> None:
    work = folder / datafolder.WORK_NAME
    work.mkdir(mode=0o700)
    with DevPostgres(folder, settings=FAST) as pg:
        assert ask(pg.dsn, "SELECT n FROM kept") == 42
        assert not work.exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["letter.txt"], "is not empty and not a data folder"),
        (["PG_VERSION", "base"], "is half a data folder"),
    ],
)
def test_a_folder_that_is_not_ours_is_refused_untouched(
    names: list[str], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in names:
        (folder / name).write_text(f"{find_binaries().version[0]}\n")
    with pytest.raises(DevPostgresError, match=message):
        DevPostgres(folder).start()
    assert sorted(names) == sorted(entry.name for entry in folder.iterdir())


def test_unusable_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        DevPostgresError, match=r"cannot use .*/file/data as data folder: Not a dir"
    ):
        DevPostgres(tmp_path / "file" / "data").start()
    with pytest.raises(DevPostgresError, match=r"cannot use .*/file as data folder: File exists"):
        DevPostgres(tmp_path / "file").start()
    too_long = Path(str(tmp_path) + "/long" * 200)
    with pytest.raises(DevPostgresError, match=r"the path of the data folder has \d+ bytes"):
        DevPostgres(too_long).start()
    with pytest.raises(DevPostgresError, match="cannot use /proc/data as data folder"):
        DevPostgres(Path("/proc/data")).start()


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DevPostgresError, match="Permission denied"):
            DevPostgres(tmp_path / "data").start()
    finally:
        tmp_path.chmod(0o700)


def test_a_long_temporary_directory_is_left_for_one_in_which_a_socket_fits(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with DevPostgres(folder, settings=FAST) as pg:
        assert str(deep) not in pg.dsn.replace("%2F", "/")
        assert ask(pg.dsn, "SELECT n FROM kept") == 42
