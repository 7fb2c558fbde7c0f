"""Parameters and constants of Lagrangians, checked at construction; the same in JAX and PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from denseam.ground.errors import InputError, above_zero, refuse, whole

#: B_2n/(2n+1)! for n = 1 … 7; the next term is below 1e-17 of the sum for u ≤ log 2.
BERNOULLI = (
    1 / 36,
    -1 / 3600,
    1 / 211680,
    -1 / 10886400,
    1 / 526901760,
    -691 / 16999766784000,
    1 / 1120863744000,
)

#: Where the exponential is continued by its tangent, so that no state of a memory overflows.
LARGEST_EXPONENT = 30.0


def alpha_of(alpha: float) -> float:
    """Return α, or refuse it."""
    if isinstance(alpha, bool) or not (isinstance(alpha, int | float) and 1 < alpha < math.inf):
        raise InputError(f"alpha must be above 1 and finite, got {alpha!r}")
    return float(alpha)


def number_of(k: float) -> int:
    """Return the k of top-k, also of a document, whose numbers are floats; or refuse it."""
    number = int(k) if isinstance(k, float) and k.is_integer() else k
    refuse(whole(k=number))
    return int(number)


def share_of(share: float) -> float:
    """Return a share of the memories, or refuse it."""
    if isinstance(share, bool) or not (isinstance(share, int | float) and 0 < share <= 1):
        raise InputError(f"share must be above 0 and at most 1, got {share!r}")
    return float(share)


def check_norm(gain: float, shift: float, epsilon: float) -> None:
    """Refuse parameters with which a norm is not convex and smooth."""
    problems = [*above_zero(gain=gain, epsilon=epsilon)]
    if isinstance(shift, bool) or not (isinstance(shift, int | float) and math.isfinite(shift)):
        problems.append(f"shift must be finite, got {shift!r}")
    refuse(problems)


def slopes(coefficients: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients of the derivative of a polynomial."""
    return tuple(j * a for j, a in enumerate(coefficients))[1:]


def coefficients_of(values: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients of a polynomial that never falls and is not constant, or refuse them."""
    try:
        array = np.trim_zeros(np.asarray(values, float).reshape(-1), "b")
    except (TypeError, ValueError):
        raise InputError(f"coefficients must be numbers, got {values!r}") from None
    coefficients = tuple(float(a) for a in array)
    if len(coefficients) < 2 or not np.all(np.isfinite(array)):
        raise InputError(f"coefficients must be finite, and one beside the first not 0, got {values!r}")
    slope = np.asarray(slopes(coefficients))
    lowest = -math.inf
    if len(slope) % 2 == 1 and slope[-1] > 0:  # of even degree, and positive far away
        stationary = np.roots(np.asarray(slopes(tuple(slope)))[::-1]).real  # real parts of others do no harm
        points = np.append(stationary, 0.0)
        sizes = np.polyval(np.abs(slope)[::-1], np.abs(points))
        lowest = float(np.min(np.polyval(slope[::-1], points) / sizes))
    if lowest < -1e-12:
        raise InputError(
            f"coefficients must give a polynomial that falls nowhere, or the energy may rise, got {values!r}"
        )
    return coefficients
