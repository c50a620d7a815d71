"""Which wheel the face binds, and what it says where none is compiled."""

from __future__ import annotations

import os
import subprocess
import sys

from mainspring import wheel


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_environment_chooses_the_twin() -> None:
    """MAINSPRING_PURE=1 binds `Wheel` to the twin and says so."""
    code = "from mainspring.wheel import *; print(Wheel is PureWheel, IMPLEMENTATION)"
    assert run_python(code, MAINSPRING_PURE="1").stdout == "True pure\n"


def test_compiled_wheel_says_how_it_was_built() -> None:
    """Otherwise `Wheel` is the extension's, built for release or for debugging."""
    code = "from mainspring.wheel import *; print(Wheel.__module__, IMPLEMENTATION)"
    assert run_python(code, MAINSPRING_PURE="0").stdout in {
        "mainspring._wheel release\n",
        "mainspring._wheel debug\n",
    }


def test_uncompiled_tree_names_the_command() -> None:
    """The import error says what to run, and what to set instead."""
    code = "import sys; sys.modules['mainspring._wheel'] = None; import mainspring.wheel"
    result = run_python(code, MAINSPRING_PURE="")
    assert "run `make ext`" in result.stderr
    assert "MAINSPRING_PURE=1" in result.stderr


def test_geometries() -> None:
    """The default's first ring holds ten minutes of 50 ms ticks; the textbook has h/m/s."""
    assert (12288, 64, 64) == wheel.DEFAULT_GEOMETRY == wheel.Wheel(0).geometry
    assert wheel.TEXTBOOK_GEOMETRY == (60, 60, 24)
