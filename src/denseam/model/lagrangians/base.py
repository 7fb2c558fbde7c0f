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
import itertools
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.ground.errors import InputError, listed
from denseam.model import shared
from denseam.rules.activations import ActivationText

Vector = Float[Array, "*samples n"]
Scalar = Float[Array, "*samples"]


class Lagrangian(eqx.Module):
    """A convex function Φ of a vector, with its gradient and Hessian.

    Attributes
    ----------
    name
        The name in checkpoints.
    family
        Its row of the prescription (docs/own-lagrangian.md), as in 'elementwise', if order-one inputs give
        order-one activations, or 'softmax', if activations of order 1/K sum to one.
    total
        The sum of the activations, if it is the same for all h, else None. If it is, 1ᵀJ = 0; J is symmetric,
        so J1 = 0, and σ(h + a1) = σ(h): centring changes nothing before σ or around J.
    """

    name: eqx.AbstractClassVar[str]
    family: eqx.AbstractClassVar[str]
    total: ClassVar[float | None] = None

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

    def conjugate(self, h: Vector) -> Scalar:
        """Return σ(h)·h − Φ(h): the convex conjugate of Φ, at σ(h)."""
        return jnp.sum(self.activation(h) * h, axis=-1) - self.value(h)

    def lowered(self, h: Vector) -> tuple[Vector, Scalar | float]:
        """Return h − a and a number a, for which σ(h) = σ(h − a) and Φ(h) = Φ(h − a) + a; here a = 0."""
        return h, 0.0


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


def from_text(text: ActivationText) -> Lagrangian:
    """Return the registered Lagrangian with these parameters, in the order of its constructor."""
    cls = _REGISTRY[text.name]
    names = [f.name for f in dataclasses.fields(cls)]
    if text.parameters and names == ["coefficients"]:
        return cls(text.parameters)
    if len(text.parameters) > len(names):
        takes = f"takes {', '.join(names)}" if names else "has no parameters"
        raise InputError(f"activation {text.name!r} {takes}, got {text}")
    return cls(*text.parameters)


def to_text(lagrangian: Lagrangian) -> ActivationText | None:
    """Return the text that `from_text` reads, with parameters up to the last unusual one; or None."""
    names = [f.name for f in dataclasses.fields(lagrangian)]
    values = [getattr(lagrangian, name) for name in names]
    known = _REGISTRY.get(lagrangian.name)
    if known is None or not all(isinstance(value, int | float | tuple) for value in values):
        return None
    usual = known()
    while values and values[-1] == getattr(usual, names[len(values) - 1]):
        values.pop()
    each = [value if isinstance(value, tuple) else (float(value),) for value in values]
    return ActivationText(lagrangian.name, tuple(itertools.chain.from_iterable(each)))


def from_json(document: dict[str, Any]) -> Lagrangian:
    """Read what `to_json` wrote."""
    parameters = dict(document)
    name = parameters.pop("name", None)
    if not isinstance(name, str) or name not in _REGISTRY:
        raise InputError(f"Lagrangian must be {listed(_REGISTRY)} (or be registered first), got {name!r}")
    try:
        return _REGISTRY[name](**parameters)
    except TypeError as error:
        raise InputError(f"Lagrangian {name!r}: {error}") from None
