"""Lagrangians: one object gives Φ, its gradient σ (the activation) and the Jacobian of σ.

A Dense Associative Memory is defined by two convex functions: Φ of the hidden neurons, whose
gradient is the activation σ = ∂Φ, and G of the feature neurons, whose gradient is g = ∂G. The energy
contains the functions, the update their gradients, the training gradient the Jacobian J = ∂σ, which
is symmetric because it is a Hessian. Keeping the three in one object keeps them consistent.

All of them act on the last axis and leave leading axes (samples) alone.

A Lagrangian of your own takes a few lines; autodiff supplies derivatives that are not written::

    @register
    class Soft(Elementwise):  # σ(h) = h / √(1 + h²)
        name: ClassVar[str] = "soft"

        def potential(self, h):
            return jnp.sqrt(1 + h * h)

`denseam.testing.lagrangian_checks` then runs this library's own contracts on it.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.errors import InputError, above_zero, listed, refuse
from denseam.model import shared
from denseam.rules.table import relu_constant

Vector = Float[Array, "*samples n"]
Scalar = Float[Array, "*samples"]


class Lagrangian(eqx.Module):
    """A convex function Φ of a vector, with its gradient and Hessian.

    Attributes
    ----------
    name
        The name in checkpoints.
    family
        Its row of the prescription: 'elementwise' if order-one inputs give order-one activations,
        'softmax' if the activations sum to one.
    """

    name: eqx.AbstractClassVar[str]
    family: eqx.AbstractClassVar[str]

    @abc.abstractmethod
    def value(self, h: Vector) -> Scalar:
        """Return Φ(h)."""

    def activation(self, h: Vector) -> Vector:
        """Return σ(h) = ∂Φ/∂h."""
        sigma: Vector = jax.grad(lambda h: jnp.sum(self.value(h)))(h)
        return sigma

    def jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return J(h) v with J = ∂σ/∂h = ∂²Φ/∂h², symmetric."""
        product: Vector = jax.jvp(self.activation, (h,), (v,))[1]
        return product


class Elementwise(Lagrangian):
    """A Lagrangian that is a sum over neurons: Φ(h) = Σ_k φ(h_k), σ_k = φ′(h_k)."""

    family: ClassVar[str] = "elementwise"

    @abc.abstractmethod
    def potential(self, h: Vector) -> Vector:
        """Return φ(h_k) for every neuron."""

    def value(self, h: Vector) -> Scalar:
        """Return Φ(h) = Σ_k φ(h_k)."""
        return jnp.sum(self.potential(h), axis=-1)

    def derivative(self, h: Vector) -> Vector:
        """Return σ′(h_k) for every neuron."""
        slope: Vector = jax.jvp(self.activation, (h,), (jnp.ones_like(h),))[1]
        return slope

    def jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return σ′(h) ⊙ v."""
        return self.derivative(h) * v


_L = TypeVar("_L", bound=type[Lagrangian])
_REGISTRY: dict[str, type[Lagrangian]] = {}


def register(cls: _L) -> _L:
    """Register a Lagrangian under its name, so that checkpoints can be read back."""
    _REGISTRY[cls.name] = cls
    return cls


def registered() -> dict[str, type[Lagrangian]]:
    """Return the registered Lagrangians by name."""
    return dict(_REGISTRY)


def to_json(lagrangian: Lagrangian) -> dict[str, Any]:
    """Return name and parameters as a plain document."""
    parameters = {f.name: getattr(lagrangian, f.name) for f in dataclasses.fields(lagrangian)}
    return shared.lagrangian_document(lagrangian.name, parameters)


def from_json(document: dict[str, Any]) -> Lagrangian:
    """Read what `to_json` wrote."""
    parameters = dict(document)
    name = parameters.pop("name", None)
    if name not in _REGISTRY:
        raise InputError(f"Lagrangian must be {listed(_REGISTRY)} (or be registered first), got {name!r}")
    try:
        return _REGISTRY[name](**parameters)
    except TypeError as error:
        raise InputError(f"Lagrangian {name!r}: {error}") from None


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


def _rectified(h: Vector, power: float) -> Vector:
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
        return relu_constant(self.power) / (self.power + 1) * _rectified(h, self.power + 1)

    def activation(self, h: Vector) -> Vector:
        """Return C_p relu(h)^p."""
        return relu_constant(self.power) * _rectified(h, self.power)

    def derivative(self, h: Vector) -> Vector:
        """Return C_p p relu(h)^(p−1), and 0 where h ≤ 0."""
        return relu_constant(self.power) * self.power * _rectified(h, self.power - 1)


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
class Softmax(Lagrangian):
    """The contrastive activation: Φ(h) = log Σ_k exp(β h_k) / β, σ = softmax(βh)."""

    name: ClassVar[str] = "softmax"
    family: ClassVar[str] = "softmax"
    beta: float | Float[Array, ""]

    def __init__(self, beta: float | Float[Array, ""] = 1.0) -> None:
        if not hasattr(beta, "shape"):  # an array may be traced, and has no value then
            refuse(above_zero(beta=beta))
        self.beta = beta

    def value(self, h: Vector) -> Scalar:
        """Return log Σ exp(βh) / β."""
        return jax.nn.logsumexp(self.beta * h, axis=-1) / self.beta

    def activation(self, h: Vector) -> Vector:
        """Return softmax(βh)."""
        return jax.nn.softmax(self.beta * h, axis=-1)

    def jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return β (diag(σ) − σσᵀ) v."""
        S = self.activation(h)
        return self.beta * S * (v - jnp.sum(S * v, axis=-1, keepdims=True))


# The names people type: relu(power=2), softmax(beta=4).
identity, relu, softmax, tanh = Identity, ReLU, Softmax, Tanh
