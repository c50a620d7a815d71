"""The judgement on a firing that comes late: is it missed, and what is run instead.

Judged once per firing, at its first claim.  Pure; recording the miss and moving the cursor is one
fenced statement of the store.

Of several due occurrences only the newest can still be on time.  What becomes of the missed ones is
the job's policy:

- SKIP: none of them runs.  The newest, if the grace covers it, runs at once, an ordinary firing.
- RUN_ONCE: one run stands for all, with the `scheduled_at` of the latest missed.  The newest, if
  the grace covers it, follows after that run by itself, because the next occurrence is always
  computed from the occurrence that ran.
- RUN_ALL: the newest `max_missed` of them run one after the other, oldest first.  The judgement
  moves the firing to the oldest that is kept; the next one is then a firing of its own, judged at
  its own first claim.  It keeps no state: what passes meanwhile counts as well, and the cap holds
  again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mainspring.cron.occurrence import (
    due_occurrences,
    latest_occurrence_us,
    newest_but_us,
    next_occurrence_us,
)
from mainspring.cron.schedule import Schedule
from mainspring.model import MissedWindow


class Verdict(NamedTuple):
    """What becomes of a firing that was scheduled at o1, with o1 .. ok due by now.

    Attributes
    ----------
    is_on_time
        Not missed: run it as it is.  The other attributes are then None, False and 0.
    run_scheduled_us
        `scheduled_at` of what this firing runs now; None if nothing is run.
    is_catch_up
        That run is of a missed occurrence; False where it is the newest, within its grace.
    next_us
        If nothing is run: where the cursor moves, the first occurrence after now; None if there is
        none, of a one-off or at the end of 9999.
    missed_count
        How many occurrences are missed by this judgement: those dropped, and the one that is run as
        a catch-up.  Under RUN_ALL those that wait are not among them, each is counted at its own
        judgement; so over a chain of catch-up runs the counts add up to all that were missed.
    dropped_count
        How many of them nothing will run.
    dropped_first_us, dropped_last_us
        The oldest and newest of those; None if there are none.
    waiting_count
        RUN_ALL: how many missed occurrences are still to be run after this one, as of now.
    """

    is_on_time: bool
    run_scheduled_us: int | None = None
    is_catch_up: bool = False
    next_us: int | None = None
    missed_count: int = 0
    dropped_count: int = 0
    dropped_first_us: int | None = None
    dropped_last_us: int | None = None
    waiting_count: int = 0


ON_TIME: Final = Verdict(is_on_time=True)


def judge_missed(
    schedule: Schedule,
    policy: MissedWindow,
    scheduled_at_us: int,
    now_us: int,
    grace_us: int,
    max_missed: int,
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
    max_missed
        RUN_ALL: how many missed occurrences run at most, at least 1.

    Notes
    -----
    Takes time for the months between `scheduled_at_us` and `now_us`, never for each occurrence.
    """
    assert grace_us >= 0, grace_us
    assert max_missed >= 1, max_missed
    if now_us - scheduled_at_us <= grace_us:
        return ON_TIME
    due = due_occurrences(schedule, scheduled_at_us, now_us)
    # The newest missed one, and the newest of all if the grace covers it.
    if due.previous_us is not None and now_us - due.latest_us <= grace_us:
        missed_count, missed_last_us, covered_us = due.count - 1, due.previous_us, due.latest_us
    else:
        missed_count, missed_last_us, covered_us = due.count, due.latest_us, None
    if policy is MissedWindow.SKIP:
        return Verdict(
            is_on_time=False,
            run_scheduled_us=covered_us,
            next_us=next_occurrence_us(schedule, now_us) if covered_us is None else None,
            missed_count=missed_count,
            dropped_count=missed_count,
            dropped_first_us=scheduled_at_us,
            dropped_last_us=missed_last_us,
        )
    kept_count = min(max_missed, missed_count) if policy is MissedWindow.RUN_ALL else 1
    dropped_count = missed_count - kept_count
    if dropped_count == 0:
        run_us, dropped_first_us, dropped_last_us = scheduled_at_us, None, None
    else:
        run_us = newest_but_us(schedule, scheduled_at_us, missed_last_us, kept_count - 1)
        dropped_first_us = scheduled_at_us
        dropped_last_us = (
            scheduled_at_us if dropped_count == 1 else latest_occurrence_us(schedule, run_us - 1)
        )
    return Verdict(
        is_on_time=False,
        run_scheduled_us=run_us,
        is_catch_up=True,
        missed_count=dropped_count + 1,
        dropped_count=dropped_count,
        dropped_first_us=dropped_first_us,
        dropped_last_us=dropped_last_us,
        waiting_count=kept_count - 1,
    )
