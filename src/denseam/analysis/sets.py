"""The forecast of several hyperparameters: which set to use at the target, and what it will cost at most.

Near an optimum z* log-loss is ln L* + ½ δᵀHδ for an error δ of the set. Costs of single axes, ½ H_ii δ_i²,
therefore add if their errors are independent; errors that come together, as in a drift of all axes, cost
½ δᵀHδ with the mixed terms. (At most they cost (Σ_i √(½ H_ii) |δ_i|)², by the triangle inequality.)

With z_i the best set at the size n_i, g = log2(n_T / n_m) the doublings from the largest size to the target,
b the slope of z_i and Δ its last step per doubling, the forecast is

    ẑ = z_m + g (μ + w b) + v ℓ + L a,    L = log2(E_T / E_0),

with v ℓ the shift of η0 with the edge of stability, and a the *law of length*: how far the best set moves for
each doubling of the epochs, measured at one small size. On a log scale this is a power, value ∝
(E_T / E_0)^(a / log10 2). Of a, and of b of the axes besides η0, only the part is applied that is sure: the
nearest value to 0 in its 95 % interval over seeds. So a move that may be noise is not applied. The risk is

    u = g² (r + ½ τ² tr H) + ½ tr(H S) / k + ½ ¼ (g² ΔᵀHΔ + ℓ² H_00 + L² aᵀHa) + ½ L² tr(H V),

with S the covariance of a seed's best set, k the seeds at n_m, V the variance of a. For η0 alone and no law
this is the risk of `denseam.analysis.forecast`. What is not in any calibration: that the axes besides η0
scatter between data sets as η0 does (τ), and that the law of length holds at other sizes. So a set gets
the bounds of a setting that the corpus does not have.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from denseam.analysis.forecast import (
    CONTINUES,
    FLATTEST,
    FLOOR,
    SPREAD,
    Entry,
    Forecast,
    Setting,
    constants,
    uncalibrated,
)
from denseam.analysis.profiles import Profile
from denseam.analysis.quadratics import MISFIT, NOISE
from denseam.analysis.sentences import axis_reason
from denseam.rules.fields import Spacing, Span

Array = np.ndarray[Any, Any]

#: Correlations of curvatures are taken so that no direction is flatter than this share of the axes'.
LEAST_EIGENVALUE = 0.05
#: A best value this near to a limit of its span is there.
AT_BOUND = 1e-3
#: The share of the drift of an axis besides η0 that is continued: that of an unknown setting.
DRIFT_SHARE = 0.5


def sure(values: Array, variances: Array, freedom: int) -> Array:
    """Return the values nearest to 0 in the 95 % intervals of values with these variances."""
    if freedom < 1:
        return np.zeros_like(values)
    half = special.stdtrit(freedom, 0.975) * np.sqrt(variances)
    return np.asarray(np.sign(values) * np.maximum(np.abs(values) - half, 0.0))


def correlations(hessian: Array) -> Array:
    """Return H_ij / √(H_ii H_jj), made positive definite; an axis without curvature has none."""
    curvature = np.diag(hessian)
    size = np.sqrt(np.where(curvature > 0, curvature, np.inf))
    plain = np.clip(hessian / np.outer(size, size), -1, 1)
    np.fill_diagonal(plain, 1.0)
    values, vectors = np.linalg.eigh(plain)
    positive = vectors @ np.diag(np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    size = np.sqrt(np.diag(positive))
    return np.asarray(positive / np.outer(size, size))


@dataclasses.dataclass(frozen=True)
class Star:
    """Log-loss along each axis through one point, at one size and one length of training.

    Attributes
    ----------
    centre
        The coordinates of the point.
    profiles
        Axis → log-loss along it; its coordinates contain the centre.
    correlations
        The correlations of the curvatures of the axes.
    low, high
        The limits of the coordinates.
    """

    centre: Array
    profiles: Mapping[str, Profile]
    correlations: Array
    low: Array
    high: Array

    @functools.cached_property
    def _parabolas(self) -> list[tuple[Array, float]]:
        """For each axis the slope of each seed's log-loss at the centre, and the curvature of the mean.

        η0 is swept widely and has a steep valley, whose minimum is interpolated; along the other axes seeds
        scatter more, so that a parabola is fitted to all values.
        """
        rate, *others = self.profiles.values()
        curvature = max(rate.curvature, FLATTEST)
        slopes = -curvature * np.nan_to_num(rate.optima - self.centre[0])
        return [(slopes, curvature), *(_parabola(p, x) for p, x in zip(others, self.centre[1:], strict=True))]

    @functools.cached_property
    def curvature(self) -> Array:
        """The second derivative along each axis; that of η0 is at least `FLATTEST`."""
        return np.array([curvature for _, curvature in self._parabolas])

    @functools.cached_property
    def hessian(self) -> Array:
        """H, from the curvature of each axis and their correlations."""
        size = np.sqrt(self.curvature)
        return np.asarray(self.correlations * np.outer(size, size))

    @functools.cached_property
    def optima(self) -> Array:
        """Seed × axis: the best set of each seed, by Newton's step from the centre.

        An axis besides η0 that is flatter than `FLATTEST` hardly moves: where nothing depends on it, its best
        value is noise. A step has a limit: a parabola says nothing far beyond the values it was fitted to.
        """
        slopes = np.column_stack([slope for slope, _ in self._parabolas])
        ridge = FLATTEST * np.eye(len(self.centre))
        ridge[0, 0] = 0.0
        step = -np.linalg.solve(self.hessian + ridge, slopes.T).T
        most = np.array(
            [np.max(np.abs(p.x - x)) for p, x in zip(self.profiles.values(), self.centre, strict=True)]
        )
        return np.asarray(np.clip(self.centre + np.clip(step, np.negative(most), most), self.low, self.high))

    @property
    def optimum(self) -> Array:
        """The best set, the mean over seeds."""
        return np.asarray(self.optima.mean(axis=0))

    @property
    def rough(self) -> bool:
        """Whether training diverged beside the best value of an axis."""
        return any(profile.rough for profile in self.profiles.values())


def _parabola(profile: Profile, x: float) -> tuple[Array, float]:
    """Return each seed's slope at x, and the curvature of the mean, of parabolas fitted to a profile.

    Values high above the best one count little, as in `denseam.analysis.quadratics`; those at which a seed
    diverged do not count. With fewer than three, slope and curvature are zero.
    """
    finite = np.isfinite(profile.mean)
    if finite.sum() < 3:
        return np.zeros(profile.logs.shape[1]), 0.0
    u, logs, mean = profile.x[finite] - x, profile.logs[finite], profile.mean[finite]
    weight = 1 / (NOISE + MISFIT * (mean - mean.min()))
    terms = np.column_stack([np.ones_like(u), u, 0.5 * u**2])
    *_, bend = np.linalg.lstsq(terms * weight[:, None], mean * weight, rcond=None)[0]
    curvature = max(float(bend), 0.0)
    line, rest = terms[:, :2] * weight[:, None], logs - 0.5 * curvature * (u**2)[:, None]
    slopes = np.linalg.lstsq(line, rest * weight[:, None], rcond=None)[0][1]
    return slopes, curvature


@dataclasses.dataclass(frozen=True)
class Law:
    """How far the best set moves with each doubling of the epochs.

    Attributes
    ----------
    measured_slope, variance, freedom
        a as it was measured, V, and its degrees of freedom.
    measured, wanted
        Doublings of the epochs up to the longest training, and up to that of the target.
    """

    measured_slope: Array
    variance: Array
    freedom: int
    measured: float
    wanted: float

    @classmethod
    def of(cls, lengths: Mapping[int, Star], epochs: int) -> Law:
        """Return the law from stars at several lengths, for a target of so many epochs."""
        ordered = sorted(lengths)
        doublings = np.log2(np.array(ordered) / ordered[0])
        dx = doublings - doublings.mean()
        optima = np.stack([lengths[e].optima for e in ordered])  # length × seed × axis
        slopes = np.tensordot(dx, optima, 1) / (dx @ dx)  # seed × axis
        mean, seeds = slopes.mean(axis=0), len(slopes)
        variance = np.atleast_2d(np.cov(slopes.T)) / seeds if seeds > 1 else np.zeros((len(mean),) * 2)
        residuals = optima.mean(axis=1) - optima.mean(axis=(0, 1)) - np.outer(dx, mean)
        if len(ordered) > 2:
            misfit = (residuals**2).sum(axis=0) / (len(ordered) - 2) / (dx @ dx)
            variance = variance + np.diag(misfit)
        return cls(mean, variance, seeds - 1, float(doublings[-1]), math.log2(epochs / ordered[0]))

    @property
    def slope(self) -> Array:
        """The part of a that is sure."""
        return sure(self.measured_slope, np.diag(self.variance), self.freedom)

    def of_axis(self, i: int) -> tuple[float, float, float]:
        """Return a of one axis as it was measured, its standard error, and the part that is applied."""
        return float(self.measured_slope[i]), math.sqrt(self.variance[i, i]), float(self.slope[i])

    @property
    def shift(self) -> Array:
        """L a, how far the best set moves to the length of the target."""
        return self.wanted * self.slope


@dataclasses.dataclass(frozen=True)
class SweptSet:
    """What a search knows of the best sets of the sizes below the target.

    Attributes
    ----------
    doublings
        log2 of each size over the target's; negative, rising.
    z
        Size × axis: the best set of each size; η0 is the first axis.
    seeds
        The number of seeds at the largest size.
    covariance, freedom, scatter
        S, pooled over the sizes with several seeds; its degrees of freedom; and of each size and axis the
        variance of the best value, by its own seeds if they scatter more.
    hessian
        H at the largest size.
    at_edge
        Whether training diverged beside the best value of an axis.
    law
        The law of length; None if the target is trained as long as the small models.
    edge
        ℓ, the predicted shift of the edge of stability from the largest size to the target.
    """

    doublings: tuple[float, ...]
    z: Array
    seeds: int
    covariance: Array
    freedom: int
    scatter: Array
    hessian: Array
    at_edge: bool = False
    law: Law | None = None
    edge: float = 0.0

    @classmethod
    def of(
        cls,
        sizes: Mapping[int, Star],
        target: int,
        lengths: Mapping[int, Star],
        epochs: int,
        edge: float = 0.0,
    ) -> SweptSet:
        """Return what stars of several sizes say, and those of several lengths at one size."""
        ordered = sorted(sizes)
        largest = sizes[ordered[-1]]
        several = [s.optima - s.optimum for s in sizes.values() if len(s.optima) > 1]
        freedom = sum(len(offsets) - 1 for offsets in several)
        squares = sum((offsets.T @ offsets for offsets in several), np.zeros_like(largest.hessian))
        covariance = squares / freedom if freedom else np.full_like(largest.hessian, np.inf)
        scatter = [_scatter(sizes[scale].optima, np.diag(covariance)) for scale in ordered]
        law = Law.of(lengths, epochs) if len(lengths) > 1 else None
        return cls(
            doublings=tuple(math.log2(scale / target) for scale in ordered),
            z=np.array([sizes[scale].optimum for scale in ordered]),
            seeds=len(largest.optima),
            covariance=covariance,
            freedom=freedom,
            scatter=np.array(scatter),
            hessian=largest.hessian,
            at_edge=largest.rough,
            law=law,
            edge=edge,
        )

    @property
    def gap(self) -> float:
        """G."""
        return -self.doublings[-1]

    @property
    def drift(self) -> Array:
        """B."""
        if len(self.z) < 2:
            return np.zeros(self.z.shape[1])
        return np.asarray((self.z[-1] - self.z[0]) / (self.doublings[-1] - self.doublings[0]))

    @property
    def last_step(self) -> Array:
        """Δ."""
        if len(self.z) < 2:
            return np.zeros(self.z.shape[1])
        return np.asarray((self.z[-1] - self.z[-2]) / (self.doublings[-1] - self.doublings[-2]))

    def predicted(self, entry: Entry) -> Array:
        """Return ẑ; μ and w of η0 are those of its setting."""
        shift = np.zeros(self.z.shape[1])
        share = np.full(self.z.shape[1], DRIFT_SHARE)
        shift[0], share[0] = entry.shift, entry.slope
        ahead = self.gap * (shift + share * self.drift)
        ahead[0] += entry.edge * self.edge
        return np.asarray(self.z[-1] + ahead + (0.0 if self.law is None else self.law.shift))

    def risk(self) -> float:
        """Return u."""
        return math.inf if self.at_edge else FLOOR * self.gap**2 + float(self.risks().sum())

    def risks(self) -> Array:
        """Return the part of u that each axis adds; mixed terms are shared between their axes."""
        H = self.hessian
        expected = SPREAD**2 * self.gap**2 * np.eye(len(H)) + self.covariance / self.seeds
        moves = [self.gap * self.last_step, self.edge * np.eye(len(H))[0]]
        if self.law is not None:
            moves.append(self.law.wanted * self.law.measured_slope)
            expected = expected + self.law.wanted**2 * self.law.variance
        expected = expected + CONTINUES * sum(np.outer(m, m) for m in moves)
        return np.asarray(0.5 * np.diag(H @ expected))


def _scatter(optima: Array, usual: Array) -> Array:
    """Return the variance of the mean of optima (seed × axis), at least by the usual variance of a seed."""
    own = np.var(optima, axis=0, ddof=1) if len(optima) > 1 else usual
    return np.asarray(np.maximum(own, usual) / len(optima))


@dataclasses.dataclass(frozen=True)
class AxisForecast:
    """One axis of a set, from the smallest size to the target; all numbers are coordinates.

    Attributes
    ----------
    by_size, by_epochs
        Its best value at each size, and at each length of training at one small size.
    x, half
        Its value at the target, and half of the interval in which the best one is expected there: where the
        axis alone costs the bound.
    law
        How far it moves for each doubling of the epochs: measured, its standard error, and applied; or None.
    left
        What it would cost to leave it at the best value of the smallest size, alone.
    risk
        The part of the set's risk that it adds.
    at_bound
        Whether its best value at the largest size is a limit of its span.
    """

    by_size: Mapping[int, float]
    by_epochs: Mapping[int, float]
    x: float
    half: float
    law: tuple[float, float, float] | None
    left: float
    risk: float
    at_bound: bool


@dataclasses.dataclass(frozen=True)
class SetForecast:
    """The set to use at the target: η0 with the cost of the whole set, and each axis."""

    forecast: Forecast
    axes: Mapping[str, AxisForecast]
    law: Law | None

    @property
    def z(self) -> Array:
        """Its coordinates."""
        return np.array([axis.x for axis in self.axes.values()])


def forecast_set(
    sizes: Mapping[int, Star], lengths: Mapping[int, Star], swept: SweptSet, setting: Setting
) -> SetForecast:
    """Return the forecast of a set at the target; `swept` is what the stars say."""
    entry = constants(setting)
    wide, z, u = uncalibrated(setting, entry), swept.predicted(entry), swept.risk()
    bound = wide.bound(u)
    c, largest = np.diag(swept.hessian), sizes[max(sizes)]
    z = np.clip(z, largest.low, largest.high)
    with np.errstate(divide="ignore"):
        half = np.minimum(np.sqrt(2 * math.log1p(bound) / c), largest.high - largest.low)
    reach, offset = float(half[0]), z - swept.z[-1]
    made = Forecast(
        x=float(z[0]),
        predicted_regret=min(wide.median * u, bound),
        regret_bound=bound,
        uncorrected_bound=wide.bound(u + 0.5 * float(offset @ swept.hessian @ offset)),
        interval=(10 ** (float(z[0]) - reach), 10 ** (float(z[0]) + reach)),
        at_edge=swept.at_edge,
        setting=setting,
        entry=wide,
    )
    law, risks, ends = swept.law, swept.risks(), (largest.low, largest.high)
    axes = {
        axis: AxisForecast(
            by_size={scale: float(star.optimum[i]) for scale, star in sorted(sizes.items())},
            by_epochs={e: float(star.optimum[i]) for e, star in sorted(lengths.items())},
            x=float(z[i]),
            half=float(half[i]),
            law=None if law is None else law.of_axis(i),
            left=math.expm1(min(0.5 * c[i] * float(z[i] - swept.z[0, i]) ** 2, 700.0)),
            risk=float(risks[i]),
            at_bound=bool(any(abs(largest.optimum[i] - end[i]) < AT_BOUND for end in ends)),
        )
        for i, axis in enumerate(largest.profiles)
    }
    return SetForecast(made, axes, law)


def axis_document(made: AxisForecast, span: Span, tolerance: float) -> dict[str, Any]:
    """Return one axis as a plain document: its value at the target, those that lead to it, and a word.

    TRANSFERS if the best value of the smallest size would do at the target, by itself; else DRIFTS.
    """
    powers: list[float] | None = None
    if made.law is not None and span.spacing is not Spacing.LINEAR:
        powers = [v / math.log10(2) for v in made.law]
    ends = sorted(span.value(made.x + side * made.half) for side in (-1, 1))
    return {
        "status": "TRANSFERS" if made.left <= tolerance else "DRIFTS",
        "reason": axis_reason(made.left, tolerance, at_bound=made.at_bound),
        "value": span.rounded(made.x),
        "relative": span.relative,
        "from_one": span.spacing is Spacing.FROM_ONE,
        "interval_at_target": ends,
        "by_size": {str(n): span.rounded(x) for n, x in made.by_size.items()},
        "by_epochs": {str(e): span.rounded(x) for e, x in made.by_epochs.items()},
        "power_of_length": None if powers is None else powers[:2],
        "power_applied": None if powers is None else powers[2],
        "risk": made.risk if math.isfinite(made.risk) else None,
        "at_bound": made.at_bound,
    }
