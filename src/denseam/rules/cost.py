"""What training costs, from the sizes alone: operations and memory."""

from __future__ import annotations

from denseam.rules import Shape
from denseam.rules.optimizers import OPTIMIZERS, Normalisation


def steps(shape: Shape, epochs: int) -> int:
    """Return the number of steps of a run."""
    assert shape.P is not None
    assert shape.B is not None
    return epochs * (shape.P // shape.B)


#: Steps of Newton–Schulz that make an update orthogonal.
NEWTON_SCHULZ_STEPS = 5


def step_operations(shape: Shape, optimizer: str = "sgd") -> float:
    """Return the least operations of one step, with the products that the optimizer needs of its own.

    ``10·K·N·B`` are those of W G, WᵀS, W R, S Rᵀ and A Gᵀ. Each step of Newton–Schulz takes
    ``4·m²·n + 2·m³`` for XXᵀ, its square and the product with X, where m is the shorter side of W.
    """
    assert shape.B is not None
    own = 0.0
    if OPTIMIZERS[optimizer].normalisation is Normalisation.ORTHOGONAL:
        m, n = sorted((shape.K, shape.N))
        own = NEWTON_SCHULZ_STEPS * (4.0 * m**2 * n + 2.0 * m**3)
    return 10.0 * shape.K * shape.N * shape.B + own


def operations(shape: Shape, epochs: int, optimizer: str = "sgd") -> float:
    """Return the floating-point operations of a run."""
    return steps(shape, epochs) * step_operations(shape, optimizer)


def training_bytes(shape: Shape, optimizer: str, itemsize: int = 4, probes: bool = False) -> float:
    """Return the memory that training one model takes: parameters, moments, gradient, activations."""
    N, K, B = shape.N, shape.K, shape.B
    assert B is not None
    rule = OPTIMIZERS[optimizer]
    copies = 3 + rule.moments + rule.workspace + (6 if probes else 0)
    activations = 20 if probes else 8
    return float(itemsize * (copies * K * N + activations * B * K + 6 * B * N))
