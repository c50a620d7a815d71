"""What gets into the logs and what does not."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from mainspring.logs import configure, mask_dsn


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.parametrize(
    ("dsn", "masked"),
    [
        ("postgres://u:secret@h/db", "postgres://u:***@h/db"),
        ("postgresql://u:se%40cret@h:5432/db?x=1", "postgresql://u:***@h:5432/db?x=1"),
        ("postgres://u:sec@ret@h/db", "postgres://u:***@h/db"),
        ("postgres://:secret@h/db", "postgres://:***@h/db"),
        ("postgres://u:@h/db", "postgres://u:***@h/db"),
        ("postgres://u@h/db", "postgres://u@h/db"),
        ("postgres:///db?user=u&password=secret&host=/tmp", "postgres:///db?user=u&password=***&host=/tmp"),
        ("postgres://h/db?sslpassword=secret", "postgres://h/db?sslpassword=***"),
        ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
        ("host=h password = 'se cr\\'et' dbname=d", "host=h password = *** dbname=d"),
        ("PASSWORD=secret", "PASSWORD=***"),
        ("password=se\\ cret dbname=d", "password=*** dbname=d"),
        ("host=h dbname=d", "host=h dbname=d"),
        ("connecting to postgres://u:secret@h/db: no", "connecting to postgres://u:***@h/db: no"),
        ("http://127.0.0.1:8080/a@b", "http://127.0.0.1:8080/a@b"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_password_of_a_dsn_is_masked(dsn: str, masked: str) -> None:
    """In both forms of libpq, also inside a sentence; the rest stays readable."""
    assert masked == mask_dsn(dsn)


@given(st.from_regex(r"[A-Za-z0-9!$*+,.:;=@^_~-]{4,40}", fullmatch=True))
def test_no_url_password_survives(password: str) -> None:
    """Whatever it is made of, short of blanks and slashes, which a URL escapes."""
    assert mask_dsn(f"postgres://u:{password}@h/db") == "postgres://u:***@h/db"


def test_lines_are_json_with_kind_level_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line on standard error, and nothing on standard output."""
    configure("worker", is_terminal=False)
    structlog.get_logger().info("started\nfirings", count=3, shard=None)
    out, err = capsys.readouterr()
    line = json.loads(err)

    assert (out, err.count("\n")) == ("", 1)
    assert line.pop("at").endswith("Z")
    assert line == {
        "event": "started\nfirings",
        "count": 3,
        "shard": None,
        "level": "info",
        "process": "worker",
    }


def test_secrets_stay_out_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Payloads, outputs and passwords are left out, also inside values and tracebacks."""
    configure("api", is_terminal=False)
    log = structlog.get_logger()
    log.info(
        "a", payload={"card": "hidden1"}, job={"output": "hidden2", "dsn": ["password=hidden3"]}
    )
    try:
        int("postgres://u:hidden4@h/db")
    except ValueError:
        log.exception("b")
    err = capsys.readouterr().err

    assert "hidden" not in err
    assert "literal for int() with base 10: 'postgres://u:***@h/db'" in err


def test_odd_values_are_logged_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Lone surrogates, objects and megabytes neither raise nor flood."""
    configure("cli", is_terminal=False)
    structlog.get_logger().info("x", a="\ud800", b=object(), c="y" * 10**6, d=2**70)
    line = json.loads(capsys.readouterr().err)

    assert line["a"] == "\\ud800"
    assert line["b"].startswith("<object object")
    assert len(line["c"]) < 10_000


def test_debug_lines_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The level is info."""
    configure("cli", is_terminal=False)
    structlog.get_logger().debug("x")

    assert capsys.readouterr().err == ""


def test_a_terminal_gets_readable_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Not JSON, with the same masking."""
    configure("cli", is_terminal=True)
    structlog.get_logger().info("hello", dsn="postgres://u:hidden@h/db")
    err = capsys.readouterr().err

    assert "hello" in err
    assert "hidden" not in err
    assert not err.startswith("{")


def test_lines_of_every_thread_say_which_process_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A thread begins without context variables."""
    configure("scheduler", is_terminal=False)
    thread = threading.Thread(target=structlog.get_logger().info, args=("from a thread",))
    thread.start()
    thread.join()

    assert "scheduler" == json.loads(capsys.readouterr().err)["process"]


@pytest.mark.parametrize("kind", ["full", "closed", "none"])
def test_a_line_that_cannot_be_written_is_lost_and_nothing_else(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a closed stream or no standard error at all ends no thread of ours."""
    stream = Path("/dev/full").open("w", buffering=1, encoding="utf-8")  # noqa: SIM115
    if kind == "closed":
        stream.close()
    monkeypatch.setattr(sys, "stderr", None if kind == "none" else stream)
    configure("worker")
    log = structlog.get_logger()
    for _ in range(3):
        log.warning("x" * 20_000)
    with pytest.raises(OSError, match="No space left") if kind == "full" else nullcontext():
        stream.close()  # what it had kept
