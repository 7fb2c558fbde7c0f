"""What training costs, from the sizes alone: operations and memory."""

from __future__ import annotations

from denseam.rules import Shape
from denseam.rules.optimizers import OPTIMIZERS, Normalisation


def updates(shape: Shape, epochs: int) -> int:
    """Return the number of updates of a run."""
    assert shape.P is not None
    assert shape.B is not None
    return epochs * (shape.P // shape.B)


#: Steps of Newton–Schulz that make an update orthogonal.
NEWTON_SCHULZ_STEPS = 5


def step_operations(
    shape: Shape, optimizer: str = "sgd", *, recompute: bool = False, burn_in: float = 0.0
) -> float:
    """Return the least operations of one update, with the products that the optimizer needs of its own.

    ``10·K·N·B`` are those of W G, WᵀS, W R, S Rᵀ and A Gᵀ. Each further step of recall takes these and WᵀA,
    ``(12T − 2)·K·N·B`` in all, and with `recompute` W G twice. A `burn_in`, in units of T, takes W G
    and WᵀS in each of its steps. Each step of Newton–Schulz takes ``4·m²·n + 2·m³`` for XXᵀ, its square and
    the product with X, where m is the shorter side of W.
    """
    assert shape.B is not None
    own = 0.0
    if OPTIMIZERS[optimizer].normalisation is Normalisation.ORTHOGONAL:
        m, n = sorted((shape.K, shape.N))
        own = NEWTON_SCHULZ_STEPS * (4.0 * m**2 * n + 2.0 * m**3)
    products = 12.0 * shape.T - 2 + (2 * shape.T if recompute else 0) + 4 * round(burn_in * shape.T)
    return products * shape.K * shape.N * shape.B + own


def training_bytes(
    shape: Shape, optimizer: str, itemsize: int = 4, probes: bool = False, *, recompute: bool = False
) -> float:
    """Return the memory that training one model takes: parameters, moments, gradient, activations.

    Each further step of recall keeps its state, N×B, and without `recompute` its pre-activations, K×B.
    """
    N, K, B, more = shape.N, shape.K, shape.B, shape.T - 1
    assert B is not None
    rule = OPTIMIZERS[optimizer]
    copies = 3 + rule.moments + rule.workspace + (6 if probes else 0)
    activations = 20 if probes else 8
    activations += 0 if recompute else more
    return float(itemsize * (copies * K * N + activations * B * K + (6 + more) * B * N))


def recomputes(shape: Shape, optimizer: str, memory: float, itemsize: int = 4, probes: bool = False) -> bool:
    """Return whether pre-activations must be recomputed in the backward pass: if one model would not fit."""
    return shape.T > 1 and training_bytes(shape, optimizer, itemsize, probes) > memory
