"""What the optimum of a base costs at larger scales: measured there, or predicted for a target.

The *regret* of a scale is exp(mean log-loss at the base's optimum - its minimum) - 1. The offset between the
two optima is known to a half-width h, so the interval of the regret is its range over the base's optimum
± h. At a target the curve of the largest scale is taken, shifted to the optimum that is predicted there.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from denseam.analysis.grid import Grid
from denseam.analysis.optima import Extrapolation, Optima
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
    optima, weights, inflation
        What x depends on: the offset between two optima, as a combination of those of the scales, and the
        factor by which its variance is larger than theirs tell.
    """

    scale: int
    profile: Profile
    x: float
    optima: Optima
    weights: Array
    inflation: float = 1.0

    @functools.cached_property
    def half_width(self) -> float:
        """The 95 % half-width of x."""
        return self._half_width(self.optima)

    @functools.cached_property
    def regret(self) -> float:
        """The cost itself; infinite if a neighbouring value diverged."""
        return float(self.profile.regret(self.x))

    @functools.cached_property
    def bounds(self) -> Interval:
        """The bounds of the cost: its range over x ± half_width."""
        half = self.half_width
        return self.profile.regret_between(self.x - half, self.x + half) if half < math.inf else (0, math.inf)

    def too_coarse(self, tolerance: float) -> bool:
        """Return whether the grid leaves more open than the seeds do."""
        if math.log1p(self.regret) + self.profile.unseen > math.log1p(tolerance) >= math.log1p(self.regret):
            return True
        squares = self.weights**2
        return float(squares @ self.optima.resolution**2) > float(squares @ self.optima.seed_errors)

    def seeds_needed(self, tolerance: float) -> int | None:
        """Return the number of seeds at each scale that would decide; None above MOST_SEEDS."""
        reach = self._reach(tolerance)
        more = range(int(self.optima.counts.min()) + 1, MOST_SEEDS + 1)
        return next((n for n in more if self._half_width(self.optima.with_seeds(n)) <= reach), None)

    def refinement_needed(self, tolerance: float) -> int:
        """Return the factor by which the grid must be finer to decide, at least 2 and at most FINEST."""
        reach = self._reach(tolerance)
        factors = (f for f in range(2, FINEST) if self._half_width(self.optima.refined(f)) <= reach)
        return 2 if self.profile.unseen > 0 else next(factors, FINEST)

    def _half_width(self, optima: Optima) -> float:
        return optima.half_width(self.weights, self.inflation)

    def _reach(self, tolerance: float) -> float:
        return self.profile.reach(self.x, tolerance, self.half_width)


def costs(grid: Grid, optima: Optima, base: int = 0) -> list[Cost]:
    """Return what the optimum of the scale with index `base` costs at every larger one."""
    x = float(optima.x[base])
    return [
        Cost(scale, profile, x, optima, optima.offset(base, base + 1 + i))
        for i, (scale, profile) in enumerate(
            zip(grid.scales[base + 1 :], grid.profiles[base + 1 :], strict=True)
        )
    ]


def cost_at_target(grid: Grid, optima: Optima, target: int) -> Cost | None:
    """Return what the optimum of the smallest scale will cost at a target; None if a scale has no optimum."""
    if not np.isfinite(optima.x).all():
        return None
    predicted = Extrapolation.of(optima, grid.doublings, math.log2(target))
    away = predicted.weights - np.eye(len(grid.scales))[0]
    x = float(optima.x[-1] - away @ optima.x)
    return Cost(target, grid.profiles[-1], x, optima, away, predicted.inflation)
