"""`H`: a value chosen by the job, so that jobs of one expression do not all fire together.

`H` stands for one value of its field, `H(0-29)` for one of a range, `H/15` and `H(0-29)/10` for
every 15th or 10th from a start below the step.  The choice depends on the job id and the field
alone, so every node and every restart makes the same; days of the month go to 28, so that
every month has them.

`spread_item` is the grammar's, item by item, so that every refusal names its column in the text as
given.  `spread` is for who wants the whole text in numbers: a memo's key, a reading in words.

Source: Jenkins, "Pipeline Syntax: cron", the symbol H.
"""

from __future__ import annotations

import re
from typing import Final

from mainspring.cron.refusals import RULES, Place, Rule, shown

_HAS_H: Final = re.compile(r"(?:^|[ \t,])[hH](?:$|[ \t,/(])")
_ITEM: Final = re.compile(r"[hH](?:\(([0-9]{1,4})-([0-9]{1,4})\))?(?:/([0-9]{1,4}))?")
_FIELD: Final = re.compile(r"[^ \t]+")
_LIKE: Final = re.compile(r"[hH](?![0-9a-zA-Z])")
_DAY_MAX: Final = 28
_MASK: Final = (1 << 64) - 1


def is_spread(text: str) -> bool:
    """Return whether a schedule's text has an `H`."""
    # Most texts have neither letter, and a look for one costs a tenth of the search.
    if "H" not in text and "h" not in text:
        return False
    return not text.lstrip(" \t").startswith("@") and _HAS_H.search(text) is not None


def spread(text: str, job_id: int) -> str:
    """Return the text with each `H` replaced by what it means for this job.

    Raises
    ------
    InvalidSchedule
        An `H` that cannot be read; anything else is left to the grammar.
    """
    if not is_spread(text):
        return text
    parts = list(_FIELD.finditer(text))
    if len(parts) != len(RULES):
        return text  # the grammar says so
    spread_fields = []
    for part, rule in zip(parts, RULES, strict=True):
        column = part.start() + 1
        items = []
        for item in part[0].split(","):
            items.append(spread_item(item, Place(rule, text, column), job_id))
            column += len(item) + 1
        spread_fields.append(",".join(items))
    return " ".join(spread_fields)


def spread_item(item: str, place: Place, job_id: int) -> str:
    """Return an item of a list, an `H` replaced by numbers with commas between.

    Raises
    ------
    InvalidSchedule
        An `H` that cannot be read.
    """
    if not _LIKE.match(item):
        return item
    found = _ITEM.fullmatch(item)
    if found is None:
        raise place.refusal(f"cannot read {shown(item)}", "Write H, H/15, H(0-29) or H(0-29)/10.")
    low, high = _range(found, item, place)
    chance = _hash(job_id, RULES.index(place.rule))
    if found[3] is None:
        return str(low + chance % (high - low + 1))
    step = int(found[3])
    if not 1 <= step <= high - low + 1:
        raise place.refusal(
            f"step {step} of {shown(item)} does not fit its {high - low + 1} values",
            "Steps run from 1 to the number of values.",
        )
    first = low + chance % step
    return ",".join(str(value) for value in range(first, high + 1, step))


def _range(found: re.Match[str], item: str, place: Place) -> tuple[int, int]:
    rule = place.rule
    if found[1] is None:
        return rule.low, _highest(rule)
    low, high = int(found[1]), int(found[2])
    top = rule.low + rule.value_count - 1
    if not rule.low <= low <= high <= top:
        raise place.refusal(
            f"the range of {shown(item)} is not within {rule.low}-{top}, or runs backwards",
            rule.hint,
        )
    return low, high


def _highest(rule: Rule) -> int:
    return _DAY_MAX if rule.name == "day of month" else rule.low + rule.value_count - 1


def _hash(job_id: int, number: int) -> int:
    """Mix a job id and a field's number (SplitMix64): neighbours come far apart."""
    state = (job_id * 8 + number + 0x9E3779B97F4A7C15) & _MASK
    state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ state >> 27) * 0x94D049BB133111EB) & _MASK
    return state ^ state >> 31
