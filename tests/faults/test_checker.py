"""The judge of the fault scenarios reports what is planted, one defect at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from faults.checker import check
from faults.expected import Deletion, expect
from faults.facts import Facts, Strike
from faults.load import Planned, Registered
from faults.truth import Effect, Line, Row, Tables, parse_line

S = 1_000_000
NOW_US = 1_796_000_000 * S
STRUCK, ALIVE, STRUCK_NEXT = 11, 22, 33
"""Process ids."""


def mono(wall_us: int) -> int:
    return wall_us - NOW_US + 5 * S


def line(event: str, run: tuple[str, int, int], wall_us: int, pid: int = ALIVE) -> Line:
    job_id, scheduled_us, attempt = run
    run_id = f"r_{job_id}_{scheduled_us}_{attempt}"
    output = f"{run_id}/{pid}" if event == "end" else "-"
    key = f"{job_id}:{scheduled_us // S}"
    return Line(
        event,
        run_id,
        job_id,
        scheduled_us,
        attempt,
        attempt,
        pid,
        wall_us,
        mono(wall_us),
        key,
        output,
    )


def row_of(begun: Line, status: str) -> Row:
    return Row(
        begun.run_id,
        begun.job_id,
        begun.scheduled_us,
        begun.attempt,
        status,
        begun.wall_us - 10,
        begun.pid,
        f"{begun.run_id}/{begun.pid}" if status == "success" else None,
    )


class History:
    """A scenario that kept every promise, to be spoiled.

    `once` ran well; `every` is due each second and was deleted at the end; `lost` was held by a
    killed process and went on elsewhere; `doomed` failed for good; `deleted` never ran.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.effects: list[Effect] = []
        self.rows: list[Row] = []
        self.letters: set[str] = set()
        self.firings_left: list[str] = []
        self.deletions = {
            "deleted": Deletion("deleted", NOW_US, NOW_US + 100),
            "every": Deletion("every", NOW_US + 4 * S, NOW_US + 4 * S + 100),
        }
        self.jobs = [
            Registered("once", 1, Planned({}, first_us=NOW_US + S)),
            Registered("every", 2, Planned({}, period_us=S, anchor_us=NOW_US)),
            Registered("lost", 3, Planned({}, first_us=NOW_US + S)),
            Registered("doomed", 4, Planned({}, "dead", first_us=NOW_US + S)),
            Registered("deleted", 5, Planned({}, first_us=NOW_US + 3 * S, delete_ahead_us=1)),
        ]
        self.run("once", NOW_US + S)
        for second in (1, 2, 3):
            self.run("every", NOW_US + second * S)
        self.run("lost", NOW_US + S, status="lost", pid=STRUCK)
        self.run("lost", NOW_US + S, at_us=NOW_US + 7 * S, attempt=2)
        self.run("doomed", NOW_US + S, status="dead")
        self.letters.add(self.rows[-1].run_id)
        struck_us = mono(NOW_US + 2 * S)
        self.strikes = [Strike("killed", STRUCK, struck_us, NOW_US + 2 * S, struck_us)]

    def run(
        self,
        job_id: str,
        scheduled_us: int,
        *,
        at_us: int | None = None,
        attempt: int = 1,
        status: str = "success",
        pid: int = ALIVE,
    ) -> None:
        """Add a run, as its handler, the sink and the tables would know it."""
        run, wall_us = (job_id, scheduled_us, attempt), at_us or scheduled_us + 1_000
        begun = line("begin", run, wall_us, pid)
        self.lines.append(begun)
        if status == "success":
            self.effects.append(Effect(begun.key, begun.run_id, pid))
            self.lines.append(line("end", run, wall_us + 500, pid))
        elif status == "dead":
            self.lines.append(line("fail", run, wall_us + 500, pid))
        self.rows.append(row_of(begun, status))

    def facts(self) -> Facts:
        return Facts(
            expected=expect(self.jobs, NOW_US, NOW_US + 3 * S, self.deletions),
            lines=self.lines,
            effects=self.effects,
            tables=Tables(self.rows, self.letters, self.firings_left, {"doomed"}),
            deletions=self.deletions,
            strikes=self.strikes,
            late_s_max=8.0,
        )

    def change(self, table: list[Any], wanted: Callable[[Any], bool], **changes: Any) -> None:
        """Replace the first one that is wanted."""
        place = next(i for i, each in enumerate(table) if wanted(each))
        table[place] = replace(table[place], **changes)

    def remove(self, table: list[Any], job_id: str) -> None:
        table[:] = [each for each in table if each.job_id != job_id]


def test_a_history_that_kept_every_promise_passes() -> None:
    """Counted: six occurrences, seven runs, one of them a repeat after the kill."""
    verdict = check(History().facts())

    assert verdict.violations == []
    assert (6, 7, 1, 1) == (verdict.firings, verdict.starts, verdict.duplicates, verdict.lost)
    assert 5.0 == verdict.takeover_s
    assert 0.001 == verdict.late_s


def miss_a_line(history: History) -> None:
    history.lines = [one for one in history.lines if (one.event, one.job_id) != ("end", "once")]


def miss_an_occurrence(history: History) -> None:
    """As if the cursor had moved over it."""
    for table in (history.lines, history.rows):
        table[:] = [each for each in table if each.scheduled_us != NOW_US + 2 * S]  # type: ignore[attr-defined]
    history.effects = [each for each in history.effects if each.key != f"every:{NOW_US // S + 2}"]


def relabel(history: History) -> None:
    """One occurrence twice and its neighbour not at all."""
    for table in (history.lines, history.rows):
        for place, each in enumerate(table):
            if (each.job_id, each.scheduled_us) == ("every", NOW_US + 2 * S):  # type: ignore[attr-defined]
                table[place] = replace(each, scheduled_us=NOW_US + 3 * S)  # type: ignore[type-var,call-overload]


def lose_for_good(history: History) -> None:
    history.rows = [each for each in history.rows if (each.job_id, each.attempt) != ("lost", 2)]
    history.lines = [each for each in history.lines if (each.job_id, each.attempt) != ("lost", 2)]


def begin_early(history: History) -> None:
    history.change(history.lines, lambda each: each.job_id == "once", wall_us=NOW_US + S - 1)


def run_too_often(history: History) -> None:
    """One success more than was due."""
    history.run("every", NOW_US + 2 * S, at_us=NOW_US + 2 * S + 5_000, attempt=2)


def double(history: History) -> None:
    """Begun by two processes that nobody touched."""
    again = line("begin", ("once", NOW_US + S, 2), NOW_US + S + 2_000)
    history.lines.append(again)
    history.rows.append(replace(row_of(again, "lost"), pid=STRUCK))


def begin_a_run_twice(history: History) -> None:
    history.lines.append(next(each for each in history.lines if each.job_id == "once"))


def accept_a_stale_success(history: History) -> None:
    """The killed process' result stands in the row of the run that took over."""
    history.change(
        history.rows,
        lambda each: (each.job_id, each.attempt) == ("lost", 2),
        output=f"r_lost_{NOW_US + S}_1/{STRUCK}",
    )


def accept_after_the_loss(history: History) -> None:
    """The lost row has become a success as well."""
    begun = line("begin", ("lost", NOW_US + S, 1), NOW_US + S, STRUCK)
    history.lines.append(line("end", ("lost", NOW_US + S, 1), NOW_US + S + 50, STRUCK))
    history.effects.append(Effect(begun.key, begun.run_id, STRUCK))
    history.rows.append(row_of(begun, "success"))


def start_after_delete(history: History) -> None:
    history.run("deleted", NOW_US + 3 * S)


def run_what_was_never_due(history: History) -> None:
    history.run("every", NOW_US + 2 * S + 500_000)


def lose_an_untouched_run(history: History) -> None:
    history.strikes = []


def forget_a_row(history: History) -> None:
    history.remove(history.rows, "once")


def forget_an_accepted_end(history: History) -> None:
    """An untouched worker reported its end, and the run is recorded as lost."""
    history.change(history.rows, lambda each: each.job_id == "once", status="lost", output=None)


def record_what_never_ran(history: History) -> None:
    history.remove(history.lines, "once")


def strike_again(history: History, third_us: int) -> None:
    """Strike the successor of `lost` 8 s after its time, started and without a line of it."""
    lost = [each for each in history.lines if (each.job_id, each.attempt) == ("lost", 2)]
    history.lines = [each for each in history.lines if each not in lost]
    history.effects = [each for each in history.effects if each.run_id != lost[0].run_id]
    history.change(
        history.rows,
        lambda each: each.run_id == lost[0].run_id,
        status="lost",
        pid=STRUCK_NEXT,
        output=None,
    )
    history.run("lost", NOW_US + S, at_us=third_us, attempt=3)
    struck_us = NOW_US + 8 * S
    history.strikes.append(
        Strike("killed", STRUCK_NEXT, mono(struck_us), struck_us, mono(struck_us))
    )


def take_over_late(history: History) -> None:
    late = {"wall_us": NOW_US + 12 * S + 1, "mono_us": mono(NOW_US + 12 * S + 1)}
    history.change(history.lines, lambda each: (each.job_id, each.attempt) == ("lost", 2), **late)


def take_over_late_after_two_strikes(history: History) -> None:
    """Two workers fell in turn, and it comes too late after the second."""
    strike_again(history, third_us=NOW_US + 20 * S)


def resume_late(history: History) -> None:
    """The next due time comes six seconds after the kill, and nothing before it."""
    history.run("every", NOW_US + 3 * S, at_us=NOW_US + 8 * S)
    history.lines = [
        one for one in history.lines if one.wall_us < NOW_US + 2 * S or one.wall_us > NOW_US + 7 * S
    ]


def begin_late(history: History) -> None:
    history.change(history.lines, lambda each: each.job_id == "once", wall_us=NOW_US + 10 * S)


def leave_a_firing(history: History) -> None:
    history.firings_left.append("(1, ...)")


def lose_a_letter(history: History) -> None:
    history.letters.clear()


def miss_a_window(history: History) -> None:
    begun = line("begin", ("every", NOW_US + 2 * S, 1), NOW_US + 2 * S)
    history.rows.append(replace(row_of(begun, "missed"), run_id="r_missed"))


def lose_an_effect(history: History) -> None:
    history.effects = [each for each in history.effects if not each.key.startswith("once")]


def double_an_effect(history: History) -> None:
    history.effects.append(next(each for each in history.effects if each.key.startswith("once")))


def change_the_key(history: History) -> None:
    history.change(history.lines, lambda each: each.job_id == "once", key="once:1")


DEFECTS: dict[Callable[[History], None], str] = {
    miss_a_line: "missed",
    miss_an_occurrence: "missed",
    relabel: "missed",
    lose_for_good: "takeover",
    begin_early: "early",
    run_too_often: "stale",
    double: "duplicate",
    begin_a_run_twice: "duplicate",
    accept_a_stale_success: "stale",
    accept_after_the_loss: "stale",
    start_after_delete: "deleted",
    run_what_was_never_due: "phantom",
    lose_an_untouched_run: "loss",
    forget_a_row: "unrecorded",
    forget_an_accepted_end: "unrecorded",
    record_what_never_ran: "stale",
    take_over_late: "takeover",
    take_over_late_after_two_strikes: "takeover",
    resume_late: "resumed",
    begin_late: "late",
    leave_a_firing: "left over",
    lose_a_letter: "left over",
    miss_a_window: "missed",
    lose_an_effect: "missed",
    double_an_effect: "duplicate",
    change_the_key: "stale",
}


@pytest.mark.parametrize(
    ("spoil", "promise"), DEFECTS.items(), ids=[spoil.__name__ for spoil in DEFECTS]
)
def test_a_planted_defect_is_reported(spoil: Callable[[History], None], promise: str) -> None:
    history = History()
    spoil(history)

    assert promise in check(history.facts()).broken


def test_each_of_two_strikes_has_its_ten_seconds() -> None:
    """Two workers fall in turn: each has ten seconds, not both together."""
    history = History()
    strike_again(history, third_us=NOW_US + 14 * S)

    verdict = check(history.facts())

    assert verdict.violations == []
    assert 6.0 == verdict.takeover_s


def test_a_frozen_start_of_a_deleted_job_is_none() -> None:
    """Started in the database before the acknowledgement, begun by a worker that woke after it."""
    history = History()
    start_after_delete(history)
    acked_us = history.deletions["deleted"].acked_us
    history.change(history.rows, lambda each: each.job_id == "deleted", started_us=acked_us)

    assert "deleted" not in check(history.facts()).broken


def test_what_runs_beyond_the_quiet_instant_is_optional() -> None:
    """A recurring job may run until its deletion, and not later."""
    history = History()
    history.run("every", NOW_US + 4 * S, at_us=NOW_US + 4 * S + 50)
    assert check(history.facts()).violations == []

    history.run("every", NOW_US + 5 * S)
    assert {"phantom", "deleted"} & set(check(history.facts()).broken)


def test_expected_occurrences_are_counted() -> None:
    """Every minute is due at full minutes after the registration."""
    job = Registered("cron", 1, Planned({}, period_us=60 * S))
    registered_us = 1_796_000_030 * S + 7

    expected = expect([job], registered_us, registered_us + 120 * S, {})

    first_us = (registered_us // (60 * S) + 1) * 60 * S
    assert {("cron", first_us), ("cron", first_us + 60 * S)} == set(expected)


def test_half_a_line_of_a_log_is_no_line() -> None:
    with pytest.raises(ValueError, match="unpack"):
        parse_line("begin r_1_1 j_1 17960")
