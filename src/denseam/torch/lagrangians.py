"""Activations of neurons, each as the gradient of a convex function Φ: plain data with two functions.

Names and parameters are those of `denseam.model.lagrangians`, so that both frameworks share checkpoints.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from denseam.ground.errors import InputError, above_zero, listed, refuse
from denseam.model.parameters import (
    BERNOULLI,
    LARGEST_EXPONENT,
    alpha_of,
    check_norm,
    coefficients_of,
    number_of,
    share_of,
)
from denseam.model.shared import lagrangian_document
from denseam.rules.table import relu_constant


@runtime_checkable
class Lagrangian(Protocol):
    """Φ and σ = ∂Φ/∂h, along the last axis."""

    name: ClassVar[str]
    family: ClassVar[str]

    def value(self, h: Tensor) -> Tensor:
        """Return Φ(h)."""

    def activation(self, h: Tensor) -> Tensor:
        """Return σ(h)."""


@runtime_checkable
class Elementwise(Lagrangian, Protocol):
    """A Lagrangian that is a sum over neurons, Φ(h) = Σ_k φ(h_k)."""

    family: ClassVar[str] = "elementwise"

    def potential(self, h: Tensor) -> Tensor:
        """Return φ(h_k) for every neuron."""

    def value(self, h: Tensor) -> Tensor:
        """Return Φ(h) = Σ_k φ(h_k)."""
        return self.potential(h).sum(-1)


@dataclasses.dataclass(frozen=True)
class Identity(Elementwise):
    """The linear activation: φ(h) = h²/2, σ(h) = h."""

    name: ClassVar[str] = "identity"

    def potential(self, h: Tensor) -> Tensor:
        """Return h²/2."""
        return h * h / 2

    def activation(self, h: Tensor) -> Tensor:
        """Return h."""
        return h


@dataclasses.dataclass(frozen=True)
class ReLU(Elementwise):
    """A rectified power, normalised: σ(h) = C_p relu(h)^p, φ(h) = C_p relu(h)^(p+1)/(p+1)."""

    power: float = 1
    name: ClassVar[str] = "relu"

    def __post_init__(self) -> None:
        if not (isinstance(self.power, int | float) and 1 <= self.power < math.inf):
            raise InputError(f"power must be at least 1 and finite, got {self.power!r}")
        if self.power == int(self.power):
            object.__setattr__(self, "power", int(self.power))

    def potential(self, h: Tensor) -> Tensor:
        """Return C_p relu(h)^(p+1) / (p+1)."""
        return relu_constant(self.power) / (self.power + 1) * _rectified(h, self.power + 1)

    def activation(self, h: Tensor) -> Tensor:
        """Return C_p relu(h)^p."""
        return relu_constant(self.power) * _rectified(h, self.power)


@dataclasses.dataclass(frozen=True)
class Softmax:
    """The contrastive activation: Φ(h) = log Σ_k exp(β h_k) / β, σ = softmax(βh)."""

    beta: float = 1.0
    name: ClassVar[str] = "softmax"
    family: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        refuse(above_zero(beta=self.beta))

    def value(self, h: Tensor) -> Tensor:
        """Return log Σ exp(βh) / β."""
        return torch.logsumexp(self.beta * h, -1) / self.beta

    def activation(self, h: Tensor) -> Tensor:
        """Return softmax(βh)."""
        return torch.softmax(self.beta * h, -1)


@dataclasses.dataclass(frozen=True)
class Tanh(Elementwise):
    """The bounded feature with gain γ: G(x) = log cosh(γx) / γ, g(x) = tanh(γx)."""

    gain: float = 1.0
    name: ClassVar[str] = "tanh"

    def __post_init__(self) -> None:
        refuse(above_zero(gain=self.gain))

    def potential(self, h: Tensor) -> Tensor:
        """Return log cosh(γh) / γ without computing cosh; near zero in a form that keeps all digits."""
        a = (self.gain * h).abs()
        small = torch.log1p(2 * torch.sinh(a.clamp(max=1) / 2) ** 2)
        return torch.where(a < 1, small, a + torch.log1p(torch.exp(-2 * a)) - math.log(2)) / self.gain

    def activation(self, h: Tensor) -> Tensor:
        """Return tanh γh."""
        return torch.tanh(self.gain * h)


def _rectified(h: Tensor, power: float) -> Tensor:
    """Return h^p where h > 0, else 0; every derivative is finite there too, also for p < 2."""
    positive = h > 0
    return torch.where(positive, torch.where(positive, h, 1.0) ** power, 0.0)


@dataclasses.dataclass(frozen=True)
class Sigmoid(Elementwise):
    """The logistic activation: φ(h) = log(1 + e^h), σ(h) = 1/(1 + e^−h)."""

    name: ClassVar[str] = "sigmoid"

    def potential(self, h: Tensor) -> Tensor:
        """Return log(1 + e^h)."""
        return torch.logaddexp(h, torch.zeros_like(h))

    def activation(self, h: Tensor) -> Tensor:
        """Return 1/(1 + e^−h)."""
        return torch.sigmoid(h)


@dataclasses.dataclass(frozen=True)
class Softplus(Elementwise):
    """A smooth ReLU: φ(h) = −Li₂(−e^h), σ(h) = log(1 + e^h)."""

    name: ClassVar[str] = "softplus"

    def potential(self, h: Tensor) -> Tensor:
        """Return −Li₂(−e^h), as in `denseam.model.lagrangians`."""
        u = torch.logaddexp(-h.abs(), torch.zeros_like(h))
        square, tail = u * u, torch.zeros_like(u)
        for coefficient in reversed(BERNOULLI):
            tail = tail * square + coefficient
        small = u + square / 4 + u * square * tail
        return torch.where(h > 0, h * h / 2 + math.pi**2 / 6 - small, small)

    def activation(self, h: Tensor) -> Tensor:
        """Return log(1 + e^h)."""
        return torch.logaddexp(h, torch.zeros_like(h))


@dataclasses.dataclass(frozen=True)
class Exp(Elementwise):
    """The exponential, shifted: φ(h) = σ(h) = exp(h − 1), continued along its tangent above h = 30."""

    name: ClassVar[str] = "exp"
    family: ClassVar[str] = "exponential"

    def potential(self, h: Tensor) -> Tensor:
        """Return exp(h − 1); e (1 + t + t²/2) for h = 30 + t, t > 0, with e = exp(29)."""
        t = (h - LARGEST_EXPONENT).clamp(min=0)
        return torch.exp(h.clamp(max=LARGEST_EXPONENT) - 1) * (1 + t + t * t / 2)

    def activation(self, h: Tensor) -> Tensor:
        """Return exp(h − 1); e (1 + t) for h = 30 + t, t > 0."""
        t = (h - LARGEST_EXPONENT).clamp(min=0)
        return torch.exp(h.clamp(max=LARGEST_EXPONENT) - 1) * (1 + t)


@dataclasses.dataclass(frozen=True)
class Polynomial(Elementwise):
    """A polynomial that never falls: σ(h) = Σ_j a_j h^j."""

    coefficients: tuple[float, ...] = (0.0, 1.0, 0.0, 1 / 3)
    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", coefficients_of(self.coefficients))

    def potential(self, h: Tensor) -> Tensor:
        """Return Σ_j a_j h^(j+1)/(j+1)."""
        return _horner([0.0, *(a / (j + 1) for j, a in enumerate(self.coefficients))], h)

    def activation(self, h: Tensor) -> Tensor:
        """Return Σ_j a_j h^j."""
        return _horner(self.coefficients, h)


def _horner(coefficients: Sequence[float], h: Tensor) -> Tensor:
    value = torch.zeros_like(h)
    for a in reversed(coefficients):
        value = value * h + a
    return value


@dataclasses.dataclass(frozen=True)
class Ghostmax:
    """Softmax with one more state, of h = 0: Φ(h) = log(1 + Σ_k exp h_k)."""

    name: ClassVar[str] = "ghostmax"
    family: ClassVar[str] = "softmax"

    def value(self, h: Tensor) -> Tensor:
        """Return log(1 + Σ exp h)."""
        total = torch.logsumexp(h, -1)
        return torch.logaddexp(total, torch.zeros_like(total))

    def activation(self, h: Tensor) -> Tensor:
        """Return exp(h − Φ)."""
        return torch.exp(h - self.value(h)[..., None])


class _Largest:
    """Softmax of the k largest."""

    def count(self, memories: int) -> int:
        """Return how many of the memories answer."""
        raise NotImplementedError

    def value(self, h: Tensor) -> Tensor:
        """Return the log of the sum of the k largest exp h."""
        return torch.logsumexp(torch.topk(h, self.count(h.shape[-1]))[0], -1)

    def activation(self, h: Tensor) -> Tensor:
        """Return softmax over the k largest, else 0."""
        largest, places = torch.topk(h, self.count(h.shape[-1]))
        return torch.zeros_like(h).scatter(-1, places, torch.softmax(largest, -1))


@dataclasses.dataclass(frozen=True)
class TopK(_Largest):
    """Softmax of the k largest, for a fixed number k of memories."""

    k: float = 4
    name: ClassVar[str] = "topk"
    family: ClassVar[str] = "sparse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", number_of(self.k))

    def count(self, memories: int) -> int:
        """Return k; all memories, if there are fewer."""
        return min(int(self.k), memories)


@dataclasses.dataclass(frozen=True)
class TopShare(_Largest):
    """Softmax of a share of the memories, the largest ones."""

    share: float = 0.25
    name: ClassVar[str] = "topshare"
    family: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", share_of(self.share))

    def count(self, memories: int) -> int:
        """Return the share of the memories, at least one."""
        return max(1, round(self.share * memories))


class _Thresholded:
    """α-entmax or normmax of h/n^e, with e = `spread`."""

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", alpha_of(self.alpha))

    @property
    def spread(self) -> float:
        """The exponent e."""
        return 0.0

    def _unit(self, h: Tensor) -> float:
        return math.pow(h.shape[-1], self.spread)


@dataclasses.dataclass(frozen=True)
class Entmax(_Thresholded):
    """α-entmax: σ = [(α − 1)h − τ]₊^(1/(α−1)) with Σσ = 1."""

    alpha: float = 1.5
    name: ClassVar[str] = "entmax"
    family: ClassVar[str] = "sparse"

    def value(self, h: Tensor) -> Tensor:
        """Return n^e (τ/(α − 1) + Σσ^α/α + 1/(α(α − 1)))."""
        a, unit = self.alpha, self._unit(h)
        r = 1 / (a - 1)
        tau, q = _threshold((a - 1) * h / unit, r)
        return unit * ((tau + 1 / a) / (a - 1) + _rectified(q, r + 1).sum(-1) / a)

    def activation(self, h: Tensor) -> Tensor:
        """Return [(α − 1)h/n^e − τ]₊^(1/(α−1))."""
        r = 1 / (self.alpha - 1)
        return _rectified(_threshold((self.alpha - 1) * h / self._unit(h), r)[1], r)


@dataclasses.dataclass(frozen=True)
class RelativeEntmax(Entmax):
    """α-entmax relative to equal weights: σ = [(α − 1)h − τ]₊^(1/(α−1))/n, with Σσ = 1."""

    name: ClassVar[str] = "relative-entmax"
    family: ClassVar[str] = "entmax"

    @property
    def spread(self) -> float:
        """α − 1."""
        return self.alpha - 1


@dataclasses.dataclass(frozen=True)
class Normmax(_Thresholded):
    """Normmax: σ ∝ [h − τ]₊^(1/(α−1)), Φ(h) = τ, where the dual norm of [h − τ]₊ is 1."""

    alpha: float = 2.0
    name: ClassVar[str] = "normmax"
    family: ClassVar[str] = "sparse"

    def value(self, h: Tensor) -> Tensor:
        """Return n^e τ."""
        unit = self._unit(h)
        return unit * _threshold(h / unit, self.alpha / (self.alpha - 1))[0]

    def activation(self, h: Tensor) -> Tensor:
        """Return q^(r−1)/Σq^(r−1)."""
        r = self.alpha / (self.alpha - 1)
        weights = _rectified(_threshold(h / self._unit(h), r)[1], r - 1)
        return weights / weights.sum(-1, keepdim=True)


@dataclasses.dataclass(frozen=True)
class RelativeNormmax(Normmax):
    """Normmax with a mean in its dual norm."""

    name: ClassVar[str] = "relative-normmax"
    family: ClassVar[str] = "entmax"

    @property
    def spread(self) -> float:
        """(α − 1)/α."""
        return (self.alpha - 1) / self.alpha


@dataclasses.dataclass(frozen=True)
class Norm:
    """A norm with entries of order one: G(x) = N γ r + δ Σ_i x_i with r = √(|x̃|²/N + ε)."""

    gain: float = 1.0
    shift: float = 0.0
    epsilon: float = 1e-5
    name: ClassVar[str]
    family: ClassVar[str] = "elementwise"

    def __post_init__(self) -> None:
        check_norm(self.gain, self.shift, self.epsilon)

    def projected(self, h: Tensor) -> Tensor:
        """Return h̃: without its mean in layer norm, else h."""
        return h

    def value(self, h: Tensor) -> Tensor:
        """Return N γ r + δ Σ_i h_i."""
        return h.shape[-1] * self.gain * self._parts(h)[1][..., 0] + self.shift * h.sum(-1)

    def activation(self, h: Tensor) -> Tensor:
        """Return γ h̃/r + δ."""
        u, _ = self._parts(h)
        return self.gain * u + self.shift

    def conjugate(self, h: Tensor) -> Tensor:
        """Return g·h − G(h) = −N γ ε/r, without the difference of large numbers."""
        return -h.shape[-1] * self.gain * self.epsilon / self._parts(h)[1][..., 0]

    def _parts(self, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.projected(h)
        r = ((h * h).mean(-1, keepdim=True) + self.epsilon).sqrt()
        return h / r, r


@dataclasses.dataclass(frozen=True)
class LayerNorm(Norm):
    """Layer norm: g_i = γ (x_i − x̄)/√(Var x + ε) + δ."""

    name: ClassVar[str] = "layer-norm"

    def projected(self, h: Tensor) -> Tensor:
        """Return h without its mean."""
        return h - h.mean(-1, keepdim=True)


@dataclasses.dataclass(frozen=True)
class SphericalNorm(Norm):
    """Spherical norm: g_i = γ x_i/√(|x|²/N + ε) + δ."""

    name: ClassVar[str] = "spherical-norm"


def conjugate(lagrangian: Lagrangian, h: Tensor) -> Tensor:
    """Return σ(h)·h − Φ(h): the convex conjugate of Φ, at σ(h)."""
    if isinstance(lagrangian, Norm):
        return lagrangian.conjugate(h)
    return (lagrangian.activation(h) * h).sum(-1) - lagrangian.value(h)


def _threshold(z: Tensor, r: float) -> tuple[Tensor, Tensor]:
    """Return τ and q = [z − τ]₊ with ‖q‖_r = 1, by bisection; their derivatives are added as zeros."""
    largest = z.detach().amax(-1, keepdim=True)
    fixed = z.detach() - largest
    low = torch.full_like(largest, -1.0)
    high = torch.full_like(largest, -math.pow(z.shape[-1], -1 / r))
    for _ in range(64):
        middle = (low + high) / 2
        above = _rectified(fixed - middle, r).sum(-1, keepdim=True) >= 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    support = fixed > low
    weights = torch.where(support, torch.where(support, fixed - low, 1.0) ** (r - 1), 0.0)
    # dτ is the mean of dz with weights q^(r−1)
    moved = (weights * (z - z.detach())).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
    q = torch.where(support, z - largest - low - moved, 0.0)
    return (largest + low + moved)[..., 0], q


# The names people type: relu(power=2), softmax(beta=4), entmax(alpha=1.5).
identity, relu, softmax, tanh = Identity, ReLU, Softmax, Tanh
sigmoid, softplus, exp, polynomial, ghostmax = Sigmoid, Softplus, Exp, Polynomial, Ghostmax
topk, topshare, entmax, normmax = TopK, TopShare, Entmax, Normmax
relative_entmax, relative_normmax = RelativeEntmax, RelativeNormmax
layer_norm, spherical_norm = LayerNorm, SphericalNorm

_KNOWN: dict[str, Any] = {
    cls.name: cls
    for cls in (
        Identity, ReLU, Softmax, Tanh, Sigmoid, Softplus, Exp, Polynomial, Ghostmax, TopK, TopShare, Entmax,
        Normmax, RelativeEntmax, RelativeNormmax, LayerNorm, SphericalNorm,
    )
}  # fmt: skip


def to_json(lagrangian: Lagrangian) -> dict[str, Any]:
    """Return name and parameters as a plain document."""
    if lagrangian.name not in _KNOWN:
        raise InputError(f"Lagrangian must be {listed(_KNOWN)} in a checkpoint, got {lagrangian.name!r}")
    return lagrangian_document(lagrangian.name, vars(lagrangian))


def from_json(document: Mapping[str, Any]) -> Any:
    """Read what `to_json` of either framework wrote."""
    parameters = dict(document)
    name = parameters.pop("name", None)
    if name not in _KNOWN:
        raise InputError(f"Lagrangian must be {listed(_KNOWN)} in PyTorch, got {name!r}")
    return _KNOWN[name](**parameters)
