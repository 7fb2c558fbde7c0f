"""The law by which a quantity q follows one size n: a power with its interval, or none.

A power is log q = a + p log n. Finite sizes add a term that vanishes, log q = a + p log n + c/n. Both are
fitted to each seed, so that the spread of the seeds gives the interval of p, whatever the noise at each size.
The interval holds those of both fits: if they differ, the sizes are too small to tell. It was calibrated on
laws whose exponent is known (tests/unit/analysis/test_laws.py).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.analysis.causes import Growth
from denseam.analysis.statistics import Interval, mean_interval
from denseam.ground.errors import InputError

#: What finite sizes leave of an exponent at best; no interval is narrower to one side.
RESOLUTION = 0.03
#: The confidence at which a law counts as bent, and the least misfit in log q that matters.
SURE, MISFIT = 0.99, 0.03
#: Fractions have one of these denominators; the first that the interval allows is taken.
DENOMINATORS = (1, 2, 4)
#: An interval that is wider than this to one side allows no fraction.
WIDE = 0.2

Sizes = Float[np.ndarray, "sizes seeds"]


@dataclasses.dataclass(frozen=True)
class Law:
    """An exponent, its interval, and whether the quantity follows a power at all.

    Attributes
    ----------
    exponent, interval
        The exponent and its 95 % interval, over seeds and fits.
    growth
        The kind of the law.
    sizes, values
        What it was fitted to.
    """

    exponent: float
    interval: Interval
    growth: Growth
    sizes: tuple[int, ...] = dataclasses.field(default=(), repr=False, compare=False)
    values: Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def is_power(self) -> bool:
        """Whether it is a power."""
        return self.growth in (Growth.POWER, Growth.APPROACH)

    @property
    def is_wide(self) -> bool:
        """Whether the interval is too wide for any conclusion."""
        return self.interval[1] - self.interval[0] > 2 * WIDE

    @property
    def fraction(self) -> Fraction | None:
        """The simplest fraction that the interval allows; None if there is none, or no power."""
        if not self.is_power or self.is_wide:
            return None
        low, high = self.interval
        for d in DENOMINATORS:
            inside = [Fraction(k, d) for k in range(math.ceil(low * d), math.floor(high * d) + 1)]
            if inside:
                return min(inside, key=lambda q: abs(float(q) - self.exponent))
        return None

    def remedy(self, before: float) -> Law:
        """Return the law of the factor that keeps q, if q is proportional to it and has this law.

        A factor ∝ n^before gave q ∝ n^p, so one ∝ n^(before − p) gives q ∝ 1.
        """
        low, high = self.interval
        return dataclasses.replace(
            self, exponent=before - self.exponent, interval=(before - high, before - low)
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        fraction = self.fraction
        return {
            "exponent": self.exponent,
            "interval": list(self.interval),
            "fraction": None if fraction is None else str(fraction),
            "growth": self.growth.value,
            "sizes": list(self.sizes),
        }


def asymptotic(name: str, sizes: Sequence[int], values: Sizes) -> Law:
    """Return the law of q as n → ∞, from values at sizes × seeds."""
    x, y = _logarithms(name, sizes, values)
    ones, vanishing = np.ones_like(x), np.exp(x[0] - x)  # n₁/n
    straight = _Fit(np.stack([ones, x], axis=1), y)
    if len(sizes) < 3:
        return Law(straight.mean, _widened(straight.interval), Growth.POWER, tuple(sizes), values)
    corrected = _Fit(np.stack([ones, x, vanishing], axis=1), y)
    hull = _hull(_widened(straight.interval), _widened(corrected.interval))
    growth, chosen = Growth.POWER, straight
    if _surely_differ(straight.exponents, corrected.exponents):
        logarithm = _Fit(np.stack([ones, np.log(x)], axis=1), y)
        if corrected.misfit <= MISFIT and corrected.misfit <= logarithm.misfit:
            growth, chosen = Growth.APPROACH, corrected
        elif logarithm.misfit <= MISFIT:
            growth = Growth.LOGARITHM
        elif straight.misfit > MISFIT:
            growth = Growth.BENT
    return Law(chosen.mean, hull, growth, tuple(sizes), values)


def local(name: str, sizes: Sequence[int], values: Sizes) -> Law:
    """Return the law of q near the middle of the sizes; it is bent if its exponent surely changes there."""
    x, y = _logarithms(name, sizes, values)
    ones = np.ones_like(x)
    straight = _Fit(np.stack([ones, x], axis=1), y)
    growth = Growth.POWER
    if len(sizes) > 2:
        middle = x - x.mean()
        curved = _Fit(np.stack([ones, middle, middle**2], axis=1), y)
        surely = _surely_differ(curved.coefficients[2], np.zeros(y.shape[1]))
        if surely and abs(curved.coefficients[2].mean()) * np.ptp(x) > 2 * RESOLUTION:
            growth = Growth.BENT
    return Law(straight.mean, _widened(straight.interval), growth, tuple(sizes), values)


class _Fit:
    """A least-squares fit of each seed; the second coefficient is the exponent."""

    def __init__(self, design: Any, y: Any) -> None:
        self.coefficients = np.linalg.solve(design.T @ design, design.T @ y)
        self.exponents = self.coefficients[1]
        mean, interval = mean_interval(self.exponents)
        assert interval is not None  # there are at least two seeds
        self.mean, self.interval = mean, interval
        #: The largest distance of the mean over seeds from the fit, in log q.
        self.misfit = float(np.abs((y - design @ self.coefficients).mean(axis=1)).max())


def _logarithms(name: str, sizes: Sequence[int], values: Sizes) -> tuple[Any, Any]:
    if not (np.isfinite(values) & (values > 0)).all():
        raise InputError(f"parameterization: {name} is not finite at every size; lower eta0")
    return np.log(np.asarray(sizes, float)), np.log(values)


def _widened(interval: Interval) -> Interval:
    middle, half = sum(interval) / 2, max(RESOLUTION, (interval[1] - interval[0]) / 2)
    return middle - half, middle + half


def _hull(*intervals: Interval) -> Interval:
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


def _surely_differ(a: Any, b: Any) -> bool:
    """Return whether numbers of each seed surely have different means."""
    _, interval = mean_interval(a - b, SURE)
    assert interval is not None
    return not interval[0] <= 0 <= interval[1]
