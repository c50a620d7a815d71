"""Sets logging up: one JSON object a line on standard error, or readable text on a terminal.

That is for a process of our own, which calls `configure`.  In a host's process nobody does: what we
have to say then goes to the standard library's `logging`, under names that begin with `mainspring`,
and the host decides what becomes of it.

No payload, output or password gets into a log.  Values under the names in `SECRET_KEYS` are left
out, and every text is searched for DSNs, whose passwords are masked.

Source: structlog manual, "Logging best practices"; RFC 3986, section 3.2.1 (user information).
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import suppress
from typing import Final, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, WrappedLogger

from mainspring.errors import MainspringError, StoreUnavailable

SECRET_KEYS: Final = frozenset({"payload", "output", "password", "token", "authorization"})
"""What a handler was given or returned belongs to the user, and the rest opens doors."""

TRACE: Final = "exception"
"""The field with the text of a traceback; structlog's renderers know it by this name."""

MASK: Final = "***"
LEFT_OUT: Final = "[left out]"
TEXT_CHARACTERS_MAX: Final = 8_192

# The user information ends at the last @ before the host, so a password that holds an unescaped @
# is masked whole.
_URL: Final = re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@?#]*):[^\s/]*@")
_QUERY: Final = re.compile(r"([?&](?:ssl)?password=)[^&\s#]*", re.IGNORECASE)
_KEYWORD: Final = re.compile(
    r"(\b(?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|(?:[^\s'\\&]|\\.)+)", re.IGNORECASE
)


class Log:
    """Says what happens under one name; see the module for where that goes."""

    __slots__ = ("_hosted", "_own")

    is_process_ours = False
    """Whether `configure` was called, in this process."""

    def __init__(self, name: str) -> None:
        self._own = structlog.get_logger(name)
        self._hosted = logging.getLogger(name)

    def info(self, event: str, **fields: object) -> None:
        """Say something that is expected."""
        self._say(logging.INFO, event, fields)

    def debug(self, event: str, **fields: object) -> None:
        """Say something for whoever looks for it."""
        self._say(logging.DEBUG, event, fields)

    def failed(self, event: str, error: Exception, **fields: object) -> None:
        """Say that a request failed: a warning, but while the database is lost for debug only.

        That it is lost is said once, by `store.outage`.
        """
        is_lost = isinstance(error, StoreUnavailable) and error.is_lost
        said = error.message if isinstance(error, MainspringError) else str(error)
        self._say(logging.DEBUG if is_lost else logging.WARNING, event, {"error": said, **fields})

    def warning(self, event: str, **fields: object) -> None:
        """Say something that heals by itself, but should not be frequent."""
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Say something that a person should look at."""
        self._say(logging.ERROR, event, fields)

    def _say(self, level: int, event: str, fields: EventDict) -> None:
        if Log.is_process_ours:
            self._own.log(level, event, **fields)
        elif self._hosted.isEnabledFor(level):
            trace = fields.pop(TRACE, None)
            said = (f"{name}={_scrubbed(name, value)}" for name, value in fields.items())
            line = " ".join([event, *said])
            # As the standard library writes a traceback: on lines of its own.
            self._hosted.log(
                level, "%s", line if trace is None else f"{line}\n{_scrubbed(TRACE, trace)}"
            )


def get_logger(name: str) -> Log:
    """Return what says things under a name, as in `mainspring.worker`."""
    return Log(name)


def mask_dsn(text: str) -> str:
    """Return `text` with the password of every DSN in it replaced by `***`.

    Both forms of libpq are known: `postgres://user:password@host/db?password=x` and
    `host=x password='y z'`.  Text without a DSN is returned as it is.
    """
    masked = _URL.sub(rf"\1:{MASK}@", text)
    masked = _QUERY.sub(rf"\1{MASK}", masked)
    return _KEYWORD.sub(rf"\1{MASK}", masked)


def configure(kind: str, *, is_terminal: bool | None = None) -> None:
    """Set structlog up for this process.

    Parameters
    ----------
    kind
        `scheduler`, `worker`, `api` or `cli`; stands in every line.
    is_terminal
        Readable text instead of JSON.  None, the default, looks at standard error.
    """
    Log.is_process_ours = True
    stream = _Unfailing(sys.stderr)
    if is_terminal is None:
        is_terminal = stream.isatty()

    def say_who(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:  # noqa: ARG001
        event["process"] = kind  # not by a context variable: threads begin with none
        return event

    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer()
        if is_terminal
        else structlog.processors.JSONRenderer(serializer=_to_json)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            say_who,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            _scrub,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.PrintLoggerFactory(stream),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )


class _Unfailing:
    """Standard error as a place that takes everything.

    A full disk, a log collector that ended, or no standard error at all: lines are lost then, and
    nothing else.  Who logs is often the one thread that must go on.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write, or lose it."""
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.write(text)

    def flush(self) -> None:
        """Flush, or lose it."""
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.flush()

    def isatty(self) -> bool:
        """Return whether a person reads it."""
        return self._stream is not None and not self._stream.closed and self._stream.isatty()


def _scrub(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:  # noqa: ARG001
    """Leave secrets out and cut what is long; a processor of structlog."""
    return {key: _scrubbed(key, value) for key, value in event.items()}


def _scrubbed(key: str, value: object) -> object:
    if key.lower() in SECRET_KEYS:
        return LEFT_OUT
    if isinstance(value, bool | int | float | None):
        return value
    if isinstance(value, dict):
        return {str(name): _scrubbed(str(name), one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed("", one) for one in value]
    text = value if isinstance(value, str) else repr(value)
    if len(text) > TEXT_CHARACTERS_MAX:
        text = text[:TEXT_CHARACTERS_MAX] + " [cut]"
    return mask_dsn(text).encode("utf-8", "backslashreplace").decode()


def _to_json(event: EventDict, **_options: object) -> str:
    return msgspec.json.encode(event).decode()
