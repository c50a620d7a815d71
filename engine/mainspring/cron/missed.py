"""The judgement on a firing that comes late: is it missed, and what is run instead.

Judged once per firing, at its first claim.  Pure; recording the miss and moving the cursor is one
fenced statement of the store.

Of several due occurrences only the newest can still be on time.  Under RUN_ONCE all missed ones
together get one run, whose `scheduled_at` is that of the latest missed.  The newest occurrence, if
the grace covers it, follows as an ordinary firing after that run, because the next occurrence is
always computed from the occurrence that ran.

SKIP and RUN_ALL are refused at registration for now and have no judgement here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mainspring.cron.occurrence import due_occurrences, latest_occurrence_us
from mainspring.cron.schedule import Schedule
from mainspring.model import MissedWindow


class Verdict(NamedTuple):
    """What becomes of a firing that was scheduled at o1, with o1 .. ok due by now.

    Attributes
    ----------
    is_on_time
        Not missed: run it as it is.  The other attributes are then None and 0.
    catch_up_scheduled_us
        `scheduled_at` of the one run with `catch_up = true`: the latest missed occurrence.
    missed_count
        How many occurrences were missed, the one that is run included.
    dropped_count
        How many of them are not run: `missed_count - 1`.
    dropped_first_us, dropped_last_us
        The oldest and newest of those; None if there are none.
    """

    is_on_time: bool
    catch_up_scheduled_us: int | None = None
    missed_count: int = 0
    dropped_count: int = 0
    dropped_first_us: int | None = None
    dropped_last_us: int | None = None


ON_TIME: Final = Verdict(is_on_time=True)


def judge_missed(
    schedule: Schedule, policy: MissedWindow, scheduled_at_us: int, now_us: int, grace_us: int
) -> Verdict:
    """Judge the first claim of a firing that nobody asked for by hand.

    Parameters
    ----------
    scheduled_at_us
        The firing's nominal time; before `now_us` or not.
    now_us
        The database's time.
    grace_us
        Late by exactly this much is still on time.

    Raises
    ------
    ValueError
        A policy other than RUN_ONCE.
    """
    if policy is not MissedWindow.RUN_ONCE:
        msg = f"missed window {policy} has no judgement"
        raise ValueError(msg)
    assert grace_us >= 0, grace_us
    if now_us - scheduled_at_us <= grace_us:
        return ON_TIME
    due = due_occurrences(schedule, scheduled_at_us, now_us)
    if due.previous_us is not None and now_us - due.latest_us <= grace_us:
        missed_count, catch_up_us = due.count - 1, due.previous_us
    else:
        missed_count, catch_up_us = due.count, due.latest_us
    dropped_count = missed_count - 1
    if dropped_count == 0:
        return Verdict(
            is_on_time=False, catch_up_scheduled_us=catch_up_us, missed_count=missed_count
        )
    dropped_last_us = (
        scheduled_at_us if dropped_count == 1 else latest_occurrence_us(schedule, catch_up_us - 1)
    )
    return Verdict(
        is_on_time=False,
        catch_up_scheduled_us=catch_up_us,
        missed_count=missed_count,
        dropped_count=dropped_count,
        dropped_first_us=scheduled_at_us,
        dropped_last_us=dropped_last_us,
    )
