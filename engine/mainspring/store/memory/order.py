"""A sorted set of keys: the stand-in for a btree index.

Keys lie in blocks of bounded length, so that adding or removing one moves a few kilobytes however
many there are; a single list would make a million firings quadratic.

Invariant: no block is empty, each is sorted, and `_lasts[i]` is the last key of `_blocks[i]`.

Source: the list of lists of G. Jenks' "Sorted Containers", implementation details.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", int, tuple[int, int])

BLOCK_LENGTH = 512
"""Keys in a fresh block; one twice as long is split.

To move one of a million keys took 21 to 25 us with 64 to 2,048, 33 with 8,192; one list 380.
"""


class OrderedKeys(Generic[Key]):
    """Distinct keys in ascending order."""

    def __init__(self) -> None:
        self._blocks: list[list[Key]] = []
        self._lasts: list[Key] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Key]:
        for block in self._blocks:
            yield from block

    def add(self, key: Key) -> None:
        """Put in a key that is not there."""
        self._count += 1
        if not self._blocks:
            self._blocks.append([key])
            self._lasts.append(key)
            return
        index = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        block = self._blocks[index]
        insort(block, key)
        self._lasts[index] = block[-1]
        if len(block) > 2 * BLOCK_LENGTH:
            self._blocks[index : index + 1] = [block[:BLOCK_LENGTH], block[BLOCK_LENGTH:]]
            self._lasts[index : index + 1] = [block[BLOCK_LENGTH - 1], block[-1]]

    def add_all(self, keys: Iterable[Key]) -> None:
        """Put in many keys that are not there; sorts once where that is cheaper."""
        added: list[Key] = list(keys)
        if len(added) * 8 < self._count:
            for key in added:
                self.add(key)
            return
        merged = sorted([*self, *added])
        self._count = len(merged)
        self._blocks = [
            merged[start : start + BLOCK_LENGTH] for start in range(0, len(merged), BLOCK_LENGTH)
        ]
        self._lasts = [block[-1] for block in self._blocks]

    def remove(self, key: Key) -> None:
        """Take out a key that is there."""
        index = bisect_left(self._lasts, key)
        block = self._blocks[index]
        place = bisect_left(block, key)
        assert block[place] == key, key
        del block[place]
        self._count -= 1
        if block:
            self._lasts[index] = block[-1]
        else:
            del self._blocks[index], self._lasts[index]

    def scan_from(self, low: Key) -> Iterator[Key]:
        """Yield the keys at or beyond `low`; nothing may be changed meanwhile."""
        index = bisect_left(self._lasts, low)
        for number, block in enumerate(self._blocks[index:]):
            yield from block[bisect_left(block, low) :] if number == 0 else block

    def scan_beyond(self, low: Key) -> Iterator[Key]:
        """Yield the keys beyond `low`; nothing may be changed meanwhile."""
        index = bisect_right(self._lasts, low)
        for number, block in enumerate(self._blocks[index:]):
            yield from block[bisect_right(block, low) :] if number == 0 else block
