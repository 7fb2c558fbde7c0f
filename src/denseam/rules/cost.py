"""What training costs, from the sizes alone: operations and memory."""

from __future__ import annotations

from denseam.rules import Shape
from denseam.rules.optimizers import OPTIMIZERS


def steps(shape: Shape, epochs: int) -> int:
    """Return the number of steps of a run."""
    assert shape.P is not None
    assert shape.B is not None
    return epochs * (shape.P // shape.B)


def step_operations(shape: Shape) -> float:
    """Return the least operations of one step, 10·K·N·B: the products W G, WᵀS, W R, S Rᵀ and A Gᵀ."""
    assert shape.B is not None
    return 10.0 * shape.K * shape.N * shape.B


def operations(shape: Shape, epochs: int) -> float:
    """Return the floating-point operations of a run."""
    return steps(shape, epochs) * step_operations(shape)


def training_bytes(shape: Shape, optimizer: str, itemsize: int = 4, probes: bool = False) -> float:
    """Return the memory that training one model takes: parameters, moments, gradient, activations."""
    N, K, B = shape.N, shape.K, shape.B
    assert B is not None
    rule = OPTIMIZERS[optimizer]
    copies = 3 + rule.moments + rule.workspace + (6 if probes else 0)
    activations = 20 if probes else 8
    return float(itemsize * (copies * K * N + activations * B * K + 6 * B * N))
