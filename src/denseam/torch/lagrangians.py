"""Activations of neurons, each as the gradient of a convex function Φ: plain data with two functions.

Names and parameters are those of `denseam.model.lagrangians`, so that both frameworks share checkpoints.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from denseam.errors import InputError, above_zero, listed, refuse
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


# The names people type: relu(power=2), softmax(beta=4).
identity, relu, softmax, tanh = Identity, ReLU, Softmax, Tanh

_KNOWN: dict[str, Any] = {cls.name: cls for cls in (Identity, ReLU, Softmax, Tanh)}


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
