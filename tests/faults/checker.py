"""The one judge of all scenarios: which promises the logs, the sink and the tables show broken.

Inputs are what the handlers wrote, what the sink was asked for, the tables as they ended, what the
test did (deletions, strikes) and what had to come (`expected`).  The promises:

missed      an expected occurrence did not reach its end, or has no run in the logs that ended so
phantom     something ran or was recorded that was never due
early       a handler began before its time
deleted     a handler began after the acknowledged deletion of its job
stale       an accepted result is not what that very run logged, or a result was accepted twice
unrecorded  a run that began, or an end of a process that was left alone, has no row of its own
duplicate   an occurrence was begun or ended again, though no killed or stopped process held it
loss        a run was ended as lost though nobody touched its process
takeover    what a dead worker held did not go on elsewhere in time
resumed     what fell due after a fault had begun was not begun soon after its end
late        an occurrence began later than the scenario allows
left over   firings, jobs or letters that should be gone, or are not there

Source: the checker of Jepsen's Chronos test (github.com/jepsen-io/chronos), rebuilt: expected
occurrences against runs by their label, and by count, without labels.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from faults.expected import Expectation, Occurrence
from faults.facts import EXAMPLES, Facts, Strike, Verdict
from faults.truth import Effect, Line, Row, Tables


class _Judge:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.verdict = Verdict()
        self.touched = {strike.pid for strike in facts.strikes if strike.pid}
        self.begins: dict[Occurrence, list[Line]] = defaultdict(list)
        self.ends: dict[Occurrence, list[Line]] = defaultdict(list)
        self.lines_of: dict[str, dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
        for line in sorted(facts.lines, key=lambda line: line.mono_us):
            self.lines_of[line.run_id][line.event].append(line)
            if line.event == "begin":
                self.begins[line.occurrence].append(line)
            elif line.event == "end":
                self.ends[line.occurrence].append(line)
        self.rows_of: dict[Occurrence, list[Row]] = defaultdict(list)
        self.row_of: dict[str, Row] = {}
        for row in facts.tables.rows:
            self.rows_of[row.occurrence].append(row)
            if row.run_id in self.row_of:
                self.say("stale", f"two rows of one run: {self.row_of[row.run_id]} and {row}")
            self.row_of[row.run_id] = row

    def say(self, promise: str, case: str) -> None:
        self.verdict.broken[promise].append(case)

    def is_failed(self, line: Line) -> bool:
        return bool(self.lines_of[line.run_id]["fail"])

    # The promises ----------------------------------------------------------------------------

    def check_expected(self) -> None:
        """Conservation: every expected occurrence came to its end, exactly once."""
        letters = self.facts.tables.letters
        for occurrence, expectation in self.facts.expected.items():
            rows = self.rows_of.get(occurrence, [])
            successes = [row for row in rows if row.status == "success"]
            lettered = [row for row in rows if row.run_id in letters]
            if expectation.is_optional and not successes:
                continue  # deleted before its time, or while its attempts went on
            self.verdict.firings += 1
            if len(successes) + len(lettered) > 1:
                self.say("stale", f"{occurrence} was ended twice: {rows}")
            if expectation.end == "success" and not successes:
                self.say("missed", f"{occurrence} has no success: {rows}")
            elif expectation.end == "dead" and not lettered:
                self.say("missed", f"{occurrence} has no dead letter: {rows}")
            elif expectation.end == "success" and not self.ends.get(occurrence):
                self.say("missed", f"{occurrence} never ended in a log: {rows}")

    def check_counts(self) -> None:
        """The same without labels: of each job, the k-th success began after the k-th due time."""
        due: dict[str, list[int]] = defaultdict(list)
        for (job_id, at_us), expectation in self.facts.expected.items():
            if expectation.end == "success":
                due[job_id].append(at_us)
        began: dict[str, list[int]] = defaultdict(list)
        for row in self.facts.tables.rows:
            for line in self.lines_of[row.run_id]["begin"][:1] if row.status == "success" else ():
                began[row.job_id].append(line.wall_us)
        for job_id, at_all in due.items():
            needed = sum(not self.facts.expected[job_id, at_us].is_optional for at_us in at_all)
            walls = sorted(began[job_id])
            if not needed <= len(walls) <= len(at_all):
                self.say("missed", f"{job_id}: {needed} due, {len(walls)} ran")
            if any(wall < at for wall, at in zip(walls, sorted(at_all), strict=False)):
                self.say("early", f"{job_id} had run more often than it was due")

    def check_lines(self) -> None:
        """Begun only what was due, in time, not after a deletion; each begun run has its row."""
        for occurrence, begins in self.begins.items():
            expectation = self.facts.expected.get(occurrence)
            if expectation is None:
                self.say("phantom", f"{occurrence} was begun: {begins[0]}")
                continue
            late_s = (begins[0].wall_us - occurrence[1]) / 1e6
            self.verdict.late_s = max(self.verdict.late_s, late_s)
            if late_s > self.facts.late_s_max:
                self.say("late", f"{occurrence} began {late_s:.1f} s late")
            for line in begins:
                self._check_begin(line, expectation)

    def _check_begin(self, line: Line, expectation: Expectation) -> None:
        self.verdict.starts += 1
        row = self.row_of.get(line.run_id)
        if line.wall_us < line.scheduled_us:
            self.say("early", f"{line.scheduled_us - line.wall_us} us: {line}")
        if line.key != expectation.key:
            self.say("stale", f"the key of {line} is not {expectation.key}")
        if row is None:
            self.say("unrecorded", f"begun, and no row of it: {line}")
        deletion = self.facts.deletions.get(line.job_id)
        if deletion is None or line.wall_us <= deletion.acked_us:
            return
        # Between its start in the database and its first line a process may be frozen.
        if row is None or not 0 < row.started_us <= deletion.acked_us:
            self.say("deleted", f"begun after {deletion}: {line}")

    def check_rows(self) -> None:
        """What is recorded is what a run did; only touched processes lose runs."""
        for row in self.facts.tables.rows:
            logged = self.lines_of[row.run_id]
            if row.occurrence not in self.facts.expected:
                self.say("phantom", f"recorded: {row}")
            if len(logged["begin"]) > 1:
                self.say("duplicate", f"one run was begun twice: {logged['begin']}")
            match row.status:
                case "success":
                    outputs = [(line.output, line.pid) for line in logged["end"]]
                    if outputs != [(row.output, row.pid)]:
                        self.say("stale", f"accepted {row}, logged {outputs}")
                case "failed" | "dead":
                    if [line.pid for line in logged["fail"]] != [row.pid]:
                        self.say("stale", f"accepted {row}, logged {logged['fail']}")
                case "lost":
                    self.verdict.lost += 1
                    self.verdict.stale_reports += bool(logged["end"] or logged["fail"])
                    if row.pid not in self.touched:
                        self.say("loss", f"{row}")
                case _:
                    self.say("missed", f"no run, but a record: {row}")
        for line in self.facts.lines:
            row = self.row_of.get(line.run_id)
            if line.event == "begin" or line.pid in self.touched or row is None:
                continue
            wanted = {"success"} if line.event == "end" else {"failed", "dead"}
            if row.status not in wanted:
                self.say("unrecorded", f"{line} became {row}")

    def check_duplicates(self) -> None:
        """Begun again, or ended again: only what a killed or stopped process held."""
        for occurrence, begins in self.begins.items():
            open_runs = [line for line in begins if not self.is_failed(line)]
            self.verdict.duplicates += max(0, len(open_runs) - 1)
            alone = [line for line in open_runs if line.pid not in self.touched]
            if len(alone) > 1:
                self.say("duplicate", f"{occurrence} was begun by {alone}")
        for occurrence, ends in self.ends.items():
            alone = [line for line in ends if line.pid not in self.touched]
            if len(alone) > 1:
                self.say("duplicate", f"{occurrence} was ended by {alone}")

    def check_effects(self) -> None:
        """The sink saw each success, and nothing of a run that no log knows."""
        asked: dict[str, list[Effect]] = defaultdict(list)
        for effect in self.facts.effects:
            asked[effect.key].append(effect)
            begins = self.lines_of[effect.run_id]["begin"]
            if [(line.key, line.pid) for line in begins] != [(effect.key, effect.pid)]:
                self.say("phantom", f"an effect of no run: {effect}")
        for row in self.facts.tables.rows:
            expectation = self.facts.expected.get(row.occurrence)
            if row.status == "success" and expectation is not None:
                runs = [effect.run_id for effect in asked[expectation.key]]
                if row.run_id not in runs:
                    self.say("missed", f"a success without its effect: {row}")
        for key, effects in asked.items():
            alone = [effect for effect in effects if effect.pid not in self.touched]
            if len(alone) > 1:
                self.say("duplicate", f"the effect {key} was had by {alone}")

    def check_takeovers(self) -> None:
        """What a dead worker had begun goes on elsewhere; everything goes on after a fault."""
        for strike in self.facts.strikes:
            if strike.kind in {"killed", "frozen"}:
                for line in self._held_by(strike):
                    self._check_takeover(strike, line)
            after = [
                line.mono_us
                for line in self.facts.lines
                if line.event == "begin"
                and line.mono_us >= strike.healed_mono_us
                and line.scheduled_us >= strike.wall_us
            ]
            if after:
                resumed_s = (min(after) - strike.healed_mono_us) / 1e6
                self.verdict.resumed_s = max(self.verdict.resumed_s or 0.0, resumed_s)
                if resumed_s > self.facts.resumed_s_max:
                    self.say("resumed", f"{resumed_s:.1f} s after the end of {strike}")

    def _held_by(self, strike: Strike) -> list[Line]:
        """Return the runs that a process had begun and not ended when it was struck."""
        held = []
        for run in self.lines_of.values():
            for line in run["begin"]:
                is_over = any(
                    other.mono_us < strike.mono_us for other in (*run["end"], *run["fail"])
                )
                if line.pid == strike.pid and line.mono_us < strike.mono_us and not is_over:
                    held.append(line)
        return held

    def _check_takeover(self, strike: Strike, line: Line) -> None:
        row = self.row_of.get(line.run_id)
        if row is not None and row.status != "lost":
            return  # its end had been accepted just before
        if self.facts.expected.get(line.occurrence) is None or row is None:
            return  # told elsewhere
        if row.run_id in self.facts.tables.letters or line.job_id in self.facts.deletions:
            return  # nothing follows
        later = [
            other.mono_us for other in self.begins[line.occurrence] if other.attempt > line.attempt
        ]
        if not later:
            self.say("takeover", f"never went on: {line}")
            return
        takeover_s = (min(later) - self._last_strike_us(strike, min(later))) / 1e6
        self.verdict.takeover_s = max(self.verdict.takeover_s or 0.0, takeover_s)
        if takeover_s > self.facts.takeover_s_max:
            rows = self.rows_of[line.occurrence]
            self.say("takeover", f"went on after {takeover_s:.1f} s: {line}, its rows {rows}")

    def _last_strike_us(self, strike: Strike, until_us: int) -> int:
        """When a worker was struck last before that; the successor may have been struck too.

        What a successor held and had not begun leaves no line, so it is not asked which runs it
        had: after the last strike everything has to go on in time.
        """
        return max(
            other.mono_us
            for other in self.facts.strikes
            if other is strike or (other.kind in {"killed", "frozen"} and other.mono_us < until_us)
        )

    def check_left_over(self) -> None:
        """At the end everything is done, so nothing is planned or defined any more."""
        tables = self.facts.tables
        for firing in tables.firings_left:
            self.say("left over", f"firing {firing}")
        lettered = {
            self.row_of[run_id].job_id for run_id in tables.letters if run_id in self.row_of
        }
        if len(tables.letters - self.row_of.keys()):
            self.say("left over", f"letters without a run: {tables.letters - self.row_of.keys()}")
        for job_id in tables.jobs_left ^ lettered:
            self.say("left over", f"job {job_id}, letters of {sorted(lettered)[:EXAMPLES]}")
        wanted = {
            occurrence[0]
            for occurrence, expectation in self.facts.expected.items()
            if expectation.end == "dead"
        }
        for job_id in lettered - wanted:
            self.say("missed", f"job {job_id} ended as a dead letter")


def check(facts: Facts) -> Verdict:
    """Return the verdict on one scenario."""
    judge = _Judge(facts)
    judge.check_expected()
    judge.check_counts()
    judge.check_lines()
    judge.check_rows()
    judge.check_duplicates()
    judge.check_effects()
    judge.check_takeovers()
    judge.check_left_over()
    return judge.verdict


def statuses(tables: Tables) -> Counter[str]:
    """Return how many rows there are of each status."""
    return Counter(row.status for row in tables.rows)
