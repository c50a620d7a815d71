"""Every answer that differs from croniter's or cronsim's is of a kind that is known and understood.

The sample is the same in every run, since a rival may have kinds that nobody has met yet; a
campaign looks for them: `MAINSPRING_CRON_QUESTIONS=40000 MAINSPRING_SEED=5 python -m pytest
tests/model/test_cron_rivals.py`.  A kind that its example no longer shows is stale and fails.
"""

from __future__ import annotations

import os
import random
from datetime import datetime

import pytest

from conftest import SEED
from mainspring.cron import zone_names
from model import cron_oracle as oracle
from model.cron_expressions import mutated_text, random_expression
from model.cron_kinds import KINDS, Kind, explain, is_compared
from model.cron_rivals import REFUSED, RIVALS, Question, ask_mainspring, takes
from model.cron_text_kinds import TEXT_KINDS, TextKind, explain_text

IS_CAMPAIGN = "MAINSPRING_CRON_QUESTIONS" in os.environ
QUESTIONS = int(os.environ.get("MAINSPRING_CRON_QUESTIONS", "1000"))
SAMPLE = SEED if IS_CAMPAIGN else 20_261_201
PARTS = 5
ASKED_FROM_S = (-90_000, -7_200, -3_600, -1_800, -60, -1, 0, 1, 1_800, 3_600, 5_400, 86_400)
RARE_S = 2 * 366 * 86_400  # both rivals search day by day or month by month, up to 50 years
A_MONDAY_S = 1_780_923_600  # 2026-06-08T13:00:00Z


def questions_around_a_change(rng: random.Random, name: str) -> list[Question]:
    """Some expressions of which something may match near a change of a zone, each asked thrice."""
    change_s = rng.choice(oracle.changes_of(name))
    zone = oracle.zone_of(name)
    walls = [datetime.fromtimestamp(change_s + near, zone) for near in (-3600, -60, 0, 3600)]
    hours = (*(wall.hour for wall in walls), 0)
    found = []
    for _ in range(4):
        text = random_expression(rng, rng.choice(walls), hours=hours).text
        found += [
            Question(text, name, change_s + near_s + rng.choice((0, 0, 30, 59)))
            for near_s in rng.sample(ASKED_FROM_S, 3)
        ]
    return found


def is_taken(text: str) -> bool:
    return ask_mainspring(Question(text, "UTC", A_MONDAY_S)) != REFUSED


@pytest.mark.slow
@pytest.mark.timeout(0 if IS_CAMPAIGN else 170)
@pytest.mark.parametrize("part", range(PARTS))
def test_answers_differ_by_known_kinds_only(part: int) -> None:
    """Any expression that both read, any zone, around its changes: alike, or explained."""
    rng = random.Random(SAMPLE * PARTS + part)
    names = sorted(zone_names())
    asked = 0
    while asked < QUESTIONS // PARTS:
        for question in questions_around_a_change(rng, rng.choice(names)):
            ours = ask_mainspring(question)
            if isinstance(ours, str) or ours - question.after_s > RARE_S:
                continue
            for library, ask in RIVALS.items():
                if not is_compared(library, question.text):
                    continue
                theirs = ask(question)
                asked += 1
                if theirs not in {ours, REFUSED}:
                    assert explain(library, question, theirs), (library, question, ours, theirs)


@pytest.mark.slow
@pytest.mark.timeout(0 if IS_CAMPAIGN else 170)
def test_texts_are_taken_alike_but_for_known_kinds() -> None:
    """Nearly valid texts: taken by all or by none, or of a kind that is known."""
    rng = random.Random(SAMPLE)
    near = datetime.fromtimestamp(A_MONDAY_S, oracle.zone_of("UTC"))
    for _ in range(QUESTIONS):
        text = mutated_text(rng, near)
        is_ours = is_taken(text)
        for library in RIVALS:
            is_theirs = takes(library, text)
            if is_theirs != is_ours:
                assert explain_text(library, text, takes=is_theirs), (library, text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.library}-{kind.name}")
def test_each_kind_is_still_seen(kind: Kind) -> None:
    """Its example differs, and is explained by this kind alone; else the list is stale."""
    theirs = RIVALS[kind.library](kind.example)

    assert ask_mainspring(kind.example) not in {theirs, REFUSED}
    assert (kind.name,) == explain(kind.library, kind.example, theirs)
    assert kind.says


@pytest.mark.parametrize(
    ("library", "kind"),
    [(library, kind) for kind in TEXT_KINDS for library in kind.libraries],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_each_kind_of_text_is_still_seen(library: str, kind: TextKind) -> None:
    """Its example is taken by one and refused by the other, and no other kind explains that."""
    assert kind.takes == takes(library, kind.example)
    assert kind.takes != is_taken(kind.example)
    assert kind.name == explain_text(library, kind.example, takes=kind.takes)


def test_an_answer_of_no_kind_is_not_explained() -> None:
    """A minute aside, an hour, never: nothing but what a kind predicts."""
    question = Question("30 1,2 * * *", "America/New_York", 1_793_511_000)
    ours = ask_mainspring(question)
    assert isinstance(ours, float)

    for library in RIVALS:
        for theirs in (ours + 60, ours - 60, ours + 7_200, "never"):
            assert explain(library, question, theirs) is None, (library, theirs)
        assert explain_text(library, "0 9 * * 1", takes=False) is None
        assert explain_text(library, "0 61 * * 1", takes=True) is None
