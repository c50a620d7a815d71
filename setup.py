"""Builds the Cython extensions; everything else about the package is in pyproject.toml.

`MAINSPRING_SKIP_EXTENSIONS=1` leaves them out, for an editable install of a tree in which they
were built in place already.

`MAINSPRING_DEBUG=1` builds with bounds checks and annotated HTML.  Directives are no part of
Cython's up-to-date check, so a stamp remembers the kind of the last build and a switch of kind
forces everything (a debug build after a release build would silently be a release build).
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
NAMES = ("_wheel", "_claim", "_frame", "_cron")
RELEASE_DIRECTIVES = {"boundscheck": False, "wraparound": False, "initializedcheck": False}
DEBUG_DIRECTIVES = {"boundscheck": True, "wraparound": False, "initializedcheck": True}


class BuildExt(build_ext):
    """Cythonizes inside the build, never when metadata is read."""

    cythonized = False

    def finalize_options(self) -> None:
        if not self.cythonized:
            self.cythonized = True
            self.distribution.ext_modules = self._cythonize()
        super().finalize_options()

    def get_source_files(self) -> list[str]:
        """Return what an sdist must hold: the sources that are written by hand."""
        patterns = ("ext/mainspring/*.pyx", "ext/mainspring/*.pxd")
        found = [path for pattern in patterns for path in ROOT.glob(pattern)]
        return sorted(str(path.relative_to(ROOT)) for path in found)

    def _cythonize(self) -> list[Extension]:
        from Cython.Build import cythonize  # noqa: PLC0415  build requirement, absent at metadata time

        is_debug = os.environ.get("MAINSPRING_DEBUG") == "1"
        kind = "debug" if is_debug else "release"
        stamp = ROOT / "build" / "extension-kind"
        is_switch = not stamp.exists() or stamp.read_text() != kind
        if is_switch:
            self.force = True
        extensions: list[Extension] = cythonize(
            [
                Extension(
                    f"mainspring.{name}",
                    [f"ext/mainspring/{name}.pyx"],
                    extra_compile_args=["-O0", "-g"] if is_debug else ["-O2", "-g0"],
                )
                for name in NAMES
            ],
            include_path=["ext"],
            build_dir="build/cython",
            annotate=is_debug,
            nthreads=os.cpu_count() or 1,
            force=is_switch,
            compiler_directives={
                "language_level": 3,
                "binding": True,
                "embedsignature": False,
                **(DEBUG_DIRECTIVES if is_debug else RELEASE_DIRECTIVES),
            },
        )
        for extension in extensions:
            extension.define_macros.append(("MAINSPRING_DEBUG_BUILD", "1" if is_debug else "0"))
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(kind)
        return extensions


if os.environ.get("MAINSPRING_SKIP_EXTENSIONS") == "1":
    setup()
else:
    setup(
        # A placeholder tells setuptools that the wheel is not pure; finalize_options fills in the
        # rest.
        ext_modules=[Extension("mainspring._wheel", ["ext/mainspring/_wheel.pyx"])],
        cmdclass={"build_ext": BuildExt},
    )
