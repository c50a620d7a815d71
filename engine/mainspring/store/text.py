"""Cleans text that comes from handlers so that any Postgres database can store it.

Pure.  What is done here is a last defence: a NUL, half of a surrogate pair or a megabyte of
traceback must not fail the batch that carries it.
"""

from __future__ import annotations

from typing import Final

TEXT_BYTES_MAX: Final = 4096
"""Longest kept error or output.  Longer values would go to a TOAST table and double the write."""

CUT_MARK: Final = " [cut]"
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    r"""Return `text` with NULs and lone surrogates replaced, cut to `bytes_max` bytes of UTF-8.

    A cut text ends in `CUT_MARK`, and never within a character.  Text that is clean and short
    enough is returned as it is; cleaning twice changes nothing more.

    Parameters
    ----------
    bytes_max
        At least the length of `CUT_MARK`.

    Raises
    ------
    ValueError
        If `bytes_max` leaves no room for the mark.

    Source: PostgreSQL manual, "Character Types": the character with code zero cannot be stored.
    """
    if bytes_max < len(CUT_MARK):
        raise ValueError(f"{bytes_max} bytes leave no room for {CUT_MARK!r}")
    # A character is one byte at least, so nothing behind the limit can survive; a caller's
    # hundred megabytes are not encoded for the sake of four kilobytes.
    head = text[: bytes_max + 1].replace("\0", REPLACEMENT)
    try:
        encoded = head.encode()
    except UnicodeEncodeError:
        head = "".join(REPLACEMENT if "\ud800" <= letter <= "\udfff" else letter for letter in head)
        encoded = head.encode()
    if len(encoded) <= bytes_max:
        return head
    return encoded[: bytes_max - len(CUT_MARK)].decode(errors="ignore") + CUT_MARK
