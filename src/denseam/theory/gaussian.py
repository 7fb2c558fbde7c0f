"""Averages over a Gaussian variable, and the moments of the features that the theory needs.

The quadrature is Gauss–Legendre on panels: one standard deviation wide, and halved repeatedly towards each
kink. So a kink costs no accuracy, nor does a step that is sharp on the scale of the Gaussian (tanh of a
variable of large variance), as long as it is at one of the named kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from denseam.ground.errors import InputError, above_zero, at_least_zero, refuse

Function = Callable[[Any], Any]

REACH, HALVINGS, NODES, CHECK_NODES = 20, 44, 20, 28
TOLERANCE, NOTHING = 1e-9, 1e-60


def gaussian_mean(
    g: Function, variance: float = 1.0, *, mean: float = 0.0, kinks: Iterable[float] = (0.0,)
) -> float:
    """Return E g(x) for x ~ N(mean, variance).

    Parameters
    ----------
    g
        A function that acts on each entry of an array.
    kinks
        Where g is not smooth, or changes much faster than over one standard deviation.
    """
    refuse(at_least_zero(variance=variance))
    if variance == 0:
        return float(np.asarray(g(np.array([mean], dtype=float)))[0])
    sd = math.sqrt(variance)
    edges = _edges(tuple((kink - mean) / sd for kink in kinks))

    def average(count: int) -> tuple[float, float, float]:
        t, weight = _legendre(count)
        half = np.diff(edges)[:, None] / 2
        x = edges[:-1, None] + half * (1 + t)
        terms = half * weight * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        terms = terms * np.asarray(g(mean + sd * x), dtype=float)
        size = np.abs(terms).sum(axis=1)
        return float(terms.sum()), float(size.sum()), float(size[0] + size[-1])

    value, size, _ = average(NODES)
    check, _, ends = average(CHECK_NODES)
    if not abs(value - check) + ends <= max(TOLERANCE * size, NOTHING):
        raise InputError("g must be smooth except at the kinks named, and its Gaussian average finite")
    return value


def _edges(kinks: tuple[float, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    steps = 2.0 ** -np.arange(HALVINGS)
    around = [kink + sign * steps for kink in kinks for sign in (-1, 1)]
    edges = np.concatenate([np.arange(-REACH, REACH + 1.0), np.array(kinks, dtype=float), *around])
    return np.unique(np.clip(edges, -REACH, REACH))


@cache
def _legendre(count: int) -> tuple[Any, Any]:
    return np.polynomial.legendre.leggauss(count)


class FeatureMoments(NamedTuple):
    """Second moments of clean data y ~ N(0, 1) and of the features g = g(y + σ_ε ε).

    Attributes
    ----------
    v_g
        E g².
    cross
        E y g; for tanh, by Stein's lemma, E g′ = 1 − v_g for any noise.
    kurtosis
        E g⁴ / v_g².
    """

    v_g: float
    cross: float
    kurtosis: float

    @property
    def slope(self) -> float:
        """The linear regression of y on g: a = E[y g] / v_g."""
        return self.cross / self.v_g

    @property
    def rest(self) -> float:
        """The residual variance of that regression: τ² = E y² − a² v_g."""
        return 1 - self.cross**2 / self.v_g


def feature_variance(noise: float = 0.0, g: Function = np.tanh) -> float:
    """Return v_g = E g(x)² for x ~ N(0, 1 + σ_ε²)."""
    refuse(at_least_zero(noise=noise))
    return gaussian_mean(lambda x: np.asarray(g(x)) ** 2, 1 + noise**2)


def feature_moments(noise: float = 0.0, g: Function = np.tanh) -> FeatureMoments:
    """Return the second moments of isotropic data and its noisy features, x = y + σ_ε ε.

    E[y | x] = x / (1 + σ_ε²), so E[y g] = E[x g(x)] / (1 + σ_ε²).
    """
    variance = 1 + noise**2
    v_g = feature_variance(noise, g)
    refuse(above_zero(v_g=v_g))
    cross = gaussian_mean(lambda x: x * np.asarray(g(x)), variance) / variance
    fourth = gaussian_mean(lambda x: np.asarray(g(x)) ** 4, variance)
    return FeatureMoments(v_g, cross, fourth / v_g**2)
