"""What type a handler wants its payload in, and payloads decoded into it.

The annotation of a handler's second argument decides.  None, `Any` and `object` take whatever JSON
is; anything else that msgspec can decode, a Struct, a dataclass, a TypedDict, `list[int]`, is what
the handler is given.  An annotation that cannot be resolved, or that no JSON can become, is refused
when the handler is registered.

A payload that does not fit ends its run as dead: no attempt makes it fit.

Source: msgspec manual, "Supported Types", "Constraints".
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mainspring.errors import Dead, InvalidInput

_POSITIONAL: Final = {
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
}
_ANYTHING: Final = (inspect.Parameter.empty, Any, object)
_PATH: Final = re.compile(r" - at `\$([^`]*)`\Z")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_TEXT_LENGTH_MAX: Final = 200

_read_any: Final = msgspec.json.Decoder().decode


class PayloadType:
    """The type of one task's payloads.

    Parameters
    ----------
    task
        Its name, for messages.
    handler
        A function of `(ctx, payload)`.

    Raises
    ------
    InvalidInput
        The annotation names something that is not there, or a type that JSON cannot become.
    """

    def __init__(self, task: str, handler: Callable[..., Any]) -> None:
        self._task = task
        self.annotation = _annotation(task, handler)
        self._decode = _decoder(task, self.annotation)
        self.read: Callable[[bytes], Any] = _read_any if self.is_any else self._read
        """Decodes JSON for a run; `Dead` if it does not fit.  Malformed JSON, which the store does
        not take, is msgspec's own error where anything is taken."""

    @property
    def is_any(self) -> bool:
        """Whether it takes whatever JSON is."""
        return self.annotation is Any

    def check(self, payload: bytes) -> None:
        """Raise `InvalidInput`, with the field as its pointer, if the payload does not fit."""
        if self.is_any:
            return
        try:
            self._decode(payload)
        except msgspec.MsgspecError as error:
            raise InvalidInput(
                self._text(error),
                pointer=_pointer(str(error)),
                hint=f"The handler of task {self._task!r} is annotated with it.",
            ) from None

    def _read(self, payload: bytes) -> Any:
        try:
            return self._decode(payload)
        except msgspec.MsgspecError as error:
            raise Dead(self._text(error)) from None

    def _text(self, error: msgspec.MsgspecError) -> str:
        said = str(error)[:_TEXT_LENGTH_MAX]
        return f"payload is not {_named(self.annotation)}: {said}"


def _annotation(task: str, handler: Callable[..., Any]) -> Any:
    """Return the type of the second argument, `Any` for none."""
    try:
        parameters = [
            each
            for each in inspect.signature(handler).parameters.values()
            if each.kind in _POSITIONAL
        ]
        written = parameters[1].annotation if len(parameters) > 1 else Any
        # Of this one only: what the others are annotated with may be for type checkers alone.
        holder = types.SimpleNamespace(__annotations__={"payload": written})
        found = typing.get_type_hints(holder, _names(handler), include_extras=True)["payload"]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise InvalidInput(
            f"the payload type of task {task!r} cannot be resolved: {error}",
            hint="Define or import it at the top level of the handler's module, not under "
            "TYPE_CHECKING or within a function.",
        ) from None
    return Any if any(found is each for each in _ANYTHING) else found


def _names(handler: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that the annotations of a function, or what wraps one, may use."""
    found: Any = handler
    while isinstance(found, functools.partial) or hasattr(found, "__wrapped__"):
        found = found.func if isinstance(found, functools.partial) else found.__wrapped__
    if not hasattr(found, "__globals__"):
        found = getattr(found, "__func__", type(found).__call__)
    names: dict[str, Any] = getattr(found, "__globals__", {})
    return names


def _decoder(task: str, wanted: Any) -> Callable[[bytes], Any]:
    if wanted is Any:
        return _read_any
    try:
        foreign = _foreign(msgspec.inspect.type_info(wanted), set())
        decode = msgspec.json.Decoder(wanted).decode
    except (NameError, TypeError) as error:
        raise _unusable(task, wanted, str(error)) from None
    if foreign is not None:
        raise _unusable(task, wanted, f"nothing in JSON becomes {_named(foreign)}")
    return decode


def _foreign(node: object, seen: set[int]) -> Any:
    """Return a class that msgspec does not know somewhere in a type, or None."""
    if id(node) in seen:
        return None
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType):
        return None if node.cls is object else node.cls
    parts: list[object] = []
    if isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field):
        parts = [getattr(node, name) for name in node.__struct_fields__]
    elif isinstance(node, tuple):
        parts = list(node)
    for part in parts:
        found = _foreign(part, seen)
        if found is not None:
            return found
    return None


def _unusable(task: str, wanted: Any, reason: str) -> InvalidInput:
    return InvalidInput(
        f"the payload of task {task!r} cannot be {_named(wanted)}: {reason}"[:400],
        hint="Annotate it with a msgspec.Struct, a dataclass, a TypedDict or plain types, or "
        "leave the annotation out.",
    )


def _named(wanted: Any) -> str:
    name = wanted.__name__ if isinstance(wanted, type) and not _is_generic(wanted) else str(wanted)
    return str(name)[:80]


def _is_generic(wanted: Any) -> bool:
    return typing.get_origin(wanted) is not None


def _pointer(text: str) -> str:
    """Write msgspec's path, as in `$.rows[0].count`, as a JSON pointer below the payload."""
    found = _PATH.search(text)
    steps = _STEP.findall(found[1]) if found else []
    return "/payload" + "".join(f"/{name or index}" for name, index in steps)[:_TEXT_LENGTH_MAX]
