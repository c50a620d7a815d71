"""Every error a caller may want to catch, in Postgres' three parts.

The primary message is lower case, has no full stop and names the thing and its value.  `detail`
gives facts, `hint` is a sentence on what to do.  `AssertionError` is for bugs of ours and is
never caught.

Source: PostgreSQL, "Error Message Style Guide".
"""

from __future__ import annotations


class MainspringError(Exception):
    """Base of all errors of this library."""

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"detail: {self.detail}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class InvalidInput(MainspringError):
    """A value from outside breaks a rule; `pointer` names where, as in `/schedule`."""

    def __init__(
        self,
        message: str,
        *,
        pointer: str = "",
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.pointer = pointer


class MalformedBody(InvalidInput):
    """Bytes that are no JSON text at all, or one nested too deep to be read."""


class InvalidSchedule(InvalidInput):
    """A schedule, zone or instant that cannot be read, or that never fires."""


class InvalidTemplate(InvalidInput):
    """An idempotency key template with an unknown variable, or one that is too long."""


class NotFound(MainspringError):
    """An id that was never given out, or a thing that is gone."""


class Conflict(MainspringError):
    """The request is well formed but the state of the thing forbids it."""


class PreconditionFailed(Conflict):
    """The job is not at the rev any more that the caller has seen; nothing was changed."""


class StoreUnavailable(MainspringError):
    """The database cannot be reached, or it ended the session.

    Whether the last statement was committed is *unknown*: repeat it by its key.  `is_lost` says
    whether the database itself is away, and not only this statement or a session of our own.
    """

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        is_lost: bool = False,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.is_lost = is_lost


class StatementRetry(StoreUnavailable):
    """A deadlock or lock time-out rolled the statement back; it may be repeated as it is."""


class MigrationRefused(MainspringError):
    """The schema in the database is not one this release can bring forward."""


class PoolerDetected(MainspringError):
    """A pooler in transaction mode sits between us and the server; sessions do not hold."""


class TermLost(MainspringError):
    """The shard has another leader, or a newer term.  Nothing was leased."""


class HolderLost(MainspringError):
    """A holder was silent for too long and was declared dead; another id must be drawn."""


class CorruptCopy(MainspringError):
    """The bytes of a COPY did not decode.

    The rows *are* leased; the next full sweep finds them, so the firings are late, never lost.
    """


class CorruptFrame(MainspringError):
    """The bytes of a frame did not decode.  They are counted and dropped."""


class EffectRefused(MainspringError):
    """An effect cannot be tied to its key: the table of keys is not there or may not be written."""


class DevPostgresError(MainspringError):
    """The embedded Postgres could not be found, made, started, or is already running."""


class EngineFailed(MainspringError):
    """The scheduler or the worker of an engine ended by itself; the cause is why."""


class Retry(Exception):
    """Raised by a handler: this attempt failed, try again.

    Parameters
    ----------
    after_seconds
        Delay before the next attempt.  None, the default, means the job's own backoff.
    reason
        Kept as the run's error text.
    """

    def __init__(self, reason: str = "", *, after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.after_seconds = after_seconds


class Dead(Exception):
    """Raised by a handler: do not retry, write the dead letter now."""
