"""JSON from outside, read strictly: what is let in has one meaning and fits everywhere it goes.

Every JSON reader settles what RFC 8259 leaves open in its own way, and the same text then means
different things in the API, in Postgres and in a handler.  So refused are: a key twice in one
object, NUL and lone surrogates (Postgres' text type holds neither), integers beyond 64 bits,
numbers no double can hold, NaN and Infinity, a byte order mark, bytes that are not UTF-8.

Nesting is bounded by a scan of the bytes before anything recursive sees them, so that no text can
end in a RecursionError.  Cost is linear in the length of the text.

Source: RFC 8259, sections 4, 6 and 8; RFC 6901 for pointers.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from array import array
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from mainspring.errors import InvalidInput, MalformedBody

POINTER_LENGTH_MAX: Final = 200

_INTEGER_MIN: Final = -(2**63)
_INTEGER_MAX: Final = 2**64 - 1
_INTEGER_DIGITS_MAX: Final = 20

_DOUBLE_MAX: Final = sys.float_info.max
_AS_STRING: Final = "Send larger numbers as strings."

_BOM: Final = b"\xef\xbb\xbf"
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_STEPS: Final = bytes(1 if byte in b"[{" else 0xFF if byte in b"]}" else 0 for byte in range(256))
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class _Members(list[tuple[str, Any]]):
    """An object as it was written: its members in order, equal keys side by side."""


class _Unreadable(NamedTuple):
    """A number that is refused, and why."""

    reason: str
    hint: str


_Place = tuple["_Place | None", str | int]
"""Where a value stands: its parent's place, None at the top, and its key or index there.  A plain
tuple, since one is made for each array and object."""


def check_json(text: bytes, *, depth_max: int, pointer: str = "") -> None:
    """Refuse JSON that is malformed, ambiguous, or cannot be stored as it is.

    Parameters
    ----------
    text
        One JSON value in UTF-8.
    depth_max
        How many arrays and objects may enclose a value, itself included.
    pointer
        Where this value stands in the document that is spoken of; "" for the document itself.

    Raises
    ------
    MalformedBody
        Empty, not UTF-8, not JSON, or nested too deep.
    InvalidInput
        JSON, but see above; `pointer` names the value, or for a bad key the object it is in.
    """
    _check_bytes(text, pointer)
    _check_depth(text, depth_max, pointer)
    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_Members,
            parse_int=_read_integer,
            parse_constant=_read_constant,
        )
    except UnicodeDecodeError as error:
        raise MalformedBody(
            f"byte {error.start} of the JSON text is not UTF-8",
            pointer=pointer,
            hint="Encode the text as UTF-8.",
        ) from None
    except json.JSONDecodeError as error:
        raise MalformedBody(
            f"malformed JSON at line {error.lineno}, column {error.colno}: {_lowered(error.msg)}",
            pointer=pointer,
            hint="Send one JSON value as RFC 8259 defines it.",
        ) from None
    _check_values(value, pointer)


def compact(text: bytes) -> str:
    """Take the blanks between the tokens of a checked JSON text; the tokens stay as written.

    Keys keep their order and numbers their digits: a handler sees what was registered.
    """
    return msgspec.json.format(text, indent=-1).decode("utf-8")


def pointer_token(key: str) -> str:
    """Write one step of a JSON pointer, slash included (RFC 6901, section 3)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _check_bytes(text: bytes, pointer: str) -> None:
    if not text.strip(b" \t\r\n"):
        raise MalformedBody("JSON text is empty", pointer=pointer, hint="Send one JSON value.")
    if text.startswith(_BOM):
        raise MalformedBody(
            "JSON text begins with a byte order mark",
            pointer=pointer,
            hint="Send UTF-8 without the bytes EF BB BF in front.",
        )


def _check_depth(text: bytes, depth_max: int, pointer: str) -> None:
    """Count brackets outside strings, without looking at anything else."""
    brackets = _STRING.sub(b"", text).translate(_STEPS, _NOT_BRACKETS)
    depth = max(itertools.accumulate(array("b", brackets)), default=0)
    if depth > depth_max:
        raise MalformedBody(
            f"JSON text is nested {depth} deep",
            pointer=pointer,
            hint=f"Nest at most {depth_max} arrays and objects.",
        )


def _read_integer(digits: str) -> int | _Unreadable:
    # Python itself refuses to read integers of thousands of digits, since that is quadratic.
    if len(digits.lstrip("-")) <= _INTEGER_DIGITS_MAX:
        number = int(digits)
        if _INTEGER_MIN <= number <= _INTEGER_MAX:
            return number
    return _Unreadable("integer does not fit 64 bits", _AS_STRING)


def _read_constant(word: str) -> _Unreadable:
    return _Unreadable(f"{word} is not a JSON number", "Send null, or the word as a string.")


def _check_values(root: object, pointer: str) -> None:
    """Look at every key, string and number, level by level, in time linear in their count."""
    pending: deque[tuple[_Place | None, object]] = deque([(None, [root])])
    while pending:
        place, parent = pending.popleft()
        if isinstance(parent, _Members):
            _check_keys(parent, place, pointer)
            children: Iterable[tuple[str | int, Any]] = parent
        else:
            assert isinstance(parent, list)
            children = enumerate(parent)
        for key, child in children:
            kind = type(child)
            if kind is _Members or kind is list:
                if child:
                    pending.append(((place, key), child))
            elif kind is not int and child is not None and (refusal := _refusal_of(child)):
                what, hint = refusal
                raise InvalidInput(what, pointer=_written((place, key), pointer), hint=hint)


def _refusal_of(scalar: object) -> tuple[str, str] | None:
    """Say what is wrong with a string or a number and what to do; None where nothing is."""
    if isinstance(scalar, str):
        return _unstorable("string", bad[0]) if (bad := _UNSTORABLE.search(scalar)) else None
    if isinstance(scalar, _Unreadable):
        return scalar.reason, scalar.hint
    if isinstance(scalar, float) and not -_DOUBLE_MAX <= scalar <= _DOUBLE_MAX:
        return "number is out of range", _AS_STRING
    return None


def _check_keys(members: _Members, place: _Place | None, pointer: str) -> None:
    seen: set[str] = set()
    for key, _ in members:
        if bad := _UNSTORABLE.search(key):
            what, hint = _unstorable(f"key {_shown(key)}", bad[0])
            raise InvalidInput(what, pointer=_written(place, pointer), hint=hint)
        if key in seen:
            raise InvalidInput(
                f"key {_shown(key)} stands twice in one object",
                pointer=_written((place, key), pointer),
                hint="Give each key once; readers differ on which of two they take.",
            )
        seen.add(key)


def _unstorable(what: str, character: str) -> tuple[str, str]:
    if character == "\x00":
        return f"{what} contains NUL", "Leave U+0000 out; Postgres cannot store it."
    return (
        f"{what} contains the lone surrogate U+{ord(character):04X}",
        "Write characters beyond U+FFFF as a pair of escapes, or in UTF-8.",
    )


def _written(place: _Place | None, base: str) -> str:
    """Write a pointer; one that would be too long ends at an enclosing value."""
    tokens: list[str] = []
    while place is not None:
        place, key = place
        tokens.append(pointer_token(str(key)))
    tokens.pop()  # the list that stands around the root
    written = base
    for token in reversed(tokens):
        if len(written) + len(token) > POINTER_LENGTH_MAX:
            break
        written += token
    return written


def _shown(text: str) -> str:
    """Quote foreign text for a message: ASCII, one line, cut."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
