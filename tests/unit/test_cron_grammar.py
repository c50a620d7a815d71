"""The text of a schedule: what is read, what is refused, and how the refusal reads."""

from __future__ import annotations

import pytest

from mainspring.cron import parse_schedule
from mainspring.cron.fields import CronFields, expand_fields
from mainspring.cron.grammar import ALIASES, parse_fields
from mainspring.cron.refusals import RULES
from mainspring.errors import InvalidSchedule

REFUSED = [
    # text, a word of the message, column or None, a word of the hint
    ("", "empty", None, "five fields"),
    (" \t ", "empty", None, "five fields"),
    ("* * * * *" + " " * 248, "257 characters", None, "256"),
    ("1 2 3", "3 fields", 6, "Mondays"),
    ("0 9 * * * *", "6 fields", 11, "@every"),
    ("0 0 9 * * * 2026", "7 fields", 11, "@every"),
    ("TZ=UTC 0 9 * * *", "6 fields", 16, "timezone"),
    ("CRON_TZ=UTC 0 9 * * *", "6 fields", 21, "timezone"),
    ("60 * * * *", "'60' is not in 0..59", 1, "0 to 59"),
    ("0 25 * * *", "'25' is not in 0..23", 3, "midnight is 0"),
    ("0 0 0 * *", "'0' is not in 1..31", 5, "1 to 31"),
    ("0 0 1 13 *", "'13' is not in 1..12", 7, "jan to dec"),
    ("0 0 * * 8", "'8' is not in 0..7", 9, "sun to sat"),
    ("0 0 * * jan", "cannot read 'jan'", 9, "sun to sat"),
    ("0 0 1 mon *", "cannot read 'mon'", 7, "jan to dec"),
    ("10,20,6x0 * * * *", "'6x0'", 7, "0 to 59"),
    ("0 1,2,30 * * *", "'30' is not", 7, "0 to 23"),
    ("0 1-30 * * *", "'30' is not", 5, "0 to 23"),
    ("00000 * * * *", "'00000' is not in", 1, "0 to 59"),
    ("1,,2 * * * *", "empty item", 3, "commas"),
    (",1 * * * *", "empty item", 1, "commas"),
    ("1, * * * *", "empty item", 3, "commas"),
    ("1-5-9 * * * *", "cannot read", 1, "a-b"),
    ("*-5 * * * *", "cannot read", 1, "a-b"),
    ("-5 * * * *", "cannot read", 1, "a-b"),
    ("+5 * * * *", "cannot read", 1, "a-b"),
    ("1_0 * * * *", "cannot read", 1, "a-b"),
    ("** * * * *", "cannot read", 1, "a-b"),
    ("/5 * * * *", "cannot read", 1, "a-b"),
    ("*/ * * * *", "cannot read", 1, "a-b"),
    ("*/5/5 * * * *", "cannot read", 1, "a-b"),
    ("*/0 * * * *", "step 0", 3, "start at 1"),
    ("*/61 * * * *", "step '61' is larger", 3, "@every 61m"),
    ("0 */25 * * *", "step '25' is larger", 5, "@every 25h"),
    ("0 0 */32 * *", "step '32' is larger", 7, "@every 32d"),
    ("0 0 1 */13 *", "step '13' is larger", 9, "up to 12"),
    ("0 0 * * */8", "step '8' is larger", 11, "up to 7"),
    ("*/99999 * * * *", "step '99999' is larger", 3, "up to 60"),
    ("5/15 * * * *", "step but no range", 1, "5-59/15"),
    ("0 0 * * mon/2", "step but no range", 9, "1-6/2"),
    ("0 22-2 * * *", "runs backwards", 3, "22-23,0-2"),
    ("0 0 * * fri-mon", "runs backwards", 9, "5-6,0-1"),
    ("0 0 * * 7-5", "runs backwards", 9, "0-5"),
    ("? * * * *", "'?' is not supported", 1, "*"),
    ("R * * * *", "'R' is not supported", 1, "random"),
    ("r(0-9) * * * *", "not supported", 1, "random"),
    ("\u0661 * * * *", "U+0661", 1, "plain"),
    ("0\u00a09 * * *", "U+00A0", 2, "spaces"),
    ("0 9 * * *\n", "U+000A", 10, "spaces"),
    ("0 9 * * *\x00", "U+0000", 10, "plain"),
    ("\ud800 9 * * *", "U+D800", 1, "plain"),
    ("@reboot", "'@reboot' is not known", 1, "one-off"),
    (" @dayly", "'@dayly' is not known", 2, "@daily"),
    ("@daily UTC", "text after @daily", 8, "alone"),
    ("PT10S", "without @every", 1, "@every 10s"),
    ("every 5 minutes", "without @every", 1, "@every 10s"),
    ("0 0 30 2 *", "no month of it has such a day", None, "28 or 29"),
    ("0 0 31 4,6,9-9,11 *", "no month of it has such a day", None, "28 or 29"),
    ("0 0 31 2,4 */1", "such a day", None, "28 or 29"),
]


@pytest.mark.parametrize(("text", "what", "column", "hint"), REFUSED, ids=ascii)
def test_refusal_names_what_where_and_what_to_write(
    text: str, what: str, column: int | None, hint: str
) -> None:
    """Each refusal says what is wrong, at which column, and what to write instead."""
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text, "UTC", anchor_us=0)

    assert what in caught.value.message
    assert hint in str(caught.value.hint)
    assert caught.value.pointer == "/schedule"
    if column is not None:
        assert f"at column {column}:" in caught.value.message
    assert caught.value.message.isascii()
    assert not caught.value.message.endswith(".")


def fields_of(text: str) -> CronFields:
    cron = parse_schedule(text, "UTC", anchor_us=0).cron
    assert cron is not None
    return cron.fields


@pytest.mark.parametrize(("alias", "expression"), ALIASES.items())
def test_alias_is_its_expression(alias: str, expression: str) -> None:
    """`@daily` and its kin, in any case, equal the five fields they stand for."""
    expected = fields_of(expression)

    assert expected == fields_of(alias)
    assert expected == fields_of(f" {alias.upper()}\t")


def test_blanks_do_not_change_the_meaning() -> None:
    """Leading, trailing and repeated spaces and tabs are nothing."""
    expected = fields_of("0 9 * * 1")

    assert expected == fields_of(" \t0  9\t* * \t 1 \t")


def test_a_schedule_keeps_its_text_as_given() -> None:
    """What was registered is shown again unchanged."""
    assert parse_schedule(" @Daily ", "Etc/UTC", anchor_us=0).text == " @Daily "
    assert parse_schedule(" @Daily ", "Etc/UTC", anchor_us=0).zone_name == "Etc/UTC"


def values(text: str, field: int) -> set[int]:
    fields = expand_fields(parse_fields(text), text)
    bits = (fields.minutes, fields.hours, fields.days, fields.months, fields.weekdays)[field]
    return {value for value in range(64) if bits >> value & 1}


@pytest.mark.parametrize("field", range(5))
def test_every_range_and_step_of_every_field_means_what_it_says(field: int) -> None:
    """`a-b/n`, all of them for small fields: a, a + n, ... up to b; weekday 7 is 0."""
    rule = RULES[field]
    parts = ["0", "0", "1", "1", "1"]
    steps = {1, 2, 3, 5, 7, rule.value_count - 1, rule.value_count} - {0}
    for first in range(rule.low, rule.high + 1, 1 if rule.value_count < 20 else 7):
        for last in range(first, rule.high + 1, 1 if rule.value_count < 20 else 5):
            for step in {each for each in steps if each <= rule.value_count}:
                parts[field] = f"{first}-{last}/{step}"
                expected = {
                    0 if field == 4 and value == 7 else value
                    for value in range(first, last + 1, step)
                }
                assert expected == values(" ".join(parts), field), parts


@pytest.mark.parametrize("sunday", ["0", "7", "sun", "SUN"])
def test_a_range_of_weekdays_may_end_in_sunday(sunday: str) -> None:
    """`fri-sun` and its spellings are Friday, Saturday and Sunday."""
    assert values(f"0 0 * * fri-{sunday}", 4) == {5, 6, 0}
    assert values(f"0 0 * * {sunday}", 4) == {0}


def test_a_range_may_mix_numbers_and_names() -> None:
    """`1-wed` begins like `1W` and is a range; so does the first month to July."""
    assert values("0 0 * * 1-wed", 4) == {1, 2, 3}
    assert values("0 0 * * 0-WED/3,fri-6", 4) == {0, 3, 5, 6}
    assert values("0 0 1 1-jul *", 3) == set(range(1, 8))


def test_a_list_is_the_union_of_its_items() -> None:
    """Also with a star in it, and with repeats."""
    assert values("1,1,5-7,*/30 * * * *", 0) == {0, 1, 5, 6, 7, 30}
    assert values("7,* * * * *", 0) == set(range(60))
    assert values("0 0 1,*/1 * *", 2) == set(range(1, 32))


@pytest.mark.parametrize(
    ("text", "is_interval_like"),
    [
        ("*/15 2 * * *", False),
        ("0 */2 * * *", True),
        ("*/15 * * * *", True),
        ("0 0-23 * * *", False),
        ("0 1,* * * *", False),
        ("0 *,1 * * *", True),
    ],
)
def test_interval_like_means_that_the_hour_field_starts_with_a_star(
    text: str, is_interval_like: bool
) -> None:
    """The text decides, not the set of hours."""
    assert is_interval_like == expand_fields(parse_fields(text), text).is_interval_like


def test_thirtieth_of_february_fires_where_a_weekday_may_bring_it() -> None:
    """`0 0 30 2 1` means 30 February or Mondays in February, so it is accepted."""
    assert fields_of("0 0 30 2 1").weekdays == 2
