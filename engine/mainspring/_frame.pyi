import numpy as np
from numpy.typing import NDArray

from mainspring._frame_pure import Decoded, FiringColumns

def encode(
    leader: int,
    frame_no: int,
    shard: int,
    term: int,
    queue: str,
    task: str,
    batch: FiringColumns,
    indices: NDArray[np.int64],
    next_us: NDArray[np.int64],
    key_offsets: NDArray[np.int64],
    keys: bytes,
) -> bytes: ...
def decode(data: bytes | memoryview) -> Decoded: ...
