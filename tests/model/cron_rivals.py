"""One question to mainspring, croniter and cronsim, each with its default options."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn

from croniter import croniter
from croniter.croniter import CroniterBadDateError, CroniterError
from cronsim import CronSim, CronSimError

from mainspring.cron import next_occurrence_us, parse_schedule
from mainspring.errors import InvalidSchedule
from model.cron_oracle import US, zone_of

REFUSED: Final = "refused"
NEVER: Final = "never"
HANGS: Final = "hangs"
HANGS_AFTER_S: Final = 0.5
"""Processor time; a usual answer takes a few milliseconds at most."""

Answer = float | str
"""Seconds since the epoch, or one of the three words."""

START: Final = datetime(2026, 6, 8, 13, tzinfo=UTC)


class Question(NamedTuple):
    """What comes next after an instant, in seconds since the epoch."""

    text: str
    zone_name: str
    after_s: int

    @property
    def after(self) -> datetime:
        return datetime.fromtimestamp(self.after_s, zone_of(self.zone_name))


def ask_mainspring(question: Question) -> Answer:
    try:
        schedule = parse_schedule(question.text, question.zone_name, anchor_us=0)
    except InvalidSchedule:
        return REFUSED
    next_us = next_occurrence_us(schedule, question.after_s * US)
    return NEVER if next_us is None else next_us / US


def ask_croniter(question: Question) -> Answer:
    try:
        return float(croniter(question.text, question.after).get_next(datetime).timestamp())
    except CroniterBadDateError:
        return NEVER
    except CroniterError:
        return REFUSED


def ask_cronsim(question: Question) -> Answer:
    try:
        with _limited():
            return next(CronSim(question.text, question.after)).timestamp()
    except CronSimError:
        return REFUSED
    except StopIteration:
        return NEVER
    except TimeoutError:
        return HANGS


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError in what takes too much processor time; a timer that pytest leaves free."""

    def end(_number: int, _frame: object) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_AFTER_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


RIVALS: Final[dict[str, Callable[[Question], Answer]]] = {
    "croniter": ask_croniter,
    "cronsim": ask_cronsim,
}


def takes(library: str, text: str) -> bool:
    """Whether a library takes a text at all; a crash on it is a refusal as well."""
    try:
        if library == "croniter":
            croniter(text, START)
        else:
            CronSim(text, START)
    except (CronSimError, ValueError):  # croniter's own errors are ValueErrors, too
        return False
    return True
