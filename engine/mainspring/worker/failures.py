"""Says in the log which runs failed and which firings are dead letters.

A storm of failures must not flood the log: of each task some lines a second, and then one with how
many more there were.  What a handler was given is never logged; a traceback holds lines of source
and the exception's own text, not the values of variables.
"""

from __future__ import annotations

from typing import Final

from mainspring.handlers import Context, Outcome, OutcomeKind
from mainspring.logs import get_logger
from mainspring.ration import Ration

log = get_logger("mainspring.worker")

LINES_PER_S: Final = 10
ERROR_CHARACTERS_MAX: Final = 300


class FailureLog:
    """What one worker says of failures."""

    def __init__(self) -> None:
        self._runs = Ration(LINES_PER_S)
        self._letters = Ration(LINES_PER_S)

    def on_run_ended(self, context: Context, outcome: Outcome) -> None:
        """Log an attempt that has failed, as a warning, with its traceback if there is one."""
        assert outcome.kind is not OutcomeKind.SUCCESS
        if self._runs.take(context.task):
            trace = {} if outcome.trace is None else {"exception": outcome.trace}
            log.warning(
                "run failed",
                task=context.task,
                job_id=context.job_id,
                run_id=context.run_id,
                attempt=context.attempt,
                error=_line(outcome.error),
                **trace,
            )

    def on_dead_letter(self, context: Context, error: str | None) -> None:
        """Log a firing that is out of attempts, as an error."""
        if self._letters.take(context.task):
            log.error(
                "dead letter",
                task=context.task,
                job_id=context.job_id,
                run_id=context.run_id,
                attempt=context.attempt,
                error=_line(error),
            )

    def tell_rest(self, *, is_end: bool = False) -> None:
        """Say how many more there were; often, as it costs nothing where there were none."""
        for ration, said in ((self._runs, log.warning), (self._letters, log.error)):
            event = "more runs failed" if ration is self._runs else "more dead letters"
            for task, count in ration.all_kept_back() if is_end else ration.kept_back():
                said(event, task=task, count=count)


def _line(error: str | None) -> str:
    return (error or "").partition("\n")[0][:ERROR_CHARACTERS_MAX]
