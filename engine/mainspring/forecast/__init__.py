"""What a set of jobs will do over a span of time, without running anything.

The contract, which tests hold against the engine in virtual time:

1. *The decisions are the scheduler's.*  Jobs are read by the rules of registration, occurrences
   come from the schedule's kernel, and what comes late is judged by `judge_missed`, with the job's
   own grace, policy and `max_missed`.

2. *The span is `from <= t < to`.*  Spans that follow one another share nothing and leave nothing
   out.  What a job did before the span went well and is over.  A job that is registered within the
   span, or at its start, begins there; an occurrence at that very instant is not one of its own.

3. *An outage is `from <= t < to`, and sharp.*  What becomes due within it is served at its end, all
   at once.  One that reaches into the span from before is looked at from its own beginning.  A run
   that is under way when an outage begins is finished, as a worker that is told to stop does; the
   next occurrence waits for the end of the outage.

4. *A job's runs do not overlap.*  Each takes `runs_take`; what becomes due meanwhile waits for its
   end and is judged then.  Without `runs_take` runs take no time.

5. *Everything is accounted for.*  Each occurrence of the span is a firing, or part of a recorded
   miss, or still waits at its end.

Left out, on purpose: failures and retries, pauses, limits on how many runs go on at a time, the
pace of a large catch-up (`catch_up_rate`), the seconds that a takeover needs.

`plan` reads the file, `outages` knows when nothing is served, `occurrences` gives the instants of a
schedule as an array, `firings` puts them together, one job after the other.  Pure: nothing here
reads a clock, a file or a database.
"""

from __future__ import annotations

from mainspring.forecast.firings import JobForecast, MissedSpan, count_due, forecast_job
from mainspring.forecast.occurrences import occurrences_between
from mainspring.forecast.outages import Outages
from mainspring.forecast.plan import Plan, PlannedJob, read_plan

__all__ = [
    "JobForecast",
    "MissedSpan",
    "Outages",
    "Plan",
    "PlannedJob",
    "count_due",
    "forecast_job",
    "occurrences_between",
    "read_plan",
]
