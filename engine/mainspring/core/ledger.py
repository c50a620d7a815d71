"""What one shard's leader has leased: frames, their release times, and who is already known.

A lease, which is a firing and its fence, is in at most one frame of the ledger (I8).  A frame
stays from the answer to its claim until a worker is through with it; up to its release it waits
on a wheel of ticks as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mainspring.core.requests import PreparedFrame
from mainspring.wheel import DEFAULT_GEOMETRY, Wheel

Int64s = NDArray[np.int64]


class Ledger:
    """The frames of one term on one shard.

    Parameters
    ----------
    tick_us
        Length of a tick.
    low_us
        Database time of now, the lower bound.
    """

    def __init__(self, tick_us: int, low_us: int) -> None:
        self._tick_us = tick_us
        self._frames: dict[int, PreparedFrame] = {}
        self._waiting: dict[int, PreparedFrame] = {}
        self._wheel = self._new_wheel(low_us)
        self._firing_count = 0

    def __len__(self) -> int:
        """Firings leased and not yet seen finished."""
        return self._firing_count

    def add(self, frames: list[PreparedFrame]) -> None:
        """Take frames whose claim is known to be committed (I6)."""
        for frame in frames:
            assert frame.frame_no not in self._frames, "a frame number twice (I8)"
            self._frames[frame.frame_no] = frame
            self._waiting[frame.frame_no] = frame
            self._firing_count += len(frame)
        self._file(frames)

    def release(self, low_us: int) -> list[PreparedFrame]:
        """Return the frames whose time has come, each once; none before its time (I7)."""
        tick = low_us // self._tick_us
        if tick < self._wheel.now_tick:
            return []
        frame_nos, _ = self._wheel.advance(tick)
        released = [self._waiting.pop(no) for no in frame_nos.tolist() if no in self._waiting]
        for frame in released:
            assert int(frame.due_us.max()) <= low_us, "a frame is early (I7)"
        return released

    def set_back(self, low_us: int) -> None:
        """Begin the wheel anew: the database clock stands far before what was reached already."""
        self._wheel = self._new_wheel(low_us)
        self._file(list(self._waiting.values()))

    def next_release_us(self) -> int | None:
        """Return the database time at which a frame may be released, None if none waits."""
        tick = self._wheel.next_due_tick()
        # While the database clock is a little behind what was reached, nothing is released.
        return None if tick is None else max(tick, self._wheel.now_tick) * self._tick_us

    def forget(self, frame_no: int) -> PreparedFrame | None:
        """Drop a frame; returns it, or None if it was not known any more."""
        frame = self._frames.pop(frame_no, None)
        self._waiting.pop(frame_no, None)
        if frame is not None:
            self._firing_count -= len(frame)
        return frame

    def take_out(
        self, frame_no: int, firing_ids: Iterable[int] | None = None
    ) -> list[tuple[int, int]]:
        """Drop some firings of a frame, or with None all of it; returns their leases.

        What is not in the frame, or not any more, is passed over.
        """
        if firing_ids is None:
            frame = self.forget(frame_no)
            return [] if frame is None else _leases(frame)
        frame = self._frames.get(frame_no)
        if frame is None:
            return []
        gone = np.isin(frame.firing_ids, np.fromiter(firing_ids, np.int64))
        self._frames[frame_no] = dataclasses.replace(
            frame,
            firing_ids=frame.firing_ids[~gone],
            fences=frame.fences[~gone],
            due_us=frame.due_us[~gone],
        )
        self._firing_count -= int(gone.sum())
        return list(zip(frame.firing_ids[gone].tolist(), frame.fences[gone].tolist(), strict=True))

    def unknown(self, firing_ids: Int64s, fences: Int64s) -> list[tuple[int, int]]:
        """Return those of the leases that are in no frame."""
        known: set[tuple[int, int]] = set()
        for frame in self._frames.values():
            known.update(_leases(frame))
        leases = zip(firing_ids.tolist(), fences.tolist(), strict=True)
        return [lease for lease in leases if lease not in known]

    def hand_back(self) -> tuple[Int64s, Int64s]:
        """Return (ids, fences) of everything, and be empty."""
        frames = list(self._frames.values())
        self._frames.clear()
        self._waiting.clear()
        self._firing_count = 0
        if not frames:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return (
            np.concatenate([frame.firing_ids for frame in frames]),
            np.concatenate([frame.fences for frame in frames]),
        )

    def _file(self, frames: list[PreparedFrame]) -> None:
        if frames:
            self._wheel.insert(
                np.array([frame.frame_no for frame in frames], np.int64),
                np.array([frame.release_tick for frame in frames], np.int64),
            )

    def _new_wheel(self, low_us: int) -> Wheel:
        return Wheel(low_us // self._tick_us, geometry=DEFAULT_GEOMETRY)


def _leases(frame: PreparedFrame) -> list[tuple[int, int]]:
    return list(zip(frame.firing_ids.tolist(), frame.fences.tolist(), strict=True))
