"""A schedule read out in plain English, by the library cron-descriptor."""

from __future__ import annotations

from cron_descriptor import ExpressionDescriptor, Options  # type: ignore[import-untyped]

from mainspring.cron.grammar import ALIASES
from mainspring.cron.schedule import Schedule, ScheduleKind
from mainspring.cron.spread import spread
from mainspring.instants import format_instant


def in_words(schedule: Schedule, job_id: int = 0) -> str:
    """Say what a schedule means, as in `At 09:00, only on Monday`.

    Parameters
    ----------
    job_id
        Whose `H` is read.
    """
    text = schedule.text.strip(" \t")
    if schedule.kind is ScheduleKind.ONCE:
        return f"Once, at {format_instant(schedule.at_us)}"
    if schedule.kind is ScheduleKind.EVERY:
        return f"Every {text.split()[1]}, counted from the registration"
    expression = ALIASES.get(text.lower(), spread(text, job_id))
    options = Options(use_24hour_time_format=True, locale_code="en_US")
    return str(ExpressionDescriptor(expression, options).get_description())
