"""Whatever a handler returns or raises can be stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import Dead, Retry
from mainspring.executor.outcomes import (
    RETRY_AFTER_SECONDS_MAX,
    outcome_of_error,
    outcome_of_value,
)
from mainspring.handlers import Outcome, OutcomeKind


class Unreadable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class NotText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


def raised(error: BaseException) -> Outcome:
    """Raise it in a function of a known name, as a handler would."""
    try:
        raise error  # noqa: TRY301
    except BaseException as caught:  # noqa: BLE001
        return outcome_of_error(caught)


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        ({"a": [1, None, "x"]}, '{"a":[1,null,"x"]}'),
        ("é\0", '"é\\u0000"'),
        (float("nan"), "null"),
        (0, "0"),
    ],
)
def test_a_value_becomes_json_text(value: object, output: str | None) -> None:
    """None becomes no output."""
    assert outcome_of_value(value) == Outcome(OutcomeKind.SUCCESS, output=output)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (1 + 2j, "(1+2j)"),
        (object, "class 'object'"),
        ("\ud800", "\\\\ud800"),
        (Unreadable(), "<Unreadable whose text cannot be read: SystemExit>"),
    ],
)
def test_what_is_no_json_becomes_the_text_of_its_repr(value: object, part: str) -> None:
    """As a JSON string, whatever its repr does."""
    output = outcome_of_value(value).output

    assert output is not None
    assert part in output
    assert isinstance(json.loads(output), str)


def test_a_loop_in_a_value_is_no_trouble() -> None:
    """A list that contains itself becomes the text of its repr."""
    loop: list[Any] = []
    loop.append(loop)

    assert outcome_of_value(loop).output == '"[[...]]"'


def test_ten_megabytes_are_cut() -> None:
    """To the limit, with a mark; half a character is not kept."""
    output = outcome_of_value("é" * 5_000_000, 101).output

    assert output is not None
    assert len(output.encode()) <= 101
    assert output.startswith('"éé')
    assert output.endswith("é [cut]")


def test_a_limit_that_holds_nothing_keeps_nothing() -> None:
    """Zero turns outputs off."""
    assert outcome_of_value([1], 0).output is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    ),
    st.integers(6, 200),
)
def test_every_output_is_clean_and_short(value: object, bytes_max: int) -> None:
    """UTF-8 without NUL, within the limit."""
    output = outcome_of_value(value, bytes_max).output

    assert output is None or (len(output.encode()) <= bytes_max and "\0" not in output)


def test_an_error_is_named_with_its_text_and_place() -> None:
    """Type, text, then file, line and function."""
    text = raised(ValueError("no such report")).error

    assert text is not None
    first, second = text.split("\n")
    assert first == "ValueError: no such report"
    assert second.startswith("at test_outcomes.py:")
    assert second.endswith(" in raised")


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (ValueError("a\0b\ud800"), "ValueError: a\ufffdb\ufffd"),
        (Unreadable(), "Unreadable: <Unreadable whose text cannot be read: SystemExit>"),
        (NotText(), "NotText: <NotText whose text cannot be read: TypeError>"),
    ],
)  # fmt: skip
def test_any_exception_is_a_failure(error: BaseException, first: str) -> None:
    """Also those that are meant to end a process, and those whose text cannot be read."""
    outcome = raised(error)

    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error is not None
    assert outcome.error.split("\n")[0] == first


def test_a_long_error_is_cut() -> None:
    """A megabyte of text becomes four kilobytes."""
    error = raised(ValueError("x" * 1_000_000)).error

    assert error is not None
    assert len(error) == 4096


def test_the_members_of_a_group_are_named() -> None:
    """The first five leaves, however deep they lie."""
    inner = ExceptionGroup("inner", [ValueError("v"), KeyError("k")])
    error = raised(ExceptionGroup("outer", [inner, *(OSError(str(n)) for n in range(9))])).error

    assert error is not None
    for part in ("outer", "ValueError: v", "KeyError: 'k'", "OSError: 2"):
        assert part in error
    assert "OSError: 3" not in error


@pytest.mark.parametrize("after_seconds", [None, 0, 2.5, RETRY_AFTER_SECONDS_MAX])
def test_retry_asks_for_another_attempt(after_seconds: float | None) -> None:
    """With its own delay or the job's, and its reason as the error."""
    outcome = raised(Retry("busy", after_seconds=after_seconds))

    assert outcome == Outcome(OutcomeKind.RETRY, "busy", None, after_seconds)


@pytest.mark.parametrize(
    "after_seconds",
    [-1, float("nan"), float("inf"), RETRY_AFTER_SECONDS_MAX + 1, "5", True, [], 10**400],
)
def test_a_retry_after_nonsense_is_a_plain_failure(after_seconds: Any) -> None:
    """Its text says what was wrong; the job's policy decides."""
    outcome = raised(Retry("busy", after_seconds=after_seconds))

    assert outcome.kind is OutcomeKind.FAILED
    assert "is not a number of seconds" in str(outcome.error)


def test_dead_asks_for_none() -> None:
    """With its reason as the error, or a text that says so."""
    assert raised(Dead("gone")) == Outcome(OutcomeKind.DEAD, "gone")
    assert raised(Dead()) == Outcome(OutcomeKind.DEAD, "the handler gave up")
    assert raised(Retry()).error == "the handler asked for another attempt"
