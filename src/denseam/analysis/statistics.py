"""A mean over seeds, and how sure it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

Interval = tuple[float, float]


def mean_interval(values: np.ndarray[Any, Any]) -> tuple[float, Interval | None]:
    """Return the mean and its 95 % t-interval; None instead of one for a single value."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return mean, None
    half = float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n))
    return mean, (mean - half, mean + half)
