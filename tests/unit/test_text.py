"""store.text: what handlers say becomes what any database can store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.store.text import CUT_MARK, TEXT_BYTES_MAX, clean_text

any_text = st.text(
    st.one_of(st.characters(), st.characters(categories=["Cs"]), st.sampled_from("\0é€😀a"))
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a\0b", "a�b"),
        ("half \ud83d of a pair", "half � of a pair"),
        ("\ude00\ud83d", "��"),
        ("whole 😀", "whole 😀"),
    ],
)
def test_nul_and_lone_surrogates_are_replaced_and_the_rest_is_kept(
    text: str, expected: str
) -> None:
    assert expected == clean_text(text)


def test_the_longest_text_is_kept_and_one_byte_more_is_cut() -> None:
    assert "x" * TEXT_BYTES_MAX == clean_text("x" * TEXT_BYTES_MAX)
    cut = clean_text("x" * (TEXT_BYTES_MAX + 1))
    assert TEXT_BYTES_MAX == len(cut)
    assert cut.endswith("x" + CUT_MARK)


def test_a_cut_never_falls_within_a_character() -> None:
    assert "€" + CUT_MARK == clean_text("€€€€€", len(CUT_MARK) + 5)


@given(any_text, st.integers(len(CUT_MARK), 80))
def test_the_result_is_storable_short_enough_and_stable(text: str, bytes_max: int) -> None:
    cleaned = clean_text(text, bytes_max)
    assert "\0" not in cleaned
    assert len(cleaned.encode()) <= bytes_max
    assert cleaned == clean_text(cleaned, bytes_max)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_clean_short_text_is_untouched(text: str) -> None:
    assert text == clean_text(text, 100)


def test_a_limit_without_room_for_the_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="leave no room"):
        clean_text("x", len(CUT_MARK) - 1)
