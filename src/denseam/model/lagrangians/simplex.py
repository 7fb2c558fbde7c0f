"""Lagrangians whose activations sum to one: softmax, ghostmax, top-k softmax, α-entmax, normmax.

The last two are gradients of Fenchel conjugates, σ(h) = argmax_p p·h − Ω(p) over the simplex, and are zero
where h is below a threshold. Both have the same form: with q = [z − τ]₊, and τ such that ‖q‖_r = 1,

=========  ===========================================  =========  =============  =====================
           Ω(p)                                         z          r              σ
=========  ===========================================  =========  =============  =====================
α-entmax   (Σ_k p_k^α − 1)/(α(α − 1))                   (α − 1)h   1/(α − 1)      q^r, whose sum is 1
normmax    ‖p‖_α                                        h          α/(α − 1)      q^(r−1)/Σ_k q_k^(r−1)
=========  ===========================================  =========  =============  =====================

The conditions of the maximum give this: z − τ = p^(α−1) on the support for the first, and
z − τ = (p/‖p‖_α)^(α−1) for the second, whose powers α/(α − 1) sum to 1.
"""

from __future__ import annotations

import abc
import functools
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.ground.errors import above_zero, refuse
from denseam.model.lagrangians.base import Lagrangian, Scalar, Vector, register
from denseam.model.lagrangians.elementwise import rectified
from denseam.model.parameters import alpha_of, number_of, share_of


@register
class Softmax(Lagrangian):
    """The contrastive activation: Φ(h) = log Σ_k exp(β h_k) / β, σ = softmax(βh)."""

    name: ClassVar[str] = "softmax"
    family: ClassVar[str] = "softmax"
    total: ClassVar[float | None] = 1.0
    beta: float | Float[Array, ""]

    def __init__(self, beta: float | Float[Array, ""] = 1.0) -> None:
        if not hasattr(beta, "shape"):  # an array may be traced, and has no value then
            refuse(above_zero(beta=beta))
        self.beta = beta

    def value(self, h: Vector) -> Scalar:
        """Return log Σ exp(βh) / β."""
        return jax.nn.logsumexp(self.beta * h, axis=-1) / self.beta

    def activation(self, h: Vector, *, axis: int = -1) -> Vector:
        """Return softmax(βh)."""
        return jax.nn.softmax(self.beta * h, axis=axis)

    def jacobian_product(self, h: Vector, v: Vector, *, axis: int = -1) -> Vector:
        """Return β (diag(σ) − σσᵀ) v."""
        S = self.activation(h, axis=axis)
        return self.beta * S * (v - jnp.sum(S * v, axis=axis, keepdims=True))

    def lowered(self, h: Vector) -> tuple[Vector, Scalar]:
        """Return h − max h and max h.

        Of βh − max βh compilers make one operation, which does not round βh. The largest exponent is then not
        0 but a rounding error: hundreds, if βh is 10¹⁰ in float32, and σ is 0/0. Of h − max h it is 0.
        Training has bounded h, and does without.
        """
        largest = jax.lax.stop_gradient(jnp.max(h, axis=-1, keepdims=True))
        return h - largest, largest[..., 0]


@register
class Ghostmax(Lagrangian):
    """Softmax with a further state, h = 0: Φ(h) = log(1 + Σ_k exp h_k), σ_k = exp h_k / (1 + Σ_j exp h_j).

    Where all h are far below 0, no memory answers.
    """

    name: ClassVar[str] = "ghostmax"
    family: ClassVar[str] = "softmax"

    def value(self, h: Vector) -> Scalar:
        """Return log(1 + Σ exp h)."""
        return jnp.logaddexp(jax.nn.logsumexp(h, axis=-1), 0)

    def activation(self, h: Vector) -> Vector:
        """Return exp(h − Φ)."""
        return jnp.exp(h - self.value(h)[..., None])

    def jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return (diag(σ) − σσᵀ) v."""
        return _covariance_product(self.activation(h), v)


class _Largest(Lagrangian):
    """Softmax of the largest: Φ(h) = log of the sum of the k largest exp h, σ = softmax over these, else 0.

    Φ is the largest of the convex functions log Σ_{j∈M} exp h_j over sets M of k memories, so it is convex.
    Where two memories exchange their places at the edge of the set σ jumps, as a subgradient may. Rounding
    can then decide which memory answers, and runs on other devices differ.
    """

    total: ClassVar[float | None] = 1.0

    @abc.abstractmethod
    def count(self, memories: int) -> int:
        """Return how many of the memories answer."""

    def value(self, h: Vector) -> Scalar:
        """Return the log of the sum of the k largest exp h."""
        return jax.nn.logsumexp(jax.lax.top_k(h, self.count(h.shape[-1]))[0], axis=-1)

    def activation(self, h: Vector) -> Vector:
        """Return softmax over the k largest, else 0."""
        largest, places = jax.lax.top_k(h, self.count(h.shape[-1]))
        weights = jax.nn.softmax(largest, axis=-1)
        return jnp.put_along_axis(jnp.zeros_like(h), places, weights, axis=-1, inplace=False)

    def jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return (diag(σ) − σσᵀ) v."""
        return _covariance_product(self.activation(h), v)


@register
class TopK(_Largest):
    """Softmax of the k largest, for a fixed number k of memories."""

    name: ClassVar[str] = "topk"
    family: ClassVar[str] = "sparse"
    k: int = eqx.field(static=True)

    def __init__(self, k: float = 4) -> None:
        self.k = number_of(k)

    def count(self, memories: int) -> int:
        """Return k; all memories, if there are fewer."""
        return min(self.k, memories)


@register
class TopShare(_Largest):
    """Softmax of a share of the memories, the largest ones: k in proportion to K."""

    name: ClassVar[str] = "topshare"
    family: ClassVar[str] = "softmax"
    share: float = eqx.field(static=True)

    def __init__(self, share: float = 0.25) -> None:
        self.share = share_of(share)

    def count(self, memories: int) -> int:
        """Return the share of the memories, at least one."""
        return max(1, round(self.share * memories))


def _covariance_product(S: Vector, v: Vector) -> Vector:
    """Return (diag(σ) − σσᵀ) v."""
    return S * (v - jnp.sum(S * v, axis=-1, keepdims=True))


class _Thresholded(Lagrangian):
    """α-entmax or normmax of h/n^e, where n is the number of memories and e the `spread`, 0 unless relative.

    ``Φ(h) = n^e Φ₁(h/n^e)``, ``σ(h) = σ₁(h/n^e)``. With e = 0 pre-activations of order one have a support of
    about log n memories. With the e of the relative Lagrangians sums over memories become means: the support
    is in proportion to n, and activations are of order 1/n, as those of softmax are.
    """

    alpha: float = eqx.field(static=True)

    @property
    def spread(self) -> float:
        """The exponent e."""
        return 0.0

    @property
    @abc.abstractmethod
    def r(self) -> float:
        """The exponent of the norm that is 1."""

    @abc.abstractmethod
    def _value(self, h: Vector) -> Scalar: ...

    @abc.abstractmethod
    def _activation(self, h: Vector) -> Vector: ...

    @abc.abstractmethod
    def _jacobian_product(self, h: Vector, v: Vector) -> Vector: ...

    def value(self, h: Vector) -> Scalar:
        """Return n^e Φ₁(h/n^e)."""
        unit = self._unit(h)
        return unit * self._value(h / unit)

    def activation(self, h: Vector) -> Vector:
        """Return σ₁(h/n^e)."""
        return self._activation(h / self._unit(h))

    def jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return J₁(h/n^e) v/n^e."""
        unit = self._unit(h)
        return self._jacobian_product(h / unit, v / unit)

    def _unit(self, h: Vector) -> float:
        return math.pow(h.shape[-1], self.spread)


@register
class Entmax(_Thresholded):
    """α-entmax: σ = [(α − 1)h − τ]₊^(1/(α−1)) with Σσ = 1; sparsemax for α = 2, softmax in the limit α → 1.

    ``Φ(h) = max_p p·h + (1 − Σ_k p_k^α)/(α(α − 1)) = τ/(α − 1) + Σ_k σ_k^α/α + 1/(α(α − 1))``.
    """

    name: ClassVar[str] = "entmax"
    family: ClassVar[str] = "sparse"

    def __init__(self, alpha: float = 1.5) -> None:
        self.alpha = alpha_of(alpha)

    @property
    def r(self) -> float:
        """1/(α − 1)."""
        return _exponent(1 / (self.alpha - 1))

    def _value(self, h: Vector) -> Scalar:
        a = self.alpha
        tau, q = threshold((a - 1) * h, self.r)
        return (tau + 1 / a) / (a - 1) + jnp.sum(rectified(q, self.r + 1), axis=-1) / a

    def _activation(self, h: Vector) -> Vector:
        return rectified(threshold((self.alpha - 1) * h, self.r)[1], self.r)

    def _jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return s ⊙ (v − s·v/Σs) with s = σ^(2−α) on the support: J = diag(s) − ssᵀ/Σs."""
        s = rectified(threshold((self.alpha - 1) * h, self.r)[1], self.r - 1)
        mean = jnp.sum(s * v, axis=-1, keepdims=True) / jnp.sum(s, axis=-1, keepdims=True)
        return s * (v - mean)


@register
class RelativeEntmax(Entmax):
    """α-entmax relative to equal weights: σ = [(α − 1)h − τ]₊^(1/(α−1))/n, with Σσ = 1.

    ``Φ(h) = max_p p·h − n^(α−1) (Σ_k p_k^α − 1)/(α(α − 1))``: up to a constant the last term is the power
    divergence of p from 1/n, whose limit α → 1 is that of Kullback and Leibler, which gives softmax.
    """

    name: ClassVar[str] = "relative-entmax"
    family: ClassVar[str] = "entmax"

    @property
    def spread(self) -> float:
        """α − 1."""
        return self.alpha - 1


@register
class Normmax(_Thresholded):
    """Normmax: σ ∝ [h − τ]₊^(1/(α−1)), Φ(h) = max_p p·h − ‖p‖_α = τ, where the dual norm of [h − τ]₊ is 1."""

    name: ClassVar[str] = "normmax"
    family: ClassVar[str] = "sparse"
    total: ClassVar[float | None] = 1.0

    def __init__(self, alpha: float = 2.0) -> None:
        self.alpha = alpha_of(alpha)

    @property
    def r(self) -> float:
        """α/(α − 1)."""
        return _exponent(self.alpha / (self.alpha - 1))

    def _value(self, h: Vector) -> Scalar:
        return threshold(h, self.r)[0]

    def _activation(self, h: Vector) -> Vector:
        weights = rectified(threshold(h, self.r)[1], self.r - 1)
        return weights / jnp.sum(weights, axis=-1, keepdims=True)

    def _jacobian_product(self, h: Vector, v: Vector) -> Vector:
        """Return s ⊙ u − σ s·u, with u = v − σ·v and s = (r − 1) q^(r−2)/Σq^(r−1) on the support."""
        q = threshold(h, self.r)[1]
        weights, slopes = rectified(q, self.r - 1), (self.r - 1) * rectified(q, self.r - 2)
        total = jnp.sum(weights, axis=-1, keepdims=True)
        S, s = weights / total, slopes / total
        moved = s * (v - jnp.sum(S * v, axis=-1, keepdims=True))
        return moved - S * jnp.sum(moved, axis=-1, keepdims=True)


@register
class RelativeNormmax(Normmax):
    """Normmax with a mean in its dual norm: Φ(h) = τ, where the mean of [h − τ]₊^(α/(α−1)) is 1."""

    name: ClassVar[str] = "relative-normmax"
    family: ClassVar[str] = "entmax"

    @property
    def spread(self) -> float:
        """(α − 1)/α."""
        return (self.alpha - 1) / self.alpha


def _exponent(r: float) -> float:
    """Return an exponent; whole ones as int, since integer powers are products."""
    return round(r) if abs(r - round(r)) < 1e-9 else r


#: Newton's method needs about ten steps. For r < 1 every other one is a bisection; these are enough.
_MOST_STEPS = 128


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def threshold(z: Vector, r: float) -> tuple[Scalar, Vector]:
    """Return τ and q = [z − τ]₊ with ‖q‖_r = 1, along the last axis.

    With z shifted so that its largest entry is 0, τ is at least −1, where that entry alone has norm 1, and
    at most −n^(−1/r), as if all n entries were equal to it. For r ≥ 1 the norm is a convex function of τ, so
    that Newton's steps from the left never pass the root, and are exact for the support that is left.
    For r < 1 the sum of q^r is 1 up to ε^r, which an entry at the edge of the support adds at once.
    """
    largest = jnp.max(z, axis=-1, keepdims=True)
    y = z - largest
    n, eps = z.shape[-1], jnp.finfo(z.dtype).eps  # type: ignore[no-untyped-call]
    Carry = tuple[Array, Array, Array, Array, Array]

    def step(carry: Carry) -> Carry:
        i, low, high, tau, _ = carry
        q = jnp.maximum(y - tau, 0)
        total = jnp.sum(rectified(q, r), axis=-1, keepdims=True)
        low, high = jnp.where(total >= 1, tau, low), jnp.where(total <= 1, tau, high)
        slope = jnp.sum(rectified(q, r - 1), axis=-1, keepdims=True)
        # (‖q‖ − 1) over the slope of the norm, which is −‖q‖^(1−r) Σq^(r−1)
        newton = tau + (total - total ** (1 - 1 / r)) / slope
        outside = ~((newton >= low) & (newton <= high))
        if r < 1:
            outside |= i % 2 == 1
        new = jnp.where(outside, (low + high) / 2, newton)
        return i + 1, low, high, new, jnp.abs(new - tau)

    def going(carry: Carry) -> Array:
        i, low, high, _, moved = carry
        return (i < _MOST_STEPS) & jnp.any((moved > 2 * eps) & (high - low > eps))

    low = jnp.full_like(y[..., :1], -1.0)
    high = jnp.full_like(low, -(float(n) ** (-1 / r)))
    start = (jnp.asarray(0), low, high, low, jnp.ones_like(low))
    tau = jax.lax.while_loop(going, step, start)[3]
    return (largest + tau)[..., 0], jnp.maximum(y - tau, 0)


@threshold.defjvp
def _threshold_jvp(
    r: float, primals: tuple[Vector], tangents: tuple[Vector]
) -> tuple[tuple[Scalar, Vector], tuple[Scalar, Vector]]:
    """Return τ, q and their changes: dτ is the mean of dz with weights q^(r−1), dq = dz − dτ where q > 0."""
    (z,), (dz,) = primals, tangents
    tau, q = threshold(z, r)
    weights = rectified(q, r - 1)
    moved = jnp.sum(weights * dz, axis=-1, keepdims=True) / jnp.sum(weights, axis=-1, keepdims=True)
    return (tau, q), (moved[..., 0], jnp.where(q > 0, dz - moved, 0))
