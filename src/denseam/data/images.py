"""Images at several resolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from denseam.errors import refuse


def plaquettes(height: int, width: int, j: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return for each pixel of a height×width image (row by row) the number of its j×j block.

    There are ⌈height/j⌉·⌈width/j⌉ blocks; those at the lower and right edge may be partial.
    """
    refuse(
        f"{name} must be a whole number of at least 1, got {value!r}"
        for name, value in (("height", height), ("width", width), ("j", j))
        if not isinstance(value, int) or value < 1
    )
    rows, columns = np.arange(height) // j, np.arange(width) // j
    blocks: np.ndarray[Any, np.dtype[np.int64]] = rows[:, None] * (columns[-1] + 1) + columns[None, :]
    return blocks.ravel()
