"""Whether an input is like the samples on which a memory was trained.

Three numbers of the n given samples y, as the memory sees them, are compared with training, where the mean of
y is 0:

=======  ====================================================  ===========================
SPREAD   the mean variance of a feature, over E y²             outside [1/50, 10], n ≥ 10
MEAN     the mean of each feature: √(mean ȳ² / E y²)           above √(4 (1 + 4/n))
ERROR    |f(y + ε) − y|² / N, over that of held-out samples    above 2 (1 + 3/√n)
=======  ====================================================  ===========================

The limits are generous, as a part of the training data, such as one class, is no reason to warn. In trials
with digits, clothes and photographs of 8 × 8 pixels, the error of 1, 5 or 50 samples of the memory's own kind
stayed below its limit in each of 200 draws. That of 50 permuted, inverted or random pictures was always above
it, that of pictures of another kind mostly; where it was not, the memory denoises them well, too.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.model.dense_am import DenseAM

#: Limits of the ratio of variances, and the number of samples from which on it is judged.
SPREAD, ENOUGH = (1 / 50, 10.0), 10
#: Limits for many samples: of the squared distance of the mean, and of the ratio of errors.
MEAN, ERROR = 4.0, 2.0
#: Maximum number of samples that are denoised.
MOST = 256


class Unlike(enum.Enum):
    """How an input differs from the samples of training; the value is a clause to be filled in."""

    SPREAD = "its features have {value:.2g} times the variance"
    MEAN = "the mean of its features is {value:.2g} standard deviations away"
    ERROR = "the memory denoises it {value:.2g} times worse"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference between an input and the samples of training, and its size."""

    kind: Unlike
    value: float

    def describe(self) -> str:
        """Return the difference as a clause about 'it', the input."""
        return self.kind.value.format(value=self.value)


@dataclasses.dataclass(frozen=True)
class Reference:
    """The samples of training.

    Attributes
    ----------
    square
        E y², the mean square of a feature.
    error
        The mean squared error of one step on held-out samples with the noise of training.
    """

    square: float
    error: float


def unlike_training(unlike: Sequence[Difference]) -> str:
    """Return one sentence on all differences."""
    clauses = "; ".join(difference.describe() for difference in unlike)
    return f"input: unlike the data of training: {clauses}. Is it other data, or in other units?"


def differences(
    reference: Reference, model: DenseAM, noise: float, samples: Float[np.ndarray, "n N"]
) -> tuple[Difference, ...]:
    """Return how samples, as the memory sees them, differ from those of training; empty if they do not.

    Parameters
    ----------
    reference
        The samples of training.
    model, noise
        The memory, and the noise of its training.
    samples
        The clean input.
    """
    y, n = np.asarray(samples, np.float64), len(samples)
    values: dict[Unlike, float] = {}
    if n >= ENOUGH:
        spread = float(np.mean(np.var(y, axis=0, ddof=1))) / reference.square
        if not SPREAD[0] <= spread <= SPREAD[1]:
            values[Unlike.SPREAD] = spread
    distance = float(np.mean(np.mean(y, axis=0) ** 2)) / reference.square
    if distance > MEAN * (1 + 4 / n):
        values[Unlike.MEAN] = math.sqrt(distance)
    some = y[np.linspace(0, n - 1, min(n, MOST)).round().astype(int)]
    error = _error(model, noise, some) / reference.error
    if ERROR * (1 + 3 / math.sqrt(len(some))) < error < math.inf:
        values[Unlike.ERROR] = error
    return tuple(Difference(kind, value) for kind, value in values.items())


def _error(model: DenseAM, noise: float, y: np.ndarray[Any, Any]) -> float:
    """Return the mean squared error of one step from noisy samples."""
    noisy = y + noise * np.random.default_rng(0).standard_normal(y.shape)
    output = np.asarray(model.update(noisy.astype(model.W.dtype)), np.float64)
    return float(np.mean((output - y) ** 2))
