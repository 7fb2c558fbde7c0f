"""The Dense Associative Memory as a PyTorch module; see `denseam.model.dense_am` for the mathematics."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from denseam.ground.errors import InputError, refuse, whole
from denseam.model import checkpoint, shared
from denseam.model.shared import MULTIPLIERS, what
from denseam.rules import Scales
from denseam.torch import lagrangians
from denseam.torch.lagrangians import Elementwise, Identity, Lagrangian, Tanh
from denseam.torch.tensors import document_of, full, is_sharded, tensor_of

if TYPE_CHECKING:
    from denseam.model.dense_am import DenseAM as JaxDenseAM


def generator(seed: int, use: str) -> torch.Generator:
    """Return the generator for one use of a seed; no two uses draw the same numbers.

    It is on the CPU, so that a seed means the same on every device. It is not seeded with the number itself:
    a model drawn after ``torch.manual_seed(seed)`` must not consist of the same numbers as the data.
    """
    words = hashlib.sha256(f"denseam {use} {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(words[:7], "big"))


class Recall(NamedTuple):
    """The result of `DenseAM.recall`, as in `denseam.model.dense_am.Recall`."""

    state: Tensor
    energies: Tensor
    steps: Tensor
    converged: Tensor


class Steps(NamedTuple):
    """T steps of recall of a size, as in `denseam.model.steps`."""

    T: int
    size: float

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {"number": self.T, "size": self.size}

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Steps | None:
        """Read what `to_json` wrote; None if there is nothing."""
        steps = shared.number_and_size(document)
        return None if steps is None else cls(*steps)


class DenseAM(nn.Module):  # type: ignore[misc, unused-ignore]  # untyped where torch is not there
    """``f(x) = s2 W̃ᵀ σ(s1 W̃ g(x) + b̃) + c`` with ``W̃ = CW``, ``b̃ = Cb`` (eq. centered-model).

    The arguments are those of `denseam.DenseAM`. W is one parameter that is used twice, so nothing can untie
    it. Multipliers, activation and `scales` are plain data: they survive `deepcopy`, pickling, `state_dict`,
    `torch.compile`, DDP and FSDP2. In a `state_dict` they are a tensor of bytes.

    Where parameters are sharded over processes (FSDP2), `recall`, `save` and `gathered` collect them first:
    all processes must call these together.
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
        features: Lagrangian | None = None,
        centred: bool | None = None,
        s_b: float = 1.0,
        s_c: float = 1.0,
        counts: Any = None,
        scales: Scales | None = None,
        steps: Steps | None = None,
    ) -> None:
        super().__init__()
        W = torch.as_tensor(W)
        if W.ndim != 2 or not W.is_floating_point():
            raise InputError(f"W must be a matrix of floats, memories × features, got {what(W)}")
        cast: dict[str, Any] = {
            k: None if v is None else torch.as_tensor(v, dtype=W.dtype, device=W.device)
            for k, v in (("b", b), ("c", c), ("counts", counts))
        }
        shared.check_shapes(W, cast)
        if counts is not None and features is not None:
            shared.check_single("counts", features, Elementwise)
        self.W = nn.Parameter(W.detach().clone())
        self.b = nn.Parameter(cast["b"].detach().clone())
        self.c = nn.Parameter(cast["c"].detach().clone())
        self.register_buffer("counts", cast["counts"])
        self.s1, self.s2, self.s_b, self.s_c = float(s1), float(s2), float(s_b), float(s_c)
        self.activation = activation
        self.features: Lagrangian = Tanh() if features is None else features
        self.centred = not isinstance(activation, Identity) if centred is None else bool(centred)
        self.scales = scales
        self.steps = steps

    @classmethod
    def create(
        cls,
        scales: Scales,
        activation: Lagrangian,
        *,
        seed: int = 0,
        features: Lagrangian | None = None,
        centred: bool | None = None,
        bias_init: str = "zero",
        dtype: Any = torch.float32,
        device: Any = None,
    ) -> DenseAM:
        """Return an untrained model: W ~ N(0, W_std²), biases zero (or 'normal', as in the paper)."""
        shared.check_start(scales, activation, features, bias_init)
        N, K = scales.shape.N, scales.shape.K

        device = torch.get_default_device() if device is None else torch.device(device)

        def normal(name: str, *shape: int) -> Tensor:
            if device.type == "meta":  # shapes alone, to be filled by `load_state_dict`
                return torch.empty(shape, dtype=dtype, device=device)
            own = generator(seed, name)
            return torch.randn(shape, generator=own, dtype=dtype, device="cpu").to(device)

        zero = bias_init == "zero"
        return cls(
            W=scales.W_std * normal("W", K, N),
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
            steps=None if scales.step == scales.shape.T == 1 else Steps(scales.shape.T, scales.step),
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
        """Return n ⊙ g(x), the input of the memories."""
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
            raise InputError(f"x must have {self.N} features along its last axis, got {what(x)}")
        return self.readout(self.hidden(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return f(x)."""
        return self.update(x)

    def through(self, x: Tensor, known: Tensor | None = None, *, burn_in: int = 0) -> Tensor:
        """Return the state after the steps of recall that the memory is trained through; f(x) if it has none.

        `known` features keep their value. Training takes ``((through(x) - y) ** 2).sum(-1).mean() / 2``.
        `burn_in` is a number of steps before these, without derivatives.
        """
        refuse(whole(0, burn_in=burn_in))
        if known is not None:
            shared.check_single("known", self.features, Elementwise)
        with torch.no_grad():
            for _ in range(burn_in):
                x = self._stepped(x, known)
        for _ in range(1 if self.steps is None else self.steps.T):
            x = self._stepped(x, known)
        return x

    def _stepped(self, x: Tensor, known: Tensor | None) -> Tensor:
        """Return the state after a step of the training's size."""
        d = 1.0 if self.steps is None else self.steps.size
        moved = (1 - d) * x + d * self.update(x)
        return moved if known is None else torch.where(known, x, moved)

    # --- energies and recall -------------------------------------------------------------------------

    def energy(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return E_eff(x), or E(x, h); the formulas are those of `denseam.DenseAM.energy`."""
        of_features = self._feature_energy(x)
        if h is None:
            return of_features - self.activation.value(self.hidden(x)) / self.s1
        mismatch: Tensor = ((h - self.hidden(x)) * self.activation.activation(h)).sum(-1)
        return of_features + (mismatch - self.activation.value(h)) / self.s1

    def _feature_energy(self, x: Tensor) -> Tensor:
        g, c = self.features.activation(x), self.s_c * self.c
        if not isinstance(self.features, Elementwise):
            return (lagrangians.conjugate(self.features, x) - (g * c).sum(-1)) / self.s2
        e: Tensor = g * (x - c) - self.features.potential(x)
        return (e if self.counts is None else self.counts * e).sum(-1) / self.s2

    def recall(
        self,
        x: Tensor,
        steps: int | None = None,
        tolerance: float = 1e-5,
        *,
        damping: float | None = None,
        clamp: Tensor | None = None,
    ) -> Recall:
        """Iterate ``x ← x + damping · (f(x) − x)``; the arguments are those of `denseam.DenseAM.recall`.

        Each process may have samples of its own.
        """
        if clamp is not None:
            shared.check_single("clamp", self.features, Elementwise)
        mask = torch.zeros(x.shape[-1:], dtype=torch.bool, device=x.device) if clamp is None else clamp
        steps, damping = shared.steps_of_recall(self.steps, steps, damping)
        shared.check_recall(x, mask, steps, tolerance, damping)
        with torch.no_grad():
            return self.gathered()._recalled(x, mask, steps, tolerance, damping)

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
        parts = lagrangians.to_json(self.activation), lagrangians.to_json(self.features)
        return shared.to_document(*parts, self.centred, self.scales, self.steps)

    def gathered(self) -> DenseAM:
        """Return the memory with whole parameters: itself, or a copy if they are sharded."""
        tensors = {n: t for n in ("W", "b", "c", "counts") if (t := getattr(self, n)) is not None}
        if not any(map(is_sharded, tensors.values())):
            return self
        with torch.no_grad():
            return DenseAM(
                **{n: full(t) for n, t in tensors.items()},
                **{n: getattr(self, n) for n in MULTIPLIERS},
                **{n: getattr(self, n) for n in ("activation", "features", "centred", "scales", "steps")},
            )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a safetensors file, which `denseam.DenseAM.load` can read too.

        If the parameters are sharded, all processes must call this; the first one writes the file, and the
        others wait for it.
        """
        if not is_sharded(self.W):
            return self._written(path)
        memory = self.gathered()
        if torch.distributed.get_rank() == 0:
            memory._written(path)
        torch.distributed.barrier()
        return Path(path)

    def _written(self, path: str | os.PathLike[str]) -> Path:
        names = ["W", "b", "c"] + (["counts"] if self.counts is not None else [])
        tensors = {n: getattr(self, n).detach().cpu().numpy() for n in names}
        multipliers = {n: np.asarray(getattr(self, n), tensors["W"].dtype) for n in MULTIPLIERS}
        return checkpoint.write(path, tensors | multipliers, self._document())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DenseAM:
        """Read a file that `save` of either framework wrote."""
        tensors, document = checkpoint.read(path)
        with shared.own_tensors(tensors, document, path) as own:
            values: dict[str, Any] = {k: float(own.pop(k)) for k in MULTIPLIERS}
            return cls._assembled(values, own, document, shared.scales_of(document))

    @classmethod
    def _assembled(
        cls,
        multipliers: Mapping[str, float],
        arrays: Mapping[str, Any],
        document: Mapping[str, Any],
        scales: Scales | None,
    ) -> DenseAM:
        tensors: dict[str, Any] = {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}
        return cls(
            **tensors,
            **multipliers,
            activation=lagrangians.from_json(document["activation"]),
            features=lagrangians.from_json(document["features"]),
            centred=document["centred"],
            scales=scales,
            steps=Steps.from_json(document.get("steps")),
        )

    def get_extra_state(self) -> Tensor:
        """Return what `state_dict` keeps besides parameters, as a tensor of bytes."""
        return tensor_of(self._document() | {"multipliers": {k: getattr(self, k) for k in MULTIPLIERS}})

    def set_extra_state(self, state: Any) -> None:
        """Restore activation, multipliers and scales from a `state_dict`, also of an earlier version."""
        document = document_of(state)
        multipliers = shared.multipliers_of(document)
        self.activation = lagrangians.from_json(document["activation"])
        self.features = lagrangians.from_json(document["features"])
        for name, value in multipliers.items():
            setattr(self, name, value)
        self.centred = document["centred"]
        self.scales = shared.scales_of(document)
        self.steps = Steps.from_json(document.get("steps"))

    def extra_repr(self) -> str:
        """Describe the model when it is printed."""
        centred = "centred" if self.centred else "not centred"
        return f"N={self.N}, K={self.K}, {self.activation}, s1={self.s1:.4g}, s2={self.s2:.4g}, {centred}"


def to_torch(model: JaxDenseAM) -> DenseAM:
    """Return a JAX model as a PyTorch module."""
    arrays, document = model.to_document()
    multipliers = {k: float(arrays.pop(k)) for k in MULTIPLIERS}
    if model.scales is not None:  # all digits, also where the arrays are float32
        multipliers = {k: float(getattr(model.scales, k)) for k in MULTIPLIERS}
    return DenseAM._assembled(multipliers, arrays, document, model.scales)


def from_torch(model: DenseAM) -> JaxDenseAM:
    """Return a PyTorch module as a JAX model; float64 needs ``jax_enable_x64``."""
    model = model.gathered()
    from denseam.model import lagrangians as of_jax
    from denseam.model.dense_am import DenseAM as JaxDenseAM
    from denseam.model.steps import Steps as JaxSteps

    def array(value: Any) -> Any:
        return None if value is None else np.asarray(value.detach().cpu().numpy())

    return JaxDenseAM(
        array(model.W),
        array(model.b),
        array(model.c),
        model.s1,
        model.s2,
        of_jax.from_json(lagrangians.to_json(model.activation)),
        features=of_jax.from_json(lagrangians.to_json(model.features)),
        centred=model.centred,
        s_b=model.s_b,
        s_c=model.s_c,
        counts=array(model.counts),
        scales=model.scales,
        steps=JaxSteps.from_json(None if model.steps is None else model.steps.to_json()),
    )
