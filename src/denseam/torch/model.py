"""The Dense Associative Memory as a PyTorch module; see `denseam.model.dense_am` for the mathematics."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from denseam import __version__
from denseam.errors import InputError, UnboundedEnergyWarning, listed, refuse
from denseam.model import checkpoint
from denseam.rules import Scales
from denseam.rules.table import BIAS_INITS
from denseam.torch import lagrangians
from denseam.torch.generators import generator
from denseam.torch.lagrangians import Elementwise, Identity, Lagrangian, ReLU, Tanh

MULTIPLIERS = ("s1", "s2", "s_b", "s_c")


class Recall(NamedTuple):
    """What `DenseAM.recall` returns, with the leading axes of its input; as in JAX."""

    state: Tensor
    energies: Tensor
    steps: Tensor
    converged: Tensor


class DenseAM(nn.Module):  # type: ignore[misc, unused-ignore]  # untyped where torch is not there
    """``f(x) = s2 W̃ᵀ σ(s1 W̃ g(x) + b̃) + c`` with ``W̃ = CW``, ``b̃ = Cb`` (eq. centered-model).

    W is one parameter that is used twice, so nothing can untie it. Multipliers, activation and `scales` are
    plain data: they survive `deepcopy`, pickling, `state_dict`, `torch.compile` and DDP.

    Parameters
    ----------
    W, b, c
        Memories (K×N), hidden bias, feature bias.
    s1, s2
        Inner and outer multiplier.
    activation
        The Lagrangian of the hidden neurons.
    features
        That of the feature neurons; tanh by default.
    centred
        Whether C is applied; by default for every activation but identity.
    s_b, s_c
        Multipliers of the biases.
    counts
        How many original features each feature stands for.
    scales
        Where s1, s2 and the learning rates come from.
    """

    counts: Tensor | None

    def __init__(
        self,
        W: Any,
        b: Any,
        c: Any,
        s1: float,
        s2: float,
        activation: Lagrangian,
        *,
        features: Elementwise | None = None,
        centred: bool | None = None,
        s_b: float = 1.0,
        s_c: float = 1.0,
        counts: Any = None,
        scales: Scales | None = None,
    ) -> None:
        super().__init__()
        W = torch.as_tensor(W)
        if W.ndim != 2 or not W.is_floating_point():
            raise InputError(f"W must be a matrix of floats, memories × features, got {_what(W)}")
        K, N = W.shape
        given = {"b": (b, (K,)), "c": (c, (N,)), "counts": (counts, (N,))}
        cast: dict[str, Any] = {
            k: None if v is None else torch.as_tensor(v, dtype=W.dtype, device=W.device)
            for k, (v, _) in given.items()
        }
        refuse(
            f"{name} must have shape {shape}: W has {K} memories and {N} features; got {_what(cast[name])}"
            for name, (_, shape) in given.items()
            if cast[name] is not None and tuple(cast[name].shape) != shape
        )
        self.W = nn.Parameter(W.detach().clone())
        self.b = nn.Parameter(cast["b"].detach().clone())
        self.c = nn.Parameter(cast["c"].detach().clone())
        self.register_buffer("counts", cast["counts"])
        self.s1, self.s2, self.s_b, self.s_c = float(s1), float(s2), float(s_b), float(s_c)
        self.activation = activation
        self.features: Elementwise = Tanh() if features is None else features
        self.centred = not isinstance(activation, Identity) if centred is None else bool(centred)
        self.scales = scales

    @classmethod
    def create(
        cls,
        scales: Scales,
        activation: Lagrangian,
        *,
        seed: int = 0,
        features: Elementwise | None = None,
        centred: bool | None = None,
        bias_init: str = "zero",
        dtype: Any = torch.float32,
        device: Any = None,
    ) -> DenseAM:
        """Return an untrained model: W ~ N(0, W_std²), biases zero (or 'normal', as in the paper)."""
        N, K, rule = scales.shape.N, scales.shape.K, scales.rule
        refuse(
            [f"bias_init must be {listed(BIAS_INITS)}, got {bias_init!r}"] * (bias_init not in BIAS_INITS)
            + [
                f"activation is of the family {activation.family!r}, but the scales were made "
                f"for {rule.family!r}"
                for rule in [rule]
                if rule is not None and rule.family != activation.family
            ]
        )
        if isinstance(features, Identity) and isinstance(activation, ReLU) and activation.power > 1:
            warnings.warn(
                f"with identity features and relu(power={activation.power}) the energy has no lower bound; "
                "recall may run away (tanh features are bounded)",
                UnboundedEnergyWarning,
                stacklevel=2,
            )

        def normal(name: str, *shape: int) -> Tensor:
            return torch.randn(shape, generator=generator(seed, name), dtype=dtype).to(device)

        zero = bias_init == "zero"
        W = scales.W_std * normal("W", K, N)
        return cls(
            W=W,
            b=torch.zeros(K, dtype=dtype, device=device) if zero else normal("b", K),
            c=torch.zeros(N, dtype=dtype, device=device) if zero else normal("c", N),
            s1=scales.s1,
            s2=scales.s2,
            s_b=scales.s_b,
            s_c=scales.s_c,
            activation=activation,
            features=features,
            centred=centred,
            scales=scales,
        )

    @property
    def N(self) -> int:
        """Features."""
        return int(self.W.shape[1])

    @property
    def K(self) -> int:
        """Memories."""
        return int(self.W.shape[0])

    # --- the update --------------------------------------------------------------------------------

    def centre(self, v: Tensor) -> Tensor:
        """Return Cv = v − mean(v) over the memories; v itself if the model is not centred."""
        return v - v.mean(-1, keepdim=True) if self.centred else v

    def drive(self, x: Tensor) -> Tensor:
        """Return n ⊙ g(x), what the memories see of a state."""
        g = self.features.activation(x)
        return g if self.counts is None else self.counts * g

    def hidden(self, x: Tensor) -> Tensor:
        """Return the pre-activation h = s1 W̃ g(x) + b̃."""
        return self.centre(self.s1 * (self.drive(x) @ self.W.T) + self.s_b * self.b)

    def readout(self, h: Tensor) -> Tensor:
        """Return s2 W̃ᵀ σ(h) + c."""
        return self.s2 * (self.centre(self.activation.activation(h)) @ self.W) + self.s_c * self.c

    def update(self, x: Tensor) -> Tensor:
        """Return f(x) = s2 W̃ᵀ σ(s1 W̃ g(x) + b̃) + c: one step of the memory (eq. f-def)."""
        if x.ndim < 1 or x.shape[-1] != self.W.shape[1]:
            raise InputError(f"x must have {self.N} features along its last axis, got {_what(x)}")
        return self.readout(self.hidden(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return f(x)."""
        return self.update(x)

    # --- energies and recall -------------------------------------------------------------------------

    def energy(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return E_eff(x), or E(x, h); the formulas are those of `denseam.DenseAM.energy`."""
        g = self.features.activation(x)
        e = g * (x - self.s_c * self.c) - self.features.potential(x)
        of_features: Tensor = (e if self.counts is None else self.counts * e).sum(-1) / self.s2
        if h is None:
            return of_features - self.activation.value(self.hidden(x)) / self.s1
        mismatch: Tensor = ((h - self.hidden(x)) * self.activation.activation(h)).sum(-1)
        return of_features + (mismatch - self.activation.value(h)) / self.s1

    def recall(
        self,
        x: Tensor,
        steps: int = 100,
        tolerance: float = 1e-5,
        *,
        damping: float = 1.0,
        clamp: Tensor | None = None,
    ) -> Recall:
        """Iterate ``x ← x + damping · (f(x) − x)`` until it rests or `steps` are done; as in JAX."""
        mask = torch.zeros(x.shape[-1:], dtype=torch.bool, device=x.device) if clamp is None else clamp
        refuse(
            [f"steps must be a whole number of at least 1, got {steps!r}"]
            * (not isinstance(steps, int) or steps < 1)
            + [f"tolerance must be at least 0, got {tolerance!r}"] * (not tolerance >= 0)
            + [f"damping must be above 0 and at most 1, got {damping!r}"] * (not 0 < damping <= 1)
            + [f"clamp must be true or false for each feature of x {tuple(x.shape)}, got {_what(mask)}"]
            * (mask.dtype != torch.bool or mask.shape not in (x.shape, x.shape[-1:]))
        )
        with torch.no_grad():
            return self._recalled(x, mask, steps, tolerance, damping)

    def _recalled(self, x: Tensor, mask: Tensor, steps: int, tolerance: float, damping: float) -> Recall:
        state = x
        energies = self.energy(x).unsqueeze(-1).repeat_interleave(steps + 1, -1)
        rests = torch.zeros(x.shape[:-1], dtype=torch.bool, device=x.device)
        taken = torch.zeros(x.shape[:-1], dtype=torch.long, device=x.device)
        for t in range(1, steps + 1):
            if bool(rests.all()):
                break
            new = torch.where(mask, state, state + damping * (self.update(state) - state))
            new = torch.where(rests.unsqueeze(-1), state, new)
            moved = (new - state).abs().amax(-1)
            taken += ~rests
            energies[..., t:] = torch.where(rests, energies[..., t], self.energy(new)).unsqueeze(-1)
            rests = rests | (moved <= tolerance * new.abs().amax(-1).clamp(min=1))
            state = new
        return Recall(state, energies, taken, rests)

    # --- files ---------------------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        return {
            "kind": "model",
            "version": __version__,
            "activation": lagrangians.to_json(self.activation),
            "features": lagrangians.to_json(self.features),
            "centred": self.centred,
            "scales": self.scales.to_json() if self.scales else None,
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the safetensors file that `denseam.DenseAM.load` reads too."""
        names = ["W", "b", "c"] + (["counts"] if self.counts is not None else [])
        tensors = {n: getattr(self, n).detach().cpu().numpy() for n in names}
        multipliers = {n: np.asarray(getattr(self, n), tensors["W"].dtype) for n in MULTIPLIERS}
        return checkpoint.write(path, tensors | multipliers, self._document())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DenseAM:
        """Read what `save` of either framework wrote."""
        tensors, document = checkpoint.read(path)
        own = {k: v for k, v in tensors.items() if not k.startswith("data.")}
        try:
            if document["kind"] != "model":
                raise InputError(f"holds a {document['kind']!r}, not a model")
            values: dict[str, Any] = {k: float(own.pop(k)) for k in MULTIPLIERS}
            values |= {k: torch.from_numpy(np.array(v)) for k, v in own.items()}
            return cls(
                **values,
                activation=lagrangians.from_json(document["activation"]),
                features=lagrangians.from_json(document["features"]),
                centred=document["centred"],
                scales=Scales.from_json(document["scales"]) if document["scales"] else None,
            )
        except InputError as error:
            raise InputError(f"checkpoint {path}: {error}") from None
        except (KeyError, TypeError) as error:
            raise InputError(f"checkpoint {path}: damaged or foreign ({error})") from None

    def get_extra_state(self) -> dict[str, str]:
        """Return what `state_dict` keeps besides tensors: plain text."""
        multipliers = {k: getattr(self, k) for k in MULTIPLIERS}
        return {"denseam": json.dumps(self._document() | {"multipliers": multipliers})}

    def set_extra_state(self, state: dict[str, str]) -> None:
        """Take activation, multipliers and scales from a `state_dict`."""
        document = json.loads(state["denseam"])
        for name in MULTIPLIERS:
            setattr(self, name, float(document["multipliers"][name]))
        self.activation = lagrangians.from_json(document["activation"])
        self.features = lagrangians.from_json(document["features"])
        self.centred = document["centred"]
        self.scales = Scales.from_json(document["scales"]) if document["scales"] else None

    def extra_repr(self) -> str:
        """Say what the model is, when it is printed."""
        centred = "centred" if self.centred else "not centred"
        return f"N={self.N}, K={self.K}, {self.activation}, s1={self.s1:.4g}, s2={self.s2:.4g}, {centred}"


def _what(tensor: Any) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"
