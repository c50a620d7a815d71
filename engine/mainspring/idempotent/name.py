"""Names of effects: what tells the effects of one run apart."""

from __future__ import annotations

from typing import Final

from mainspring.errors import InvalidInput

EFFECT_LENGTH_MAX: Final = 100


def check_effect(effect: object) -> str:
    """Return the name of an effect if it can be one; empty for the only one of a run.

    Raises
    ------
    InvalidInput
        It is no text, too long, or has unprintable characters.
    """
    if isinstance(effect, str) and len(effect) <= EFFECT_LENGTH_MAX and effect.isprintable():
        return effect
    raise InvalidInput(
        f"bad name of an effect: {ascii(effect)[:60]}",
        hint=f"Write a text of up to {EFFECT_LENGTH_MAX} printable characters.",
    )
