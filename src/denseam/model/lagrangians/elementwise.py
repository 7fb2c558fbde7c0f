"""Lagrangians that are sums over neurons: identity, ReLU^p, tanh, sigmoid, softplus, exp, polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from denseam.ground.errors import InputError, above_zero, refuse
from denseam.model.lagrangians.base import Elementwise, Vector, register
from denseam.model.parameters import BERNOULLI, LARGEST_EXPONENT, coefficients_of, slopes
from denseam.rules.table import relu_constant


@register
class Identity(Elementwise):
    """The linear activation: φ(h) = h²/2, σ(h) = h."""

    name: ClassVar[str] = "identity"

    def potential(self, h: Vector) -> Vector:
        """Return h²/2."""
        return h * h / 2

    def activation(self, h: Vector) -> Vector:
        """Return h."""
        return h

    def derivative(self, h: Vector) -> Vector:
        """Return 1."""
        return jnp.ones_like(h)


def rectified(h: Vector, power: float) -> Vector:
    """Return h^p where h > 0, else 0; every derivative is finite there too, also for p < 2."""
    positive = h > 0
    return jnp.where(positive, jnp.where(positive, h, 1) ** power, 0)


@register
class ReLU(Elementwise):
    """A rectified power, normalised: σ(h) = C_p relu(h)^p, φ(h) = C_p relu(h)^(p+1)/(p+1)."""

    name: ClassVar[str] = "relu"
    power: float = eqx.field(static=True)

    def __init__(self, power: float = 1) -> None:
        if not (isinstance(power, int | float) and 1 <= power < math.inf):
            raise InputError(f"power must be at least 1 and finite, got {power!r}")
        self.power = int(power) if power == int(power) else float(power)  # integer powers are products

    def potential(self, h: Vector) -> Vector:
        """Return C_p relu(h)^(p+1) / (p+1)."""
        return relu_constant(self.power) / (self.power + 1) * rectified(h, self.power + 1)

    def activation(self, h: Vector) -> Vector:
        """Return C_p relu(h)^p."""
        return relu_constant(self.power) * rectified(h, self.power)

    def derivative(self, h: Vector) -> Vector:
        """Return C_p p relu(h)^(p−1), and 0 where h ≤ 0."""
        return relu_constant(self.power) * self.power * rectified(h, self.power - 1)


@register
class Tanh(Elementwise):
    """The bounded feature with gain γ: G(x) = log cosh(γx) / γ, g(x) = tanh(γx).

    The larger the gain, the more a feature is a sign.
    """

    name: ClassVar[str] = "tanh"
    gain: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        refuse(above_zero(gain=self.gain))

    def potential(self, h: Vector) -> Vector:
        """Return log cosh(γh) / γ without computing cosh: with a = |γh|, a + log((1 + exp(−2a))/2)."""
        a = jnp.abs(self._scaled(h))
        # Near zero log cosh a = a²/2 − … is much smaller than a and log 2, which would cancel; there
        # log1p(2 sinh²(a/2)) keeps all digits.
        small = jnp.minimum(a, 1)
        value = jnp.where(
            a < 1, jnp.log1p(2 * jnp.sinh(small / 2) ** 2), a + jnp.log1p(jnp.exp(-2 * a)) - math.log(2)
        )
        return value if self.gain == 1 else value / self.gain

    def activation(self, h: Vector) -> Vector:
        """Return tanh γh."""
        return jnp.tanh(self._scaled(h))

    def derivative(self, h: Vector) -> Vector:
        """Return γ (1 − tanh² γh)."""
        slope = 1 - jnp.tanh(self._scaled(h)) ** 2
        return slope if self.gain == 1 else self.gain * slope

    def _scaled(self, h: Vector) -> Vector:
        return h if self.gain == 1 else self.gain * h


@register
class Sigmoid(Elementwise):
    """The logistic activation: φ(h) = log(1 + e^h), σ(h) = 1/(1 + e^−h)."""

    name: ClassVar[str] = "sigmoid"

    def potential(self, h: Vector) -> Vector:
        """Return log(1 + e^h)."""
        return jax.nn.softplus(h)

    def activation(self, h: Vector) -> Vector:
        """Return 1/(1 + e^−h)."""
        return jax.nn.sigmoid(h)

    def derivative(self, h: Vector) -> Vector:
        """Return σ(h) σ(−h)."""
        return jax.nn.sigmoid(h) * jax.nn.sigmoid(-h)


@register
class Softplus(Elementwise):
    """A smooth ReLU: φ(h) = −Li₂(−e^h), σ(h) = log(1 + e^h).

    With u = σ(h) the dilogarithm is a series in u (Landen's identity and the Bernoulli numbers B_n), whose
    terms fall fast for h ≤ 0, where u ≤ log 2; positive h follow by inversion:

    ``φ(h) = D(u) = u + u²/4 + Σ_n B_2n u^(2n+1)/(2n+1)!``,  ``φ(h) = h²/2 + π²/6 − φ(−h)``.
    """

    name: ClassVar[str] = "softplus"

    def potential(self, h: Vector) -> Vector:
        """Return −Li₂(−e^h)."""
        u = jax.nn.softplus(-jnp.abs(h))
        small = dilogarithm(u)
        return jnp.where(h > 0, h * h / 2 + math.pi**2 / 6 - small, small)

    def activation(self, h: Vector) -> Vector:
        """Return log(1 + e^h)."""
        return jax.nn.softplus(h)

    def derivative(self, h: Vector) -> Vector:
        """Return 1/(1 + e^−h)."""
        return jax.nn.sigmoid(h)


def dilogarithm(u: Vector) -> Vector:
    """Return −Li₂(−e^h) for h ≤ 0, from u = log(1 + e^h)."""
    square, tail = u * u, jnp.zeros_like(u)
    for coefficient in reversed(BERNOULLI):
        tail = tail * square + coefficient
    return u + square / 4 + u * square * tail


@register
class Exp(Elementwise):
    """The exponential, shifted: φ(h) = σ(h) = exp(h − 1), so that E[σ(z)²] = 1 for z ~ N(0, 1).

    Above h = 30 σ continues along its tangent, and φ by the integral of that: both stay convex and finite.
    """

    name: ClassVar[str] = "exp"
    family: ClassVar[str] = "exponential"

    def potential(self, h: Vector) -> Vector:
        """Return exp(h − 1); e (1 + t + t²/2) for h = 30 + t, t > 0, with e = exp(29)."""
        body, t = self._parts(h)
        return body * (1 + t + t * t / 2)

    def activation(self, h: Vector) -> Vector:
        """Return exp(h − 1); e (1 + t) for h = 30 + t, t > 0."""
        body, t = self._parts(h)
        return body * (1 + t)

    def derivative(self, h: Vector) -> Vector:
        """Return exp(h − 1), at most e."""
        return self._parts(h)[0]

    def _parts(self, h: Vector) -> tuple[Vector, Vector]:
        """Return exp(min(h, 30) − 1) and how far h is above 30."""
        return jnp.exp(jnp.minimum(h, LARGEST_EXPONENT) - 1), jnp.maximum(h - LARGEST_EXPONENT, 0)


@register
class Polynomial(Elementwise):
    """A polynomial that never falls: σ(h) = Σ_j a_j h^j, φ(h) = Σ_j a_j h^(j+1)/(j+1).

    Parameters
    ----------
    coefficients
        a_0, a_1, …; σ′ must not be negative anywhere, or φ would not be convex.
    """

    name: ClassVar[str] = "polynomial"
    coefficients: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, coefficients: Sequence[float] = (0.0, 1.0, 0.0, 1 / 3)) -> None:
        self.coefficients = coefficients_of(coefficients)

    def potential(self, h: Vector) -> Vector:
        """Return Σ_j a_j h^(j+1)/(j+1)."""
        return _horner([0.0, *(a / (j + 1) for j, a in enumerate(self.coefficients))], h)

    def activation(self, h: Vector) -> Vector:
        """Return Σ_j a_j h^j."""
        return _horner(self.coefficients, h)

    def derivative(self, h: Vector) -> Vector:
        """Return Σ_j j a_j h^(j−1)."""
        return _horner(slopes(self.coefficients), h)


def _horner(coefficients: Sequence[float], h: Vector) -> Vector:
    value = jnp.zeros_like(h)
    for a in reversed(coefficients):
        value = value * h + a
    return value
