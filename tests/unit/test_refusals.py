"""What is said of a database that cannot be used, and hints that fit every interface."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import psycopg
import pytest

import mainspring
from mainspring.errors import StoreUnavailable
from mainspring.store.postgres.failures import translate

SERVER = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            'FATAL:  database "x" does not exist',
            'refuses the connection: database "x" does not exist',
            "createdb",
        ),
        (
            'FATAL:  role "x" does not exist',
            'refuses the connection: role "x" does not exist',
            "createuser",
        ),
        (
            'FATAL:  password authentication failed for user "x"',
            "refuses the connection: password authentication failed",
            "password",
        ),
        ("fe_sendauth: no password supplied", "refuses the connection: no password", "password"),
        ("FATAL:  the database system is starting up", "is starting up", "Try again"),
        ("FATAL:  sorry, too many clients already", "too many clients", "max_connections"),
        ('FATAL:  Datenbank "x" gibt es nicht', "refuses the connection: Datenbank", "reached"),
        ("Connection refused", "the database cannot be reached", "Does the server run"),
        ("server closed the connection: x", "the database cannot be reached", "Does the server"),
    ],
)
def test_a_refusal_is_told_from_silence(said: str, message: str, hint: str) -> None:
    """With what the server said, and what to do."""
    error = translate(psycopg.OperationalError(SERVER + said))

    assert isinstance(error, StoreUnavailable)
    assert message in error.message
    assert hint in str(error.hint)
    assert error.is_lost


def test_hints_speak_of_no_other_interface() -> None:
    """What a library says may be read by who uses the command, the API or Python."""
    folder = Path(mainspring.__file__).parent
    words = re.compile(r"with --dsn|POST /api|@worker\.task")
    found = [
        f"{path.relative_to(folder)}: {node.value}"
        for path in folder.rglob("*.py")
        if "cli" not in path.relative_to(folder).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "\n" not in node.value and words.search(node.value)
    ]

    assert found == []
