"""mainspring.idempotent without a database: names of effects, the header, what is refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import InvalidInput
from mainspring.handlers import Context, RunFacts
from mainspring.idempotent.header import VALUE_LENGTH_MAX, header_value

KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
JOBS = st.sampled_from(["j_1", "j_11", "j_2"])
EFFECTS = st.one_of(st.just(""), st.text("a/%é:", max_size=4))


def context(key: str = "j_7:1780923600", **facts: Any) -> Context:
    about = RunFacts(
        firing_id=7, fence=3, job=7, scheduled_us=1_780_923_600_000_000, attempt=1, task="t",
        queue="default", idempotency_key=key, **facts,
    )  # fmt: skip
    return Context(about)


@pytest.mark.parametrize(
    ("key", "effect", "value"),
    [
        ("j_7:1780923600", "", '"j_7:1780923600"'),
        ("j_7:1780923600:m9", "", '"j_7:1780923600:m9"'),
        ("j_7:1780923600", "refund", '"j_7:1780923600/refund"'),
        ("report-2026-W24", "", '"j_7/report-2026-W24"'),
        ("report-2026-W24", "to: é", '"j_7/report-2026-W24/to:%20%C3%A9"'),
        ('a/b%2F"\\', "", '"j_7/a%2Fb%252F%22%5C"'),
        ("j_71:5", "", '"j_7/j_71:5"'),
    ],
)
def test_the_header_holds_the_key_and_names_the_job(key: str, effect: str, value: str) -> None:
    """The default key, which names its job, stands as it is."""
    assert {"Idempotency-Key": value} == context(key).idempotency_headers(effect)


def test_quotes_can_be_left_out() -> None:
    bare = context().idempotency_headers("refund", quoted=False)

    assert {"Idempotency-Key": "j_7:1780923600/refund"} == bare


@given(st.lists(st.tuples(JOBS, st.one_of(KEYS, st.text("j_1:/%", max_size=6)), EFFECTS)))
def test_different_effects_have_different_values_that_any_header_takes(
    effects: list[tuple[str, str, str]],
) -> None:
    values = {each: header_value(*each, quoted=True) for each in effects}

    assert len(set(effects)) == len(set(values.values()))
    assert all(value.isascii() and value.isprintable() for value in values.values())
    assert not any(set(value[1:-1]) & set(' "\\') for value in values.values())


def test_keys_that_would_meet_if_they_were_only_joined_stay_apart() -> None:
    """Job, key and effect are told apart whatever they contain."""
    parts = ["a", "a/b", "b", "j_1:a", "j_1/a", "j_1:a/b", "a%2Fb", "*"]
    cases = list(itertools.product(["j_1", "j_11"], parts, ["", *parts]))

    assert len(cases) == len({header_value(*case, quoted=False) for case in cases})


def test_a_long_value_becomes_a_digest_of_all_of_it() -> None:
    """255 characters with the quotes are the most that APIs are known to take."""
    longest = header_value("j_7", "k" * 249, "", quoted=True)
    assert f'"j_7/{"k" * 249}"' == longest
    assert VALUE_LENGTH_MAX == len(longest)

    digests = {
        header_value("j_7", "k" * 250, "", quoted=False),
        header_value("j_7", "k" * 251, "", quoted=False),
        header_value("j_7", "k" * 248, "a", quoted=False),
        header_value("j_8", "k" * 250, "", quoted=False),
        header_value("j_7", "é" * 100, "", quoted=False),
    }
    assert 5 == len(digests)
    assert {len("j_7*") + 64} == {len(value) for value in digests}
    assert all(unquote(value)[3] == "*" for value in digests)


@pytest.mark.parametrize("effect", [None, 1, b"refund", "a\n", "\x00", "\ud800", "x" * 101])
def test_a_name_that_is_none_is_refused(effect: Any) -> None:
    """Names are texts of up to 100 printable characters; both helpers say so at once."""
    for ask in (context().idempotency_headers, lambda name: context().idempotent(None, name)):  # type: ignore[call-overload]
        with pytest.raises(InvalidInput, match="bad name of an effect") as refused:
            ask(effect)
        assert "100 printable characters" in str(refused.value.hint)
    assert context().idempotency_headers("x" * 100)


class ForeignConnection:
    """Of another driver."""


def test_another_kind_of_connection_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidInput) as refused:
        context().idempotent(ForeignConnection())  # type: ignore[call-overload]

    assert refused.value.message.endswith(f"tied to a {__name__}.ForeignConnection")
    assert "psycopg 3" in str(refused.value.detail)
    assert "INSERT of docs/effects.md" in str(refused.value.hint)


def test_what_a_handler_needs_does_not_import_psycopg() -> None:
    """A child process of a task that never asks for it starts without."""
    program = "import sys, mainspring.handlers; sys.exit('psycopg' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
