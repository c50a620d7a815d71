"""Idempotency key templates and default keys."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.cron import load_zone
from mainspring.errors import InvalidTemplate
from mainspring.instants import INSTANT_MAX_US, US_PER_DAY, parse_instant
from mainspring.keys import (
    KEY_LENGTH_MAX,
    SUFFIX_LENGTH_MAX,
    TEMPLATE_LENGTH_MAX,
    VARIABLES,
    compile_template,
    default_key,
    firing_suffix,
    render,
    require_fit,
)
from mainspring.model import format_job_id

AT_US = parse_instant("2026-06-08T13:00:00Z")


def key(text: str, at_us: int = AT_US, zone: str = "America/New_York", name: str = "report") -> str:
    template = compile_template(text)
    return render(
        template, job_id="j_42", name=name, scheduled_at_us=at_us, zone=load_zone(zone).tz
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("report-{{week}}", "report-2026-W24"),
        ("{{job_id}}", "j_42"),
        ("{{name}}", "report"),
        ("{{scheduled_at}}", "2026-06-08T13:00:00Z"),
        ("{{scheduled_at_unix}}", "1780923600"),
        ("{{date}}", "2026-06-08"),
        ("{{month}}", "2026-06"),
        ("{{hour}}", "2026-06-08T09-0400"),
        ("a{{date}}{{ month }}z", "a2026-06-082026-06z"),
        ("literal %s {{name}}", "literal %s report"),
    ],
)
def test_variables_are_written_in_the_zone_of_the_job(text: str, expected: str) -> None:
    """Local date, week, month and hour; the instant itself in UTC."""
    assert expected == key(text)


def test_local_date_differs_from_that_of_utc() -> None:
    """Late in the evening of New York it is tomorrow in UTC."""
    assert key("{{date}}", parse_instant("2026-06-09T02:00:00Z")) == "2026-06-08"


def test_week_is_that_of_iso_8601() -> None:
    """1 January may belong to the last week of the year before."""
    assert key("{{week}}", parse_instant("2027-01-01T12:00:00Z"), "UTC") == "2026-W53"
    assert key("{{week}}", parse_instant("2024-12-30T12:00:00Z"), "UTC") == "2025-W01"


def test_both_passes_of_an_overlap_have_their_own_hour() -> None:
    """The offset tells them apart."""
    first = key("{{hour}}", parse_instant("2026-11-01T05:00:00Z"))
    second = key("{{hour}}", parse_instant("2026-11-01T06:00:00Z"))

    assert first == "2026-11-01T01-0400"
    assert second == "2026-11-01T01-0500"


def test_offset_with_minutes_and_seconds() -> None:
    """Nepal, and Liberia before 1972."""
    assert key("{{hour}}", AT_US, "Asia/Kathmandu") == "2026-06-08T18+0545"
    assert key("{{hour}}", 0, "Africa/Monrovia") == "1969-12-31T23-004430"


def test_rendered_values_are_not_templates() -> None:
    """A name with braces in it is text."""
    assert key("{{name}}", name="{{job_id}}{0.__class__}") == "{{job_id}}{0.__class__}"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("", "empty", "Leave it out"),
        ("x" * 201, "201 characters", "200"),
        ("{{weak}}", "unknown variable 'weak' at column 3", "Did you mean week?"),
        ("a {{WEEK}}", "unknown variable 'WEEK' at column 5", "Did you mean week?"),
        ("{{zzz}}", "unknown variable", "Variables are name, job_id,"),
        ("{{week.__class__}}", "stray '{' at column 1", "{{week}}"),
        ("{{}}", "stray '{' at column 1", "{{week}}"),
        ("{week}", "stray '{' at column 1", "{{week}}"),
        ("{{week}", "stray '{' at column 1", "{{week}}"),
        ("{{week}}}", "stray '}' at column 9", "{{week}}"),
        ("{{{week}}}", "stray '{' at column 1", "{{week}}"),
        ("week}}", "stray '}' at column 5", "{{week}}"),
        ("a\x00b", "U+0000 at column 2", "printable"),
        ("a\nb", "U+000A at column 2", "printable"),
        ("a\ud800b", "U+D800 at column 2", "printable"),
    ],
    ids=lambda part: ascii(part)[:40],
)
def test_bad_template_is_refused(text: str, what: str, hint: str) -> None:
    """Unknown variables with the list of known ones, stray braces, control characters, length."""
    with pytest.raises(InvalidTemplate) as caught:
        compile_template(text)

    assert what in caught.value.message
    assert hint in str(caught.value.hint)
    assert caught.value.pointer == "/idempotency_key_template"


@settings(deadline=None)
@given(text=st.text(st.sampled_from("{}abweek_ \x00\u00e9"), max_size=210))
def test_any_template_is_read_or_refused(text: str) -> None:
    """Nothing but InvalidTemplate, and what is read has only known variables."""
    try:
        template = compile_template(text)
    except InvalidTemplate:
        return
    assert set(template.variables) <= set(VARIABLES)
    assert len(template.literals) == len(template.variables) + 1


def test_a_key_that_could_grow_too_long_is_refused_at_registration() -> None:
    """Judged over the longest values, the name's own length and the suffix."""
    template = compile_template("{{name}}")
    fits = "n" * (KEY_LENGTH_MAX - SUFFIX_LENGTH_MAX)
    require_fit(template, fits)
    with pytest.raises(InvalidTemplate, match="256 characters"):
        require_fit(template, fits + "n")


@settings(deadline=None)
@given(
    text=st.lists(st.sampled_from([*[f"{{{{{v}}}}}" for v in VARIABLES], "x", "-"]), min_size=1)
    .map("".join)
    .filter(lambda text: len(text) <= TEMPLATE_LENGTH_MAX),
    at_us=st.integers(0, INSTANT_MAX_US - US_PER_DAY),
    job_id=st.integers(1, 2**63 - 1),
    zone=st.sampled_from(["UTC", "Africa/Monrovia", "Asia/Kathmandu", "Pacific/Kiritimati"]),
)
def test_no_key_exceeds_the_bound(text: str, at_us: int, job_id: int, zone: str) -> None:
    """The bound that registration uses holds for any instant, id and zone."""
    template = compile_template(text)
    rendered = render(
        template,
        job_id=format_job_id(job_id),
        name="some name",
        scheduled_at_us=at_us,
        zone=load_zone(zone).tz,
    )

    assert len(rendered + firing_suffix(2**63 - 1)) <= template.length_max("some name")


def test_default_key_is_job_and_unix_second() -> None:
    """Manual and backfill firings add their own id."""
    assert default_key("j_42", AT_US) == "j_42:1780923600"
    assert default_key("j_42", AT_US + 999_999) + firing_suffix(77) == "j_42:1780923600:m77"
