"""What the optimum of a base costs at larger scales: measured there, or predicted for a target.

The *regret* of a scale is exp(mean log-loss at the base's optimum - its minimum) - 1. The offset between the
two optima is known to a half-width h, so the interval of the regret is its range over the base's optimum
± h. At a target the curve of the largest scale is taken, shifted to the optimum that is predicted there.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from typing import Any

import numpy as np

from denseam.analysis.grid import Grid
from denseam.analysis.optima import Continuation, Optima
from denseam.analysis.profiles import Profile
from denseam.analysis.statistics import Interval
from denseam.analysis.thresholds import FINEST, MOST_SEEDS

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a base's optimum at one scale.

    Attributes
    ----------
    scale
        The scale.
    profile, x
        The curve, and where on it the base's optimum lies.
    optima
        What x depends on.
    weights
        x is as uncertain as this combination of the optima, the offset between two of them.
    """

    scale: int
    profile: Profile
    x: float
    optima: Optima
    weights: Array

    def span(self, optima: Optima) -> Interval:
        """Return the interval of x, if so much is known about the optima."""
        half = optima.half_width(self.weights)
        return self.x - half, self.x + half

    @functools.cached_property
    def regret(self) -> float:
        """The cost itself; infinite if a neighbouring value diverged."""
        return float(self.profile.regret(self.x))

    @functools.cached_property
    def bounds(self) -> Interval:
        """The bounds of the cost: its range over the interval of x."""
        return self._bounds(self.optima)

    def too_coarse(self, tolerance: float) -> bool:
        """Return whether the grid leaves more open than the seeds do."""
        if math.log1p(self.regret) + self.profile.unseen > math.log1p(tolerance) >= math.log1p(self.regret):
            return True
        squares = self.weights**2
        return float(squares @ self.optima.resolution**2) > float(squares @ self.optima.seed_errors)

    def seeds_needed(self, tolerance: float) -> int | None:
        """Return the number of seeds at each scale that would decide; None above MOST_SEEDS."""
        more = range(int(self.optima.counts.min()) + 1, MOST_SEEDS + 1)
        first = bisect.bisect_left(
            more, True, key=lambda n: self._decides(self.optima.with_seeds(n), tolerance)
        )
        return more[first] if first < len(more) else None

    def refinement_needed(self, tolerance: float) -> int:
        """Return the factor by which the grid must be finer to decide, at least 2 and at most FINEST."""
        factors = (f for f in range(2, FINEST) if self._decides(self.optima.refined(f), tolerance))
        return 2 if self.profile.unseen > 0 else next(factors, FINEST)

    def _bounds(self, optima: Optima) -> Interval:
        low, high = self.span(optima)
        return self.profile.regret_between(low, high) if math.isfinite(high - low) else (0.0, math.inf)

    def _decides(self, optima: Optima, tolerance: float) -> bool:
        low, high = self._bounds(optima)
        return low > tolerance or high <= tolerance


@dataclasses.dataclass(frozen=True)
class PredictedCost(Cost):
    """The cost at a target, on the curve of the largest scale.

    Attributes
    ----------
    doublings
        The logarithms of the scales to base 2; that of the target follows from its `scale`.
    """

    doublings: Array

    def span(self, optima: Optima) -> Interval:
        """Return the interval of x, if so much is known about the optima."""
        ahead = Continuation.of(optima, self.doublings, math.log2(self.scale))
        return float(optima.x[-1]) - ahead.high, float(optima.x[-1]) - ahead.low


def costs(grid: Grid, optima: Optima, base: int = 0) -> list[Cost]:
    """Return what the optimum of the scale with index `base` costs at every larger one."""
    x = float(optima.x[base])
    larger = enumerate(zip(grid.scales, grid.profiles, strict=True))
    return [
        Cost(scale, profile, x, optima, optima.offset(base, i)) for i, (scale, profile) in larger if i > base
    ]


def cost_at_target(grid: Grid, optima: Optima, target: int) -> PredictedCost | None:
    """Return what the optimum of the smallest scale will cost at a target; None if a scale has no optimum."""
    if not np.isfinite(optima.x).all():
        return None
    ahead = Continuation.of(optima, grid.doublings, math.log2(target))
    weights = optima.offset(0, len(grid.scales) - 1)
    x = float(optima.x[-1]) - ahead.offset
    return PredictedCost(target, grid.profiles[-1], x, optima, weights, grid.doublings)
