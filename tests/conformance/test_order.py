"""Facts about the sorted key set that stands in for a btree index."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.store.memory import order
from mainspring.store.memory.order import OrderedKeys

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 40)),
        st.tuples(st.just("remove"), st.integers(0, 40)),
        st.tuples(st.just("add_all"), st.frozensets(st.integers(0, 40))),
    ),
    max_size=60,
)


@given(actions=ACTIONS, low=st.integers(-1, 41))
@settings(deadline=None)
def test_it_is_a_sorted_set(actions: list[tuple[str, object]], low: int) -> None:
    """With blocks of two keys it reads like a sorted list, from any key on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "BLOCK_LENGTH", 2)
        keys = OrderedKeys[int]()
        model: set[int] = set()
        for action, given_key in actions:
            if isinstance(given_key, frozenset):
                keys.add_all(given_key - model)
                model |= given_key
            elif action == "add" and given_key not in model:
                keys.add(given_key)  # type: ignore[arg-type]
                model.add(given_key)  # type: ignore[arg-type]
            elif action == "remove" and given_key in model:
                keys.remove(given_key)  # type: ignore[arg-type]
                model.remove(given_key)  # type: ignore[arg-type]
            assert (len(model), sorted(model)) == (len(keys), list(keys))
        expected = sorted(model)
        assert expected[bisect_left(expected, low) :] == list(keys.scan_from(low))
        assert expected[bisect_right(expected, low) :] == list(keys.scan_beyond(low))
