"""What is asked to be done to data before training: plain data."""

from __future__ import annotations

import dataclasses

from denseam.data.reductions import SHRINKS
from denseam.errors import listed, refuse


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How samples from a file are prepared.

    Parameters
    ----------
    shrink
        How the set shrinks to fewer features: 'plaquettes' (the default for images), 'orthonormal' (the
        default for vectors), 'pca' or 'none'.
    unit_variance
        Whether samples are divided by one number, so that a feature has variance 1 on average. Off by
        default. It is a number of its own for each size, so that noise of a given standard deviation then
        means the same share of the signal at every size; it also changes what tanh does to the features.
    heldout
        The share of the samples that is never trained on, the same for every seed and size.
    """

    shrink: str | None = None
    unit_variance: bool = False
    heldout: float = 0.1

    def __post_init__(self) -> None:
        refuse(
            [f"shrink must be {listed(SHRINKS)}, got {self.shrink!r}"]
            * (self.shrink is not None and self.shrink not in SHRINKS)
            + [f"heldout must be at least 0 and below 1, got {self.heldout!r}"] * (not 0 <= self.heldout < 1)
        )
