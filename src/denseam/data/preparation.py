"""How samples from a file are prepared before training: plain data."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from denseam.rules.fields import InKey, Kind, Part, check_fields, parameter

#: How a data set shrinks to fewer features.
Shrink = Literal["plaquettes", "rotated", "pca", "orthonormal", "none"]


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How samples from a file are prepared.

    Parameters
    ----------
    shrink
        How the set shrinks to fewer features: 'plaquettes' (the default for images), 'rotated' (the default
        for vectors), 'pca', 'orthonormal' or 'none' (`denseam.data.reductions`).
    standardize
        Whether every feature is first divided by its own standard deviation, as for a table whose columns
        have different units.
    unit_variance
        Whether samples are divided by one number, so that a feature has variance 1 on average. Off by
        default. Each size has its own number, so that noise of a given standard deviation is the same share
        of the signal at every size; it also changes the effect of tanh on the features.
    heldout
        The share of the samples that is never trained on; the same samples for every seed and size.
    """

    # None of these is part of a run's key: the digest of the data depends on them.
    shrink: str | None = parameter(
        Part.DATA, Kind.CHOICE,
        "How data shrinks to fewer features: plaquettes, rotated, pca, orthonormal or none.",
        None, choices=get_args(Shrink), key=InKey.NEVER,
        default_text="plaquettes for images, rotated for vectors",
    )  # fmt: skip
    standardize: bool = parameter(
        Part.DATA, Kind.FLAG, "Divide each feature by its standard deviation first.", False, key=InKey.NEVER
    )
    unit_variance: bool = parameter(
        Part.DATA, Kind.FLAG, "Scale the data to mean variance 1 at every size.", False, key=InKey.NEVER
    )
    heldout: float = parameter(
        Part.DATA, Kind.NUMBER, "Share of the samples to hold out.", 0.1,
        low=0, high=1, key=InKey.NEVER,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_fields(self)


DEFAULT_PREPARATION = Preparation()
