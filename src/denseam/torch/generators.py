"""Random numbers: a generator for each use of a seed, so that no two uses ever draw the same numbers."""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, use: str) -> torch.Generator:
    """Return the generator of one use of a seed, on the CPU, so that a seed means the same on every device.

    Not seeded by the number itself: a model that somebody draws after ``torch.manual_seed(seed)`` must not
    be made of the same numbers as the data.
    """
    words = hashlib.sha256(f"denseam {use} {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(words[:7], "big"))
