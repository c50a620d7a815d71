"""Random cron expressions made together with what they mean, from a seed."""

from __future__ import annotations

import random
from datetime import datetime

from model.cron_oracle import Expression

MONTHS = ("jan", "FEB", "mar", "Apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "Mon", "tue", "wed", "THU", "fri", "sat")
EDGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
NAMES: tuple[tuple[str, ...], ...] = ((), (), (), MONTHS, WEEKDAYS)
STAR_SHARE = (0.2, 0.25, 0.7, 0.75, 0.7)
EXTRA_SHARE = 0.15

Made = tuple[str, frozenset[int], list[str]]


def random_expression(
    rng: random.Random, near: datetime, *, hours: tuple[int, ...] = (), extras: bool = True
) -> Expression:
    """An expression of which something is likely to match around `near`.

    Half of all values are those of `near`, or one of `hours`; `extras` lets L, W and # in.
    """
    likely = (
        (0, 30, near.minute),
        hours or (near.hour, 0),
        (near.day,),
        (near.month,),
        (near.isoweekday() % 7,),
    )
    texts, values, named = [], [], []
    for field in range(5):
        if rng.random() < STAR_SHARE[field]:
            text, meant, items = "*", frozenset(range(EDGES[field][0], EDGES[field][1] + 1)), []
        else:
            text, meant, items = _list(rng, field, likely[field], extras=extras)
        texts.append(text)
        values.append(meant)
        named += [(field, item) for item in items]
    blank = rng.choice((" ", " ", "\t", "  "))
    stars = tuple(text.startswith("*") for text in texts)
    return Expression(blank.join(texts), tuple(values), stars, tuple(named))


def _list(rng: random.Random, field: int, likely: tuple[int, ...], *, extras: bool) -> Made:
    texts: list[str] = []
    values: set[int] = set()
    named: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if extras and field in {2, 4} and rng.random() < EXTRA_SHARE:
            item = _extra(rng, field)
            texts.append(item)
            named.append(item)
        else:
            text, meant = _item(rng, field, likely)
            texts.append(text)
            values |= meant
    return ",".join(texts), frozenset(values), named


def _item(rng: random.Random, field: int, likely: tuple[int, ...]) -> tuple[str, frozenset[int]]:
    low, high = EDGES[field]
    shape = rng.randrange(6)
    first = rng.choice(likely) if rng.random() < 0.5 else rng.randint(low, high)
    if shape <= 2:
        return _word(rng, field, first), frozenset({first})
    step = rng.choice((1, 2, 3, 5, 10, 15, 30, rng.randint(1, high - low + 1)))
    step = min(step, high - low + 1)
    if shape == 3:
        return f"*/{step}", frozenset(range(low, high + 1, step))
    last = rng.randint(first, high)
    text = f"{_word(rng, field, first)}-{_word(rng, field, last)}"
    if shape == 4:
        return text, frozenset(range(first, last + 1))
    return f"{text}/{step}", frozenset(range(first, last + 1, step))


def _word(rng: random.Random, field: int, value: int) -> str:
    names = NAMES[field]
    if names and rng.random() < 0.3:
        return names[value - EDGES[field][0]]
    return f"{value:02}" if rng.random() < 0.1 else str(value)


def _extra(rng: random.Random, field: int) -> str:
    if field == 2:
        return rng.choice(("L", "LW", f"{rng.randint(1, 31)}W"))
    weekday = rng.randint(0, 7)
    return rng.choice((f"{weekday}#{rng.randint(1, 5)}", f"{weekday}L"))


SPOILED = (
    "?", "R", "R(0-9)", "H", "H/15", "H(0-5)", "L", "LW", "15W", "W15", "1,15W", "31W", "5L", "L5",
    "FRIL", "FRI#2", "5#2", "5#6", "1,5#2", "22-2", "fri-sun", "fri-0", "5-7", "7-5", "sat-mon",
    "5/15", "*/90", "*/61", "*/7", "0-0", "1_0", "+5", "-5", "1,", ",1", "*,5", "60", "31", "30",
    "nov-feb", "jan-jan", "jan", "mon", "**", "*-5", "1-5-9", "0x5", "\uff11", "1.5", "L-3", "10-L",
    "last", "mon-fri/2", "8", "00000", "007", "9" * 5000, "1-wed", "*/0", "5-5/2", "*/2/2", "@",
)  # fmt: skip
BLANKS = ("\u00a0", "\u2003", "\x0b", "\n", "\t", "  ")


def mutated_text(rng: random.Random, near: datetime) -> str:
    """A text that is nearly an expression: some fields spoiled, dropped, doubled or misspaced."""
    fields = random_expression(rng, near).text.split()
    for _ in range(rng.choice((1, 1, 1, 2))):
        fields[rng.randrange(len(fields))] = rng.choice(SPOILED)
    whim = rng.random()
    if whim < 0.08:
        fields.insert(rng.randrange(6), rng.choice(("0", "*", "2026")))
    elif whim < 0.11:
        fields += ["0", "2026"]
    elif whim < 0.15:
        del fields[rng.randrange(5)]
    blank = rng.choice(BLANKS) if rng.random() < 0.1 else " "
    text = " ".join(fields[:2]) + blank + " ".join(fields[2:])
    return text.upper() if rng.random() < 0.1 else text
