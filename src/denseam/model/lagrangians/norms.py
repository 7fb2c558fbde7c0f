"""Lagrangians that are norms: layer norm and spherical norm, usually of the features.

With x̃ the state without its mean (layer norm) or the state itself (spherical norm), r = √(|x̃|²/N + ε) and
u = x̃/r, whose entries are of order one,

    G(x) = N γ r + δ Σ_i x_i,  g = γ u + δ 1,  J v = (γ/r) [ ṽ − u (u·v)/N ].

G is N γ times the length of the vector (x̃/√N, √ε), hence convex for γ > 0; ε > 0 makes it smooth. J has the
eigenvalues γ/r, along u the smaller γε/r³, and in layer norm 0 along 1. Every g_i depends on all of x.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from denseam.model.lagrangians.base import Lagrangian, Scalar, Vector, register
from denseam.model.parameters import check_norm


class Norm(Lagrangian):
    """A norm with entries of order one: ``g = γ x̃/√(|x̃|²/N + ε) + δ``.

    Parameters
    ----------
    gain
        γ, the root mean square of the entries where |x̃|² ≫ N ε.
    shift
        δ, the same for all entries. It drives every memory by s1 δ Σ_i W_ki, as a hidden bias would.
    epsilon
        ε, a variance below which the input counts as zero.
    """

    family: ClassVar[str] = "elementwise"  # entries of order one, whatever the number of neurons
    gain: float = eqx.field(static=True, default=1.0)
    shift: float = eqx.field(static=True, default=0.0)
    epsilon: float = eqx.field(static=True, default=1e-5)

    def __check_init__(self) -> None:
        check_norm(self.gain, self.shift, self.epsilon)

    @abc.abstractmethod
    def projected(self, h: Vector) -> Vector:
        """Return h̃."""

    def value(self, h: Vector) -> Scalar:
        """Return N γ r + δ Σ_i h_i."""
        _, r = self._parts(h)
        return h.shape[-1] * self.gain * r[..., 0] + self.shift * jnp.sum(h, axis=-1)

    def activation(self, h: Vector) -> Vector:
        """Return γ u + δ."""
        u, _ = self._parts(h)
        return self.gain * u + self.shift

    def jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return (γ/r) [ṽ − u (u·v)/N]."""
        u, r = self._parts(h)
        return self.gain / r * (self.projected(v) - u * jnp.mean(u * v, axis=-1, keepdims=True))

    def conjugate(self, h: Vector) -> Scalar:
        """Return g·h − G(h) = −N γ ε/r, without the difference of large numbers."""
        _, r = self._parts(h)
        return -h.shape[-1] * self.gain * self.epsilon / r[..., 0]

    def _parts(self, h: Vector) -> tuple[Vector, Array]:
        """Return u and r, which has a last axis of length one."""
        h = self.projected(h)
        r = jnp.sqrt(jnp.mean(h * h, axis=-1, keepdims=True) + self.epsilon)
        return h / r, r


@register
class LayerNorm(Norm):
    """Layer norm: ``g_i = γ (x_i − x̄)/√(Var x + ε) + δ``."""

    name: ClassVar[str] = "layer-norm"

    def projected(self, h: Vector) -> Vector:
        """Return h without its mean."""
        return h - jnp.mean(h, axis=-1, keepdims=True)


@register
class SphericalNorm(Norm):
    """Spherical norm: ``g_i = γ x_i/√(|x|²/N + ε) + δ``, of length γ√N."""

    name: ClassVar[str] = "spherical-norm"

    def projected(self, h: Vector) -> Vector:
        """Return h."""
        return h
