"""How well the optimum of each scale is known, and how far apart two of them are.

Seeds shift the curve of a scale sideways. The variance of one seed's optimum at scale s is the larger of its
own over the seeds, v_s, and the pooled one, Σ (n_s - 1) v_s / Σ (n_s - 1); a scale with one seed takes the
largest of the others. The optimum of the mean over n_s seeds has the squared error

    e_s² = v_s / n_s + r_s²,

where r_s is what the interpolation between the points of the grid adds. A combination Σ_s a_s x_s of optima,
such as the offset between two, has the 95 % half-width h = t · (Σ_s a_s² e_s²)^1/2. The degrees of freedom
of t are those of Welch and Satterthwaite: r_s is a constant, the scales that share the pooled variance have
its degrees of freedom, and a scale whose own variance is significantly larger has its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from denseam.analysis.profiles import Profile
from denseam.analysis.thresholds import LARGER, LIKELY, RESOLUTION, WELL_SAMPLED

Array = np.ndarray[Any, Any]
#: By how much the step of a drift may shrink with each doubling of the scale.
SHRINKING = np.linspace(1, 0.5, 11)


@dataclasses.dataclass(frozen=True)
class Optima:
    """The optima of the scales and their errors.

    Attributes
    ----------
    x
        The optimum of each scale: that of the mean curve.
    variance, counts
        The variance of one seed's optimum at each scale, and the number of seeds.
    own
        Whether the variance is the scale's own, and significantly larger than that of the others.
    steps, log
        The step of the grid around each optimum, and whether the coordinate is log10 of the value.
    """

    x: Array
    variance: Array
    counts: Array
    own: Array
    steps: Array
    log: bool

    @classmethod
    def of(cls, profiles: Sequence[Profile], log: bool) -> Optima:
        """Return the optima of profiles; `log` if their coordinate is log10 of the value."""
        counts = np.array([profile.optima.size for profile in profiles])
        own = np.array([np.var(p.optima, ddof=1) if p.optima.size > 1 else 0.0 for p in profiles])
        known = np.isfinite(own)
        variance, own = _variances(np.where(known, own, 0.0), np.where(known, counts, 1))
        x, steps = np.array([(profile.optimum, profile.step) for profile in profiles]).T
        return cls(x, variance, counts, own, steps, log)

    @property
    def resolution(self) -> Array:
        """The error that the grid adds to each optimum."""
        coarse = np.maximum(1.0, self.steps / WELL_SAMPLED) if self.log else 1.0
        return np.asarray(RESOLUTION * self.steps * coarse)

    @property
    def seed_errors(self) -> Array:
        """The part of the squared error of each optimum that more seeds would lower."""
        return np.asarray(self.variance / self.counts)

    @property
    def squared_errors(self) -> Array:
        """The squared error of each optimum."""
        return np.asarray(self.seed_errors + self.resolution**2)

    def half_width(self, weights: Array, inflation: float = 1.0) -> float:
        """Return the 95 % half-width of Σ weights · x; `inflation` multiplies its variance."""
        # A scale that does not count may have an unknown error.
        shares = weights**2 * np.where(weights == 0, 0.0, self.seed_errors)
        total = float(shares.sum() + weights**2 @ self.resolution**2)
        if total == 0 or not np.isfinite(total):
            return total
        freedom = self.counts - 1
        pooled = shares[~self.own].sum() ** 2 / freedom.sum()
        separate = np.sum(shares[self.own] ** 2 / freedom[self.own])
        # Constants have no spread: t is then that of infinitely many degrees of freedom.
        effective = total**2 / max(float(pooled + separate), 1e-6 * total**2)
        return float(special.stdtrit(effective, 0.975) * np.sqrt(inflation * total))

    def offset(self, base: int, scale: int) -> Array:
        """Return the weights of x[scale] - x[base]."""
        unit = np.eye(len(self.x))
        return np.asarray(unit[scale] - unit[base])

    def with_seeds(self, counts: int) -> Optima:
        """Return what would be known with at least this many seeds at every scale."""
        return dataclasses.replace(self, counts=np.maximum(self.counts, counts))

    def refined(self, factor: float) -> Optima:
        """Return what would be known on a grid that is finer by a factor."""
        return dataclasses.replace(self, steps=self.steps / factor)


@dataclasses.dataclass(frozen=True)
class Continuation:
    """How far the optimum of a larger scale will be from that of the first, with a 95 % interval."""

    offset: float
    low: float
    high: float

    @classmethod
    def of(cls, optima: Optima, doublings: Array, at: float) -> Continuation:
        """Continue the drift of the optima to `at`, in doublings as the scales are.

        The steps of a drift may shrink with every doubling, by a factor q: x = a + b (1 - q^d) / (1 - q),
        from q = 1/2, a correction in inverse proportion to the scale, to q = 1, a line. For each q the curve
        is fitted by least squares, weighted by the errors of the optima. The interval is that of all q whose
        χ² is within 3.84 of the smallest. If no q fits, variances grow by χ² per degree of freedom.
        """
        precision = 1 / optima.squared_errors
        share = precision / precision.sum()
        d = doublings - doublings[0]
        path, end = _path(d), _path(np.array([at - doublings[0]]))[:, 0]
        middle = path @ share
        centred = path - middle[:, None]
        tilt = share * centred / (share @ (centred**2).T)[:, None]
        residuals = optima.x - share @ optima.x - centred * (tilt @ optima.x)[:, None]
        misfit = residuals**2 @ precision
        inflation = max(1.0, float(misfit.min()) / max(len(d) - 2, 1))
        weights = share + (end - middle)[:, None] * tilt - np.eye(len(d))[0]
        fits = np.flatnonzero(misfit <= misfit.min() + LIKELY * inflation)
        offsets = weights @ optima.x
        halves = np.array([optima.half_width(weights[q], inflation) for q in fits])
        best = int(np.argmin(misfit.round(9)))
        return cls(
            float(offsets[best]), float(np.min(offsets[fits] - halves)), float(np.max(offsets[fits] + halves))
        )


def _path(d: Array) -> Array:
    """Return (1 - q^d) / (1 - q) for every q that is tried, from a line on: q × d."""
    q = SHRINKING[1:, None]
    return np.concatenate([d[None], (1 - q**d) / (1 - q)])


def _variances(own: Array, counts: Array) -> tuple[Array, Array]:
    """Return the variance used for each scale, and whether it is its own with its own degrees of freedom."""
    freedom = counts - 1
    if not freedom.any():
        return np.full(len(own), np.inf), np.full(len(own), False)
    sums = freedom * own
    pooled = sums.sum() / freedom.sum()
    variance = np.where(freedom > 0, np.maximum(own, pooled), max(pooled, own.max()))
    rest = np.maximum(freedom.sum() - freedom, 1)
    limit = special.fdtri(np.maximum(freedom, 1), rest, LARGER) * (sums.sum() - sums) / rest
    return variance, (freedom > 0) & (freedom < freedom.sum()) & (own > limit)
