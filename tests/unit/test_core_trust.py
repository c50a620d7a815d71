"""How long a holder may act on its last renewal."""

from __future__ import annotations

import pytest

from mainspring.core.trust import TrustWindow


def test_trust_counts_from_the_sending_and_ends_a_margin_before_the_lease() -> None:
    trust = TrustWindow(ttl_us=3_000, margin_us=500)
    assert not trust.is_open(0)
    trust.renewed(10_000)

    assert trust.is_open(12_499)
    assert not trust.is_open(12_500)


def test_an_older_renewal_changes_nothing() -> None:
    trust = TrustWindow(ttl_us=3_000, margin_us=500)
    trust.renewed(10_000)
    trust.renewed(9_000)

    assert trust.is_open(12_499)


def test_closed_it_stays_so_until_the_next_renewal() -> None:
    trust = TrustWindow(ttl_us=3_000, margin_us=500)
    trust.renewed(10_000)
    trust.close()
    assert not trust.is_open(10_000)
    trust.renewed(10_001)
    assert trust.is_open(10_001)


@pytest.mark.parametrize("margin_us", [0, 3_000, -1])
def test_a_margin_that_does_not_fit_the_ttl_is_refused(margin_us: int) -> None:
    with pytest.raises(ValueError, match="margin"):
        TrustWindow(ttl_us=3_000, margin_us=margin_us)
