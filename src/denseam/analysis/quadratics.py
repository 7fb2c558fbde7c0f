"""A quadratic model of log-loss around a point, fitted with its uncertainty, and its minimum in a box.

    q(t) = a + gᵀt + ½ tᵀH t

Points that lie high above the best one say little about the bowl around it: a loss that is e above the best
has the error `NOISE` + `MISFIT`·e. Coefficients have a normal prior, so that few points suffice; then one
draw from the posterior is one bowl that the points allow.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy import optimize

Array = np.ndarray[Any, Any]

#: The error of a log-loss at the best point, and its increase with the height above it: no valley is exactly
#: quadratic.
NOISE, MISFIT = 0.002, 0.3
#: The prior deviation of a coefficient: log-loss changes by about this much across the region of the fit.
PRIOR = 1.0


@dataclasses.dataclass(frozen=True)
class Quadratic:
    """One bowl: a + gᵀt + ½ tᵀH t."""

    constant: float
    gradient: Array
    hessian: Array

    def __call__(self, t: Array) -> Any:
        """Return the values at points (the last axis is that of coordinates)."""
        return self.constant + t @ self.gradient + 0.5 * np.einsum("...i,ij,...j->...", t, self.hessian, t)

    def minimum(self, low: Array, high: Array, start: Array) -> Array:
        """Return the minimum in a box, from a start inside."""
        found = optimize.minimize(
            self, start, jac=lambda t: self.gradient + self.hessian @ t, method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
        )  # fmt: skip
        return np.asarray(np.clip(found.x, low, high))


@dataclasses.dataclass(frozen=True)
class Fit:
    """The posterior of the coefficients of a quadratic: a normal distribution."""

    mean: Array
    root: Array

    @property
    def quadratic(self) -> Quadratic:
        """The most likely bowl."""
        return _quadratic(self.mean)

    def draw(self, rng: np.random.Generator) -> Quadratic:
        """Return one bowl that the points allow."""
        return _quadratic(self.mean + self.root @ rng.standard_normal(len(self.mean)))


def fit(t: Array, y: Array) -> Fit:
    """Return the fit to log-losses y (all finite) at points t (point × coordinate)."""
    errors = NOISE + MISFIT * (y - y.min())
    terms = _terms(t) / errors[:, None]
    offset = y.min()
    precision = terms.T @ terms + np.eye(terms.shape[1]) / PRIOR**2
    root = np.linalg.inv(np.linalg.cholesky(precision)).T  # its product with its transpose is the covariance
    mean = root @ (root.T @ (terms.T @ ((y - offset) / errors)))
    mean[0] += offset
    return Fit(mean, root)


def _terms(t: Array) -> Array:
    """Return the terms of a quadratic at each point: 1, t_i, ½ t_i², t_i t_j."""
    i, j = np.triu_indices(t.shape[1], 1)
    return np.column_stack([np.ones(len(t)), t, 0.5 * t**2, t[:, i] * t[:, j]])


def _quadratic(coefficients: Array) -> Quadratic:
    d = round((np.sqrt(8 * len(coefficients) + 1) - 3) / 2)  # 1 + 2 d + d (d - 1) / 2 coefficients
    hessian = np.diag(coefficients[1 + d : 1 + 2 * d])
    i, j = np.triu_indices(d, 1)
    hessian[i, j] = hessian[j, i] = coefficients[1 + 2 * d :]
    return Quadratic(float(coefficients[0]), coefficients[1 : 1 + d], hessian)
