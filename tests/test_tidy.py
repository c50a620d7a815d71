"""The written rules that a linter does not know, checked as tests."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for root in ("engine", "api", "bench", "tests")
    for path in (ROOT / root).rglob("*.py")
    if ".venv" not in path.parts
)
PRODUCT = [
    path
    for path in SOURCES
    if path.is_relative_to(ROOT / "engine") or path.is_relative_to(ROOT / "api")
]
CYTHON = sorted((ROOT / "ext").rglob("*.p[yx][xd]"))
# A preview without --after begins now, by the clock of the person who asks; nothing is decided.
CLOCK_DOORS = {"engine/mainspring/clock.py", "engine/mainspring/cli/preview.py"}
CLOCK_CALLS = re.compile(
    r"\btime\.(time|monotonic|perf_counter|sleep)(_ns)?\(|\bdatetime\.(now|utcnow|today)\("
)
# The demo's handlers stand for a user's code, which may read any clock.
USER_CODE = {"engine/mainspring/cli/demo/tasks.py"}
SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b", re.DOTALL
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*SOURCES, *CYTHON], ids=name)
def test_a_file_is_not_crowded(path: Path) -> None:
    """Python up to 600 lines, Cython up to 800."""
    assert len(path.read_text().splitlines()) <= (600 if path.suffix == ".py" else 800)


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    """Up to 70 lines without its docstring, and every public thing says what it is."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            length = (node.end_lineno or 0) - node.lineno - docstring.count("\n")
            assert length <= 85, f"{node.name} has {length} lines"
    assert ast.get_docstring(tree), "the module does not say what it is responsible for"


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_time_enters_through_the_clock(path: Path) -> None:
    """Nothing but clock.py asks the host what time it is, or sleeps."""
    if name(path) in CLOCK_DOORS | USER_CODE:
        return
    assert CLOCK_CALLS.findall(path.read_text()) == []


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_sql_stands_in_statement_files(path: Path) -> None:
    """No statement is put together in Python."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_docstring = "\n" in node.value and not SQL.match(node.value.strip())
            assert is_docstring or not SQL.search(node.value), node.value[:80]


def test_no_room_is_called_utils() -> None:
    """A file's name tells its one responsibility."""
    banned = {"utils", "util", "helpers", "manager", "common", "misc"}

    assert [name(path) for path in SOURCES if path.stem in banned] == []


def test_every_invariant_that_is_named_is_written_down() -> None:
    """A number like (I7) in code or SQL stands in ARCHITECTURE.md."""
    written = set(re.findall(r"\*\*I(\d+) ", (ROOT / "ARCHITECTURE.md").read_text()))
    places = [*PRODUCT, *CYTHON, *(ROOT / "engine").rglob("*.sql")]
    named = {number for path in places for number in re.findall(r"\(I(\d+)\)", path.read_text())}

    assert named <= written
    assert named


def test_extensions_are_imported_by_their_faces_only() -> None:
    """Everybody else imports wheel, claim and frame."""
    pattern = re.compile(r"mainspring(?:\.| import )(_wheel|_claim|_frame)\b(?!_)")
    users = {(found, name(path)) for path in PRODUCT for found in pattern.findall(path.read_text())}

    assert users == {
        (f"_{face}", f"engine/mainspring/{face}.py") for face in ("wheel", "claim", "frame")
    }


def test_the_tree_names_no_machine() -> None:
    """No path of a machine, no host of a package index."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.decode()
    pattern = re.compile(
        r"/(?:work|farm)/(?:main|shared|steering)|files\.pythonhosted|pypi\.org/simple"
    )
    guilty = [
        path
        for path in listed.split("\0")
        if path
        and not path.startswith("bench/runs/")
        and path != "tests/test_tidy.py"
        and (ROOT / path).is_file()
        and pattern.search((ROOT / path).read_text(errors="ignore"))
    ]

    assert guilty == []
