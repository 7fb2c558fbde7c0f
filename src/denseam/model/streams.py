"""Random numbers: one integer seed, one independent stream for each use.

Data, initial weights, batches and noise never share a key, so that two runs that differ only in their
learning rate see the same random numbers everywhere.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Key

from denseam.ground.errors import InputError
from denseam.model.normals import threefry

Stream = Literal["data", "W", "b", "c", "batches", "noise", "heldout", "heldout-noise", "W2"]
_STREAMS: tuple[Stream, ...] = ("data", "W", "b", "c", "batches", "noise", "heldout", "heldout-noise", "W2")


def stream(seed: int, name: Stream) -> Key[Array, ""]:
    """Return the key of one stream of a seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be a whole number from 0 to 2^32 − 1, got {seed!r}")
    # jax.random.fold_in(jax.random.key(seed), number), made on the host, where it needs no program
    words: Any = np.concatenate(
        threefry(np.uint32(0), np.uint32(seed), np.array([_STREAMS.index(name)], np.uint32))
    )
    key: Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key
