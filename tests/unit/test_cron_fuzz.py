"""Any text at all is read or refused: nothing but InvalidSchedule, and within five milliseconds.

Time is the thread's processor time, the best of five, so a busy machine or a collector cannot fail
a test; a refusal takes some 0.1 ms.
"""

from __future__ import annotations

import gc
import random
import string
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mainspring.cron import Schedule, ScheduleKind, next_occurrence_us, parse_schedule
from mainspring.cron.grammar import SCHEDULE_LENGTH_MAX
from mainspring.cron.reading import in_words
from mainspring.errors import InvalidSchedule

REFUSAL_S = 0.005
MEGABYTE = 1_000_000

VALID = (
    "0 9 * * 1", "*/15 8-18/2 * * mon-fri", "0 0 1,15,L * *", "0 0 LW jan-mar,dec *",
    "H H(0-7) * * *", "30 2 15W * *", "0 0 * * fri#2", "0 0 * 2 5L", "@daily",
    "H/10 0-23/5,7 1-31/3 */2 sat-sun",
    "@every 1h30m", "@every PT1.5S", "@every P1DT12H", "2026-06-08T09:00",
    "2026-11-01T01:30:00.5-05:00", "2026-06-08 09:00:30Z",
)  # fmt: skip
BLANKS = "\t\n\r\v\f\x1c\x85\u00a0\u1680\u2003\u2028\u202f\u205f\u3000\ufeff\u200b"
DIGITS = "\u0661\u06f2\u0966\uff11\u00b2\u2460\U0001d7d8\u4e09"
LOOK_ALIKES = (
    "\u2217\uff0a\u2010\u2013\u2212\uff0f\u2044\uff0c\u060c\uff20\u0130\u017f\u212a\x00\x7f"
)
ALPHABET = string.ascii_letters + string.digits + "*/-,#?@():.+_ " + BLANKS + DIGITS + LOOK_ALIKES

anything = st.text(st.characters(exclude_categories=()), max_size=400)  # lone surrogates, too
nearly = st.text(st.sampled_from(ALPHABET), max_size=300)
long_digits = st.builds(
    lambda text, place, digit, length: text[:place] + digit * length + text[place:],
    st.sampled_from(VALID),
    st.integers(0, 30),
    st.sampled_from("0123456789" + DIGITS),
    st.sampled_from((1, 5, 18, 19, 20, 240, 4_299, 4_301, 100_000)),
)


def mutated(seed: int) -> str:
    """A valid text with up to three spots changed, cut out, doubled or swapped with another's."""
    rng = random.Random(seed)
    text = rng.choice(VALID)
    for _ in range(rng.randint(1, 3)):
        first, last = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        other = rng.choice(VALID)
        sign = rng.choice(ALPHABET)
        piece = rng.choice((sign, sign, text[first:last] * 2, "", other[first:last], other))
        text = text[:first] + piece + text[rng.choice((first, first + 1, last)) :]
    return text


nearly_valid = st.integers(0, 2**32).map(mutated)


def refusal_s(text: str, zone_name: str, job_id: int) -> float | None:
    """Read a text, again while a refusal is slow; give the shortest time, or None if it is read."""
    took_s = []
    for _ in range(5):
        begun_s = time.thread_time()
        try:
            schedule = parse_schedule(text, zone_name, anchor_us=0, job_id=job_id)
        except InvalidSchedule as refused:
            took_s.append(time.thread_time() - begun_s)
            check_refusal(refused)
            if took_s[-1] < REFUSAL_S:
                break
        else:
            check_schedule(schedule, text, job_id)
            return None
    return min(took_s)


def check_refusal(error: InvalidSchedule) -> None:
    """It can be shown anywhere: short, ASCII, with a hint and a pointer."""
    shown = f"{error.message} {error.hint}"
    assert error.hint
    assert error.pointer in {"/schedule", "/timezone"}
    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) < 600


def check_schedule(schedule: Schedule, text: str, job_id: int) -> None:
    """What is read is short and plain, has occurrences, and can be said in words."""
    assert len(text) <= SCHEDULE_LENGTH_MAX
    assert text.isascii()
    assert in_words(schedule, job_id)
    next_us = next_occurrence_us(schedule, 0)
    assert schedule.kind is ScheduleKind.ONCE or (next_us is not None and next_us > 0)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    text=st.one_of(nearly_valid, nearly_valid, nearly, anything, long_digits),
    job_id=st.integers(1, 2**63 - 1),
)
@example(text="1," * 127 + "1 * * * *", job_id=1)
@example(text="*/" + "9" * 250, job_id=1)
@example(text="@every " + "9" * 249, job_id=1)
@example(text="2026-01-01T00:00:00." + "9" * 200, job_id=1)
@example(text="0-59/1," * 35 + "1 * * * *", job_id=1)
@example(text="H/1," * 60 + "1 * * * *", job_id=1)
@example(text="H(0-0)/9999 * * * *", job_id=1)
@example(text="0 0 31W,30W 2 *", job_id=1)
@example(text="0 0 * * \ud800#2", job_id=1)
def test_any_text_is_read_or_refused_at_once(text: str, job_id: int) -> None:
    """Near-valid, Unicode blanks and digits, digits without end, anything."""
    took_s = refusal_s(text, "UTC", job_id)

    assert took_s is None or took_s < REFUSAL_S


@pytest.mark.slow
def test_many_nearly_valid_texts_are_read_or_refused_at_once(rng: random.Random) -> None:
    """By the thousand, which is more than Hypothesis has time for."""
    for _ in range(4_000):
        text = mutated(rng.getrandbits(32))
        took_s = refusal_s(text, "UTC", rng.randint(1, 1 << 40))
        assert took_s is None or took_s < REFUSAL_S, ascii(text)


@pytest.mark.parametrize(
    "unit",
    ["0 ", "9", " ", "\t", "*/5,", "H,", "H(", "1-", "L", "#", "\u0661", "\u00a0", "\ud800", "\x00",
     "@", "@every ", "1h", "P1", "2026-01-01T00:00:00Z", "0 9 * * 1 ", "fri#2,", "*"],
    ids=ascii,
)  # fmt: skip
def test_a_megabyte_is_refused_as_quickly(unit: str) -> None:
    """As it is, and behind what begins well; as a schedule, and as the name of a zone."""
    text = unit * (MEGABYTE // len(unit))
    gc.collect()

    for given_text, zone_name in (
        (text, "UTC"),
        ("0 9 * * " + text, "UTC"),
        ("@every " + text, "UTC"),
        ("2026-06-08T" + text, "UTC"),
        ("0 9 * * 1", text),
        ("0 9 * * 1", "Europe/" + text),
    ):
        took_s = refusal_s(given_text, zone_name, 1)
        assert took_s is not None
        assert took_s < REFUSAL_S
