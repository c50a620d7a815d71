"""The sdist builds a wheel that works in a fresh virtual environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECK = """
import mainspring, mainspring_api
from mainspring import claim, frame, wheel
from mainspring.idempotent.effect import _insert_key
from mainspring.store.migrate import plan
from mainspring.store.statements import statement
assert wheel.IMPLEMENTATION == "release", wheel.IMPLEMENTATION
assert "site-packages" in mainspring.__file__, mainspring.__file__
assert statement("claim_page")
assert _insert_key()
print(mainspring.__version__)
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command that must succeed; returns its output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_sdist_builds_a_wheel_that_works_elsewhere(tmp_path: Path) -> None:
    """Nothing but what the sdist holds is needed, and nothing but our two packages is installed."""
    run(
        sys.executable,
        "-m",
        "build",
        "--sdist",
        "--no-isolation",
        "--outdir",
        tmp_path,
        ROOT,
        cwd=ROOT,
    )
    sdist = next(tmp_path.glob("*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    source = next((tmp_path / "source").iterdir())
    run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source,
        cwd=source, CFLAGS="-O0",
    )  # fmt: skip
    wheel = next(tmp_path.glob("*.whl"))
    tops = {member.split("/")[0] for member in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "mainspring",
        "mainspring_api",
    }

    fresh = tmp_path / "fresh"
    run(sys.executable, "-m", "venv", "--without-pip", fresh, cwd=tmp_path)
    python = fresh / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
        "--no-index", wheel, cwd=tmp_path,
    )  # fmt: skip
    # The dependencies are those of this environment; what is ours must come from the wheel.
    packages = next(fresh.glob("lib/python*/site-packages"))
    links = [
        path
        for path in Path(sysconfig.get_paths()["purelib"]).iterdir()
        if "mainspring" not in path.name and not path.name.endswith(".pth")
    ]
    for path in links:
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)

    version = run(python, "-c", CHECK, cwd=tmp_path).strip()
    assert run(fresh / "bin" / "mainspring", "--version", cwd=tmp_path).split()[-1] == version
