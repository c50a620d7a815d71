"""store.statements: the loader of named SQL."""

from __future__ import annotations

import re

import pytest

from mainspring.store.statements import parse_statements, statement, statement_names

HEAD = "-- What the file is about.\n\n"


def test_a_statement_is_its_text_without_comments_and_final_semicolon() -> None:
    text = HEAD + "-- name: one\n-- Called by nobody.\nSELECT 1\n    -- within\n    + 1;\n\n"
    assert {"one": "SELECT 1\n    + 1"} == parse_statements(text)


def test_several_statements_keep_their_names() -> None:
    text = HEAD + "-- name: one\nSELECT 1;\n-- name: two\nSELECT 2;\n"
    assert {"one": "SELECT 1", "two": "SELECT 2"} == parse_statements(text)


def test_a_part_is_spliced_in_by_name_wherever_it_stands() -> None:
    text = "-- name: whole\nCOPY ({part}) TO STDOUT;\n-- name: part\nSELECT 1;\n"
    assert "COPY (SELECT 1) TO STDOUT" == parse_statements(text)["whole"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n", "'one' is there twice"),
        ("-- name: One\nSELECT 1;\n", "bad statement name 'One'"),
        ("-- name: one two\nSELECT 1;\n", "bad statement name 'one two'"),
        ("-- name: one\n-- only a comment\n", "'one' is empty"),
        ("-- name: one\nSELECT {nothing};\n", "'one' names an unknown part 'nothing'"),
    ],
)
def test_a_faulty_file_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_statements(text)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(LookupError, match="there is no statement 'select_all'"):
        statement("select_all")


def test_every_own_statement_is_loaded_whole() -> None:
    assert {"refill", "claim_page", "start", "complete", "insert_jobs", "beat"} <= statement_names()
    for name in statement_names():
        text = statement(name).decode()
        assert not re.search(r"[{}]|-- name", text), name
        # A psycopg parameter, or nothing, follows every percent sign.
        assert not re.search(r"%(?!\([a-z_]+\)s)", text), name


def test_no_statement_takes_whatever_columns_there_are() -> None:
    for name in statement_names():
        assert not re.search(r"\*\s+FROM|RETURNING \*|\.\*", statement(name).decode()), name
