"""A mean over seeds with its interval, and the slope of a line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

Interval = tuple[float, float]


def mean_interval(values: np.ndarray[Any, Any], level: float = 0.95) -> tuple[float, Interval | None]:
    """Return the mean and its t-interval, of 95 % by default, which is None for a single value."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return mean, None
    half = float(special.stdtrit(n - 1, (1 + level) / 2) * np.std(values, ddof=1) / math.sqrt(n))
    return mean, (mean - half, mean + half)


def slope(x: ArrayLike, y: ArrayLike) -> Any:
    """Return the least-squares slope Σ dx·y / Σ dx² with dx = x - mean(x), for each column of y."""
    dx = _centred(x)
    return dx @ np.asarray(y) / (dx @ dx)


def slope_error(x: ArrayLike, error: float) -> float:
    """Return the error of a least-squares slope if every point has this error."""
    dx = _centred(x)
    return error / math.sqrt(float(dx @ dx))


def _centred(x: ArrayLike) -> np.ndarray[Any, Any]:
    points = np.asarray(x, float)
    return np.asarray(points - np.mean(points))
