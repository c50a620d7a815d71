"""What payloads a handler's annotation lets in."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

from mainspring.errors import Dead, InvalidInput
from mainspring.handlers import Context, Tasks
from mainspring.payload_type import PayloadType


class Row(msgspec.Struct):
    count: int


class Report(msgspec.Struct):
    kind: str
    rows: list[Row] = []
    more: dict[str, Row] = {}
    next: Report | None = None


@dataclasses.dataclass
class Plain:
    x: float


class Typed(TypedDict):
    x: int


class Foreign: ...


class HoldsForeign(msgspec.Struct):
    inner: list[Foreign]


def takes(annotation: Any) -> PayloadType:
    def handler(ctx: Context, payload: Any) -> None: ...

    handler.__annotations__["payload"] = annotation
    return PayloadType("t", handler)


@pytest.mark.parametrize(
    ("annotation", "payload", "value"),
    [
        (Report, b'{"kind":"a","rows":[{"count":2}]}', Report("a", [Row(2)])),
        ("Report", b'{"kind":"a","next":{"kind":"b"}}', Report("a", next=Report("b"))),
        (Plain, b'{"x":1}', Plain(1.0)),
        (Typed, b'{"x":1}', {"x": 1}),
        (list[int], b"[1,2]", [1, 2]),
        ("list[Row]", b'[{"count":1}]', [Row(1)]),
        (Annotated[int, msgspec.Meta(ge=3)], b"3", 3),
        (Report | None, b"null", None),
        (None, b"null", None),
        (dict, b'{"a":[1]}', {"a": [1]}),
        (msgspec.Raw, b'{"a": 1}', b'{"a": 1}'),
        (Any, b'{"a":[null]}', {"a": [None]}),
        (object, b'"text"', "text"),
    ],
)
def test_a_payload_becomes_what_the_handler_is_annotated_with(
    annotation: Any, payload: bytes, value: Any
) -> None:
    """Structs, dataclasses, TypedDicts and plain types, also written as text."""
    kind = takes(annotation)
    kind.check(payload)
    found = kind.read(payload)

    assert bytes(found) == value if isinstance(found, msgspec.Raw) else found == value
    assert kind.is_any == (annotation in (Any, object))


@pytest.mark.parametrize(
    ("annotation", "payload", "text", "pointer"),
    [
        (
            Report,
            b'{"kind":1}',
            "payload is not Report: Expected `str`, got `int`",
            "/payload/kind",
        ),
        (Report, b"{}", "missing required field `kind`", "/payload"),
        (Report, b"null", "Expected `object`, got `null`", "/payload"),
        (
            Report,
            b'{"kind":"a","rows":[{"count":1},{"count":"x"}]}',
            "got `str` - at `$.rows[1].count`",
            "/payload/rows/1/count",
        ),
        (Report, b'{"kind":"a","more":{"k":{"count":"x"}}}', "got `str`", "/payload/more/count"),
        (Annotated[int, msgspec.Meta(ge=3)], b"2", "Expected `int` >= 3", "/payload"),
        (Report, b'{"kind":', "truncated", "/payload"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_its_field(
    annotation: Any, payload: bytes, text: str, pointer: str
) -> None:
    """At registration as InvalidInput with a pointer, in a run as Dead with the same text."""
    kind = takes(annotation)
    with pytest.raises(InvalidInput) as refused:
        kind.check(payload)
    with pytest.raises(Dead) as died:
        kind.read(payload)

    assert text in refused.value.message
    assert refused.value.pointer == pointer
    assert str(died.value) == refused.value.message


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("Absent", "cannot be resolved: name 'Absent' is not defined"),
        ("dataclasses.Absent", "cannot be resolved"),
        ("Report |", "cannot be resolved"),
        (Foreign, "cannot be Foreign: nothing in JSON becomes Foreign"),
        (HoldsForeign, "nothing in JSON becomes Foreign"),
        (list[Foreign], "nothing in JSON becomes Foreign"),
        (Row | Report, "If a type union"),
    ],
)
def test_a_type_that_no_payload_becomes_is_refused_at_registration(
    annotation: Any, text: str
) -> None:
    """Not at the first run; the message names the task."""
    with pytest.raises(InvalidInput, match="task 't'") as refused:
        takes(annotation)

    assert text in refused.value.message


def unannotated(ctx, payload):  # type: ignore[no-untyped-def]
    ...


def stars(*both: int) -> None: ...


class Called:
    async def __call__(self, ctx: Context, payload: Report) -> None: ...

    def method(self, ctx: Context, payload: Report) -> None: ...


def three(extra: int, ctx: Context, payload: Report) -> None: ...


@functools.wraps(three)
def wrapped(*arguments: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "annotation"),
    [
        (unannotated, Any),
        (stars, Any),
        (lambda ctx, payload: None, Any),
        (Called(), Report),
        (Called().method, Report),
        (functools.partial(three, 1), Report),
        (functools.partial(wrapped, 1), Report),
    ],
)
def test_the_annotation_is_found_behind_objects_and_wrappers(handler: Any, annotation: Any) -> None:
    """Methods, callable objects, partials and decorated functions; none means anything."""
    assert PayloadType("t", handler).annotation == annotation


def test_other_annotations_need_not_resolve() -> None:
    """Only the payload's is looked at: the context's may be there for type checkers alone."""

    def handler(ctx: Absent, payload: Report) -> Absent: ...  # type: ignore[name-defined]  # noqa: F821

    tasks = Tasks()
    tasks.task("t")(handler)
    task = tasks.get("t")
    assert task is not None
    assert task.payload_type.annotation is Report
