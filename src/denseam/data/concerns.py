"""Data that a memory can hardly learn as it is: unevenly scaled, or far from unit scale.

A denoiser sees samples y with noise of standard deviation σ on every feature, through a tanh. So features
should be of one scale, of order 1, and not be lost in the noise.
"""

from __future__ import annotations

import dataclasses
import enum
import warnings
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from denseam.ground.errors import DataWarning

#: Features are uneven if the widest reaches further than this many times the lower quartile of all.
UNEVEN = 100.0
#: A root mean square above this is large: the tanh of the features saturates.
LARGE = 10.0
#: Noise above this multiple of the root mean square hides the data: the best linear denoiser of independent
#: features then still has 1/(1 + 6⁻²) = 97 % of the error of predicting zero.
HIDDEN = 6.0


class Unscaled(enum.Enum):
    """What is wrong with the scale of data; the value is a sentence to be filled in."""

    UNEVEN = (
        "its features differ in scale by a factor of {value:.2g}, so that only the widest count; divide each "
        "feature by its standard deviation (--standardize)"
    )
    LARGE = (
        "its features are of size {value:.3g} (root mean square), and a memory expects about 1; scale it to "
        "unit variance (--unit-variance)"
    )
    HIDDEN = (
        "the noise is {value:.2g} times as large as its features (root mean square); scale it to unit "
        "variance (--unit-variance), or take less noise"
    )


@dataclasses.dataclass(frozen=True)
class Concern:
    """A doubt about the scale of data, and the number behind it."""

    kind: Unscaled
    value: float

    def describe(self) -> str:
        """Return the doubt as a sentence about 'it', the data."""
        return self.kind.value.format(value=self.value)


def concerns(reach: Float[np.ndarray, " N"] | None, size: float, noise: float) -> list[Concern]:
    """Return what is wrong with the scale of data.

    Parameters
    ----------
    reach
        The largest distance of each feature from its mean. Unlike the variance it does not call a feature
        small that is rarely anything but zero, such as a pixel at the border or the count of a rare word.
        None if the features have a common unit, as those of images have.
    size
        The root mean square of all features, as the memory sees them.
    noise
        Standard deviation of the noise.
    """
    doubts = []
    if reach is not None and (varying := reach[reach > 0]).size:
        ratio = float(np.max(varying) / np.quantile(varying, 0.25))
        if ratio > UNEVEN:
            doubts.append(Concern(Unscaled.UNEVEN, ratio))
    if size > LARGE:
        doubts.append(Concern(Unscaled.LARGE, size))
    if 0 < size < noise / HIDDEN:
        doubts.append(Concern(Unscaled.HIDDEN, noise / size))
    return doubts


def concerns_of(samples: Float[np.ndarray, "P N"], noise: float) -> list[Concern]:
    """Return what is wrong with the scale of samples × features that are trained on as they are."""
    x = np.asarray(samples, np.float64)
    return concerns(np.max(np.abs(x - x.mean(axis=0)), axis=0), float(np.sqrt(np.mean(x * x))), noise)


def warn(doubts: Iterable[Concern], data: str, stacklevel: int = 3) -> None:
    """Warn of what is wrong with data of this name."""
    for doubt in doubts:
        warnings.warn(f"{data}: {doubt.describe()}", DataWarning, stacklevel=stacklevel)
