"""Turns what a handler returned or raised into an `Outcome` that can be stored.

Nothing a handler hands us may fail us: texts that raise when read, values that are no JSON, ten
megabytes of anything.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Any, Final

import msgspec

from mainspring.errors import Dead, Retry
from mainspring.handlers import Outcome, OutcomeKind
from mainspring.store.text import CUT_MARK, REPLACEMENT, TEXT_BYTES_MAX, clean_text

RETRY_AFTER_SECONDS_MAX: Final = 366 * 86_400
LEAVES_MAX: Final = 5
"""Members of an exception group that are named."""

TRACES_PER_S: Final = 20
"""Of one task: enough for what is logged, and a storm of failures costs no more."""

TRACE_BYTES_MAX: Final = 4_096
FRAMES_MAX: Final = 30

_encoder: Final = msgspec.json.Encoder()
_NOTHING: Final = Outcome(OutcomeKind.SUCCESS)


def outcome_of_value(value: object, output_bytes_max: int = TEXT_BYTES_MAX) -> Outcome:
    """Return the success of a handler that returned `value`.

    The output is JSON text, cut to `output_bytes_max`; a value that JSON cannot show becomes the
    text of its `repr`.  None, or a limit too small for anything, gives no output.
    """
    if value is None or output_bytes_max < len(CUT_MARK):
        return _NOTHING
    try:
        encoded = _encoder.encode(value)
    except Exception:  # noqa: BLE001  foreign objects take part in their encoding
        encoded = _encoder.encode(clean_text(_read(repr, value), output_bytes_max))
    # Four bytes more than the limit hold the character that the limit cuts through.
    head = encoded[: output_bytes_max + 4].decode(errors="ignore")
    return Outcome(OutcomeKind.SUCCESS, output=clean_text(head, output_bytes_max))


def outcome_of_error(error: BaseException, *, is_traced: bool = False) -> Outcome:
    """Return the end that a handler chose by raising `error`.

    Parameters
    ----------
    is_traced
        With the text of its traceback, which takes about a millisecond.  A `Retry` or `Dead` that
        was raised for no other error has said all there is to say, and gets none.
    """
    if isinstance(error, Dead | Retry) and error.__cause__ is None and error.__context__ is None:
        is_traced = False
    trace = _trace(error) if is_traced else None
    if isinstance(error, Dead):
        text = _read(str, error) or "the handler gave up"
        return Outcome(OutcomeKind.DEAD, error=clean_text(text), trace=trace)
    if isinstance(error, Retry):
        return _outcome_of_retry(error, trace)
    return failed(_describe(error), trace)


def failed(text: str, trace: str | None = None) -> Outcome:
    """Return a failure with this text, cleaned and cut."""
    return Outcome(OutcomeKind.FAILED, error=clean_text(text), trace=trace)


def _outcome_of_retry(error: Retry, trace: str | None) -> Outcome:
    after: Any = error.after_seconds
    if after is not None:
        is_number = isinstance(after, int | float) and not isinstance(after, bool)
        # NaN is not within any bounds, and an int too large for a float is compared exactly.
        if not (is_number and 0 <= after <= RETRY_AFTER_SECONDS_MAX):
            return failed(
                f"Retry(after_seconds={_read(repr, after)[:60]}) is not a number of seconds from 0"
                f" to {RETRY_AFTER_SECONDS_MAX}",
                trace,
            )
    text = _read(str, error) or "the handler asked for another attempt"
    return Outcome(
        OutcomeKind.RETRY,
        error=clean_text(text),
        retry_after_seconds=None if after is None else float(after),
        trace=trace,
    )


def _trace(error: BaseException) -> str | None:
    """Write the traceback without values of variables, from the handler on; its end, if long."""
    first = error.__traceback__
    if first is not None and first.tb_next is not None:
        first = first.tb_next  # the first frame is ours, which called the handler
    try:
        said = traceback.TracebackException(
            type(error), error, first, limit=-FRAMES_MAX, compact=True, max_group_width=LEAVES_MAX
        )
        text = "".join(said.format()).rstrip()
    except BaseException:  # noqa: BLE001  foreign objects take part in it
        return None
    end = text[-TRACE_BYTES_MAX:].replace("\0", REPLACEMENT).encode(errors="backslashreplace")
    if len(text) <= TRACE_BYTES_MAX and len(end) <= TRACE_BYTES_MAX:
        return end.decode()
    return CUT_MARK.lstrip() + " " + end[-TRACE_BYTES_MAX:].decode(errors="ignore")


def _describe(error: BaseException) -> str:
    """Write type, text and place; of a group its first leaves."""
    text = _read(str, error)
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        leaves = _leaves(error)[:LEAVES_MAX]
        return "\n".join([line, *(_describe(leaf) for leaf in leaves)])
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    if frames:
        place = frames[-1]
        line = f"{line}\nat {PurePath(place.filename).name}:{place.lineno} in {place.name}"
    return line


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending and len(leaves) < LEAVES_MAX:
        one = pending.pop(0)
        if isinstance(one, BaseExceptionGroup):
            pending[:0] = one.exceptions
        else:
            leaves.append(one)
    return leaves


def _read(how: Any, value: object) -> str:
    """Return `str` or `repr` of a foreign object, or say that it cannot be read."""
    try:
        text = how(value)
    except BaseException as error:  # noqa: BLE001  its code is the user's
        return f"<{type(value).__name__} whose text cannot be read: {type(error).__name__}>"
    return str.__str__(text)
