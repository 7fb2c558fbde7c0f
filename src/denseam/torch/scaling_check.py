"""The coordinate check and the verdict for your own PyTorch model."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from denseam import __version__
from denseam.analysis.coordinates.judge import Check
from denseam.analysis.coordinates.of_model import change_by, judge_runs, updates_to_measure
from denseam.ground.errors import InputError, refuse, whole
from denseam.rules import Regime, Shape
from denseam.rules.regimes import DEFAULT_REGIME
from denseam.studies.description import AXES
from denseam.studies.records import COLUMNS, OPTIONAL, Records, Row
from denseam.torch.model import generator
from denseam.torch.outputs import Output, Outputs
from denseam.training.divergence import Ending, ending

MakeModel = Callable[[Shape, int], nn.Module]
MakeOptimizer = Callable[[nn.Module, Shape], Optimizer]
MakeTunedOptimizer = Callable[[nn.Module, Shape, float], Optimizer]
#: Model, batch (samples as rows) → activations of the hidden neurons (samples as rows).
Activations = Callable[[Any, Tensor], Tensor]


def check(
    model: MakeModel,
    optimizer: MakeOptimizer,
    *,
    regime: Regime = DEFAULT_REGIME,
    scales: Sequence[int] = (64, 128, 256),
    seeds: int = 4,
    updates: int = 16,
    noise: float = 0.5,
    activations: Activations | None = None,
    output: Output | None = None,
    name: str = "own model",
    device: Any = None,
) -> Check:
    """Check your own model and optimizer, trained to denoise isotropic data.

    Parameters
    ----------
    model
        Shape, seed → a module that maps noisy samples (rows) to clean ones. If it has ``hidden(X)``,
        pre-activations are checked too. Dropout draws the same mask before and after a step; attention is
        computed by PyTorch's math kernel, the one that has all derivatives.
    optimizer
        Model, shape → its optimizer, with the learning rates of that shape.
    regime, scales, seeds, updates, noise
        What grows, to which sizes, how many runs and updates, and the noise.
    activations
        Model, X → activations of the hidden neurons, in whose Gram matrix a spike is looked for. Not needed
        for a `DenseAM`.
    output
        What the model returns → the denoised samples. Not needed for a tensor, nor for a tuple or list that
        begins with it.
    device
        Where to train.

    The result is PASS or FAIL only with three sizes and three seeds or more.
    """
    measured = updates_to_measure(scales, seeds, updates)
    runs: dict[tuple[int, int], list[dict[str, float]]] = {}
    matrices: set[str] = set()
    for scale, seed in itertools.product(scales, range(seeds)):
        shape = regime.shape(scale)
        module = model(shape, seed).to(device)
        matrices |= {change_by(label, p) for label, p in module.named_parameters() if p.ndim > 1}
        run = _Run(module, optimizer(module, shape), Outputs(module, output), activations)
        runs[scale, seed] = run.measured(shape, seed, measured, noise)
    return judge_runs(runs, measured, scales, seeds, regime, name, matrices)


def sweep(
    model: MakeModel,
    optimizer: MakeTunedOptimizer,
    eta0: Sequence[float],
    *,
    regime: Regime = DEFAULT_REGIME,
    scales: Sequence[int] = (32, 64, 128),
    seeds: int = 3,
    epochs: int = 16,
    noise: float = 0.5,
    output: Output | None = None,
    name: str = "own model",
    device: Any = None,
) -> Records:
    """Train your model over learning rates × sizes × seeds; `denseam.verdict` judges the records.

    `optimizer` is called with the model, its shape and η0. A run that diverges is a record like any other.
    `output` picks the denoised samples from what the model returns, as in `check`.
    """
    refuse(whole(epochs=epochs))
    rows: list[Row] = []
    for scale, seed, rate in itertools.product(scales, range(seeds), eta0):
        shape = regime.shape(scale)
        module = model(shape, seed).to(device)
        began = time.perf_counter()
        length = epochs if shape.E is None else shape.E
        outputs = Outputs(module, output)
        initial = _initial(outputs, shape, seed, length, noise)
        errors, zero = _train(outputs, optimizer(module, shape, rate), shape, seed, length, noise)
        row = _row(
            name, regime, scale, shape, seed, rate, ending(errors, initial), initial, zero, epochs, noise
        )
        rows.append(row | {"epochs": length, "seconds": time.perf_counter() - began})
    return Records(rows)


def _batches(shape: Shape, seed: int, noise: float, like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield noisy and clean batches indefinitely: fresh permutations, fresh noise."""
    assert shape.P is not None
    assert shape.B is not None
    data = torch.randn(shape.P, shape.N, generator=generator(seed, "data"), dtype=like.dtype)
    order_of, noise_of = generator(seed, "batches"), generator(seed, "noise")
    while True:
        order = torch.randperm(shape.P, generator=order_of)
        for first in range(0, shape.P - shape.B + 1, shape.B):
            Y = data[order[first : first + shape.B]]
            X = Y + noise * torch.randn(Y.shape, generator=noise_of, dtype=Y.dtype)
            yield X.to(like.device), Y.to(like.device)


def _first(model: nn.Module) -> Tensor:
    parameter = next((p for p in model.parameters() if p.requires_grad), None)
    if parameter is None:
        raise InputError(f"model must have parameters to train, got {type(model).__name__}")
    return parameter


def _loss(outputs: Outputs, X: Tensor, Y: Tensor) -> Tensor:
    R = outputs(X) - Y
    return (R * R).sum() / (2 * len(X))


def _step(outputs: Outputs, optimizer: Optimizer, X: Tensor, Y: Tensor) -> float:
    """Take a step; return the MSE per feature before it."""
    optimizer.zero_grad(set_to_none=True)
    L = _loss(outputs, X, Y)
    L.backward()  # type: ignore[no-untyped-call, unused-ignore]
    optimizer.step()
    return float(2 * L.detach() / X.shape[1])


def _per_epoch(shape: Shape) -> int:
    return (shape.P or 1) // (shape.B or 1)


def _initial(outputs: Outputs, shape: Shape, seed: int, epochs: int, noise: float) -> float:
    """Return the MSE of the untrained model on the last epoch's batches."""
    last, n = epochs - 1, _per_epoch(shape)
    batches = _batches(shape, seed, noise, _first(outputs.model))
    with torch.no_grad():
        errors = [
            float(2 * _loss(outputs, X, Y) / X.shape[1])
            for X, Y in itertools.islice(batches, last * n, (last + 1) * n)
        ]
    return sum(errors) / n


def _train(
    outputs: Outputs, optimizer: Optimizer, shape: Shape, seed: int, epochs: int, noise: float
) -> tuple[np.ndarray[Any, Any], float]:
    """Return the MSE of every step, epochs × steps, and that of predicting zero.

    A run stops after the epoch in which its loss becomes non-finite; the errors of later epochs are infinite.
    """
    n = _per_epoch(shape)
    batches = _batches(shape, seed, noise, _first(outputs.model))
    errors, squares = np.full((epochs, n), np.inf), []
    for epoch in range(epochs):
        for step in range(n):
            X, Y = next(batches)
            errors[epoch, step] = _step(outputs, optimizer, X, Y)
            squares.append(float((Y * Y).mean()))
        if not np.isfinite(errors[epoch]).all():
            break
    return errors, sum(squares) / len(squares)


def _row(
    name: str,
    regime: Regime,
    scale: int,
    shape: Shape,
    seed: int,
    eta0: float,
    end: Ending,
    initial: float,
    zero: float,
    epochs: int,
    noise: float,
) -> Row:
    losses = [float(v) for v in end.curve.mean(axis=1)]
    study_id = hashlib.sha256(f"{name} {regime} {epochs} {noise}".encode()).hexdigest()[:12]
    key = hashlib.sha256(f"{study_id} {shape} {seed} {eta0!r}".encode()).hexdigest()[:32]
    row: Row = {c: ("" if kind == "s" else 0 if kind == "i" else math.nan) for c, kind in COLUMNS.items()}
    row |= {axis: p.default for axis, p in AXES.items()}
    row |= {
        "key": key, "study": name, "study_id": study_id, "scale": scale, "features": shape.N,
        "memories": shape.K, "samples": shape.P, "batch": shape.B, "seed": seed, "eta0": float(eta0),
        "status": end.status, "diverged_at": end.diverged_at, "initial_mse": initial,
        "final_mse": losses[-1], "heldout_mse": math.nan, "zero_mse": zero, "regime": regime.name,
        "data": "isotropic", "epochs": epochs, "noise": noise, "swept": "eta0", "device": "torch",
        "version": __version__, "loss": losses,
    }  # fmt: skip
    return {k: v for k, v in row.items() if k not in OPTIONAL}


# --- measuring a step --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Run:
    """The training of one model whose steps are measured."""

    model: nn.Module
    optimizer: Optimizer
    outputs: Outputs
    activations: Activations | None

    def measured(
        self, shape: Shape, seed: int, measured: Sequence[int], noise: float
    ) -> list[dict[str, float]]:
        """Train; return the sizes before each step to be measured, and what the step changes."""
        sizes = []
        batches = _batches(shape, seed, noise, _first(self.model))
        for t in range(max(measured) + 1):
            X, Y = next(batches)
            if t in measured:
                sizes.append(self.step(X, Y))
            else:
                _step(self.outputs, self.optimizer, X, Y)
        return sizes

    def step(self, X: Tensor, Y: Tensor) -> dict[str, float]:
        """Take a step; return the sizes of what it changes."""
        # A parameter that is used in two places is listed once.
        before = {n: p.detach().clone() for n, p in self.model.named_parameters() if p.requires_grad}
        buffers = self.outputs.buffers()
        F, Z = self.outputs.at(before, buffers, X), self._hidden(X)
        with torch.no_grad():
            spectrum = _spectrum(self.model, X, self.activations)
        _step(self.outputs, self.optimizer, X, Y)
        after = {n: p.detach() for n, p in self.model.named_parameters() if n in before}
        sizes = {"F": _rms(F), "dF_exact": _rms(self.outputs.at(after, buffers, X) - F)}
        if Z is not None:
            sizes |= {"Z": _rms(Z), "dZ_exact": _rms(self._hidden(X) - Z)}
        sizes |= spectrum
        for name, p in self.model.named_parameters():
            if name not in before or p.grad is None:  # frozen, or not used
                continue
            part = self.outputs.change(before, buffers, X, name, after[name] - before[name])
            sizes[change_by(name, p)] = _rms(part)
            sizes[f"gradient of {name}"] = _rms(p.grad)
        return sizes

    def _hidden(self, X: Tensor) -> Any:
        """Return the pre-activations, None if the model does not show them."""
        hidden = getattr(self.model, "hidden", None)
        with torch.no_grad():
            return hidden(X) if callable(hidden) else None


def _rms(V: Tensor) -> float:
    return float(V.detach().square().mean().sqrt())


def _spectrum(model: Any, X: Tensor, activations: Activations | None) -> dict[str, float]:
    """Return the two largest eigenvalues of SᵀS/K."""
    if activations is not None:
        S = activations(model, X)
    elif hasattr(model, "activation") and hasattr(model, "hidden") and hasattr(model, "centre"):
        S = model.centre(model.activation.activation(model.hidden(X)))
    else:
        return {}
    values = torch.linalg.svdvals(S.double()).square() / S.shape[-1]
    return {"lambda_max_raw": float(values[0]), "lambda_2_raw": float(values[1])}
