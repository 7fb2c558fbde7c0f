"""The cost of a training step on many devices, from sizes and a few rates: memory, operations, traffic, time.

With M devices along the memories and D along the batch, each device computes ``10 K N B / (M D)`` operations
in one step, moves its rows of W and its activations through its memory a few times, and sends the arrays that
`denseam.training.mesh` lists. The times of products, memory and links are added, and a fixed time per step.
The number of passes is counted from the equations:

=====================  ==============================================================================
rows of W              read for W G, WᵀS and W R; gradient written and read; W written: 6
… for every moment     read and written: 2 more, so 4 with Adam
activations (K × B)    Z, σ, S, W R, A, each written once and read once or twice by what follows: 12
=====================  ==============================================================================

The rates of a kind of device were measured if one was available (`docs/benchmarks`), or else are its maker's.
`denseam.workflow.rates` measures the available devices.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any

from denseam.ground.errors import InputError, refuse, whole
from denseam.rules import Shape
from denseam.rules.cost import step_operations
from denseam.rules.optimizers import OPTIMIZERS, Normalisation

#: The share of the rate of a large square product that the products of a step reach; passes over weights and
#: activations are counted separately. Fitted to `denseam bench` (docs/benchmarks.md, docs/meshes.md).
PRODUCT_SHARE: Mapping[str, float] = {"cpu": 0.9, "gpu": 0.75}
WEIGHT_PASSES, PASSES_PER_MOMENT = 6, 2
ACTIVATION_PASSES = 12
#: Arrays of the size of W on a device: W and its gradient; the moments come on top.
WEIGHT_COPIES = 2
#: Arrays of K × B at the same time: five to eight were seen on an H200; a plan assumes the most.
ACTIVATION_COPIES = 8
#: Sums over memories in a step: one of the outputs, and four small ones of a centred model (see
#: `denseam.training.mesh`).
SUMS_OVER_MEMORIES, SUMS_OVER_BATCH = 5, 1


@dataclasses.dataclass(frozen=True)
class Device:
    """A kind of device.

    Attributes
    ----------
    product_rate, share
        Operations per second of a large square product, and the share of it that a step reaches.
    bandwidth, memory
        Bytes per second to its memory, and its size in bytes.
    link, network, node
        Bytes per second and direction to a device of the same node, to one of another node, and the number of
        devices in a node.
    step, latency
        Fixed seconds per step, and per sum over devices.
    measured
        Whether rates and times were measured, or are its maker's.
    """

    name: str
    product_rate: float
    share: float
    bandwidth: float
    memory: float
    link: float
    network: float
    node: int
    step: float
    latency: float
    measured: bool

    def to_json(self) -> dict[str, Any]:
        """Return a plain document; a single device has no links."""
        return {k: None if v == math.inf else v for k, v in dataclasses.asdict(self).items()}


_SHARE = PRODUCT_SHARE["gpu"]
DEVICES: Mapping[str, Device] = {
    device.name: device
    for device in (
        Device("h200", 3.68e14, _SHARE, 4.8e12, 1.49e11, 4.5e11, 5e10, 8, 4.5e-5, 1e-5, True),
        Device("h100", 3.68e14, _SHARE, 3.35e12, 8.5e10, 4.5e11, 5e10, 8, 4.5e-5, 1e-5, False),
        Device("a100", 1.3e14, _SHARE, 2.0e12, 8.5e10, 3.0e11, 2.5e10, 8, 4.5e-5, 1e-5, False),
    )
}


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The cost of one step on one mesh.

    Attributes
    ----------
    bytes_per_device
        Parameters, gradient, moments and activations of one device.
    fits
        Whether they take less than nine tenths of its memory.
    operations, sent
        Floating-point operations of all devices, and bytes sent by each device.
    seconds
        The times of products, memory, links and the fixed part.
    """

    memories: int
    batch: int
    bytes_per_device: float
    fits: bool
    operations: float
    sent: float
    seconds: Mapping[str, float]

    @property
    def step_seconds(self) -> float:
        """Seconds of one step."""
        return sum(self.seconds.values())

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "mesh": f"memories={self.memories},batch={self.batch}",
            "bytes_per_device": self.bytes_per_device,
            "fits": self.fits,
            "operations_per_step": self.operations,
            "bytes_sent_per_step": self.sent,
            "seconds_per_step": self.step_seconds,
            "seconds": dict(self.seconds),
        }


def device(name: str) -> Device:
    """Return a kind of device by its name."""
    if name not in DEVICES:
        near = difflib.get_close_matches(name, DEVICES, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError(f"device must be 'here', {', '.join(map(repr, DEVICES))}, got {name!r}{hint}")
    return DEVICES[name]


def estimate(
    shape: Shape, optimizer: str, where: Device, memories: int = 1, batch: int = 1, models: int = 1
) -> Estimate:
    """Return the cost of a step on a mesh, of one model or of several at once as in a sweep."""
    N, K, B = shape.N, shape.K, shape.B
    assert B is not None
    weights, hidden = K * N / memories, K * B / (memories * batch)
    rule = OPTIMIZERS[optimizer]
    moments = rule.moments
    # What is computed entry by entry is never stored; the factors of products are.
    stored = rule.workspace if rule.normalisation is Normalisation.ORTHOGONAL else 0
    keeps = (WEIGHT_COPIES + moments + stored) * weights + ACTIVATION_COPIES * hidden + 4 * N * B / batch
    moved = (WEIGHT_PASSES + PASSES_PER_MOMENT * moments) * weights + ACTIVATION_PASSES * hidden
    outputs = 4.0 * N * B / batch if memories > 1 else 0.0
    gradient = 4.0 * (weights + K / memories + N) if batch > 1 else 0.0
    work = models * step_operations(shape, optimizer)
    # Devices in a row of the mesh are neighbours (`mesh.make_mesh`): the gradient, which is large, is summed
    # between neighbours, the outputs across rows.
    along_memories = _travel(outputs, memories, SUMS_OVER_MEMORIES, where, memories * batch)
    along_batch = _travel(gradient, batch, SUMS_OVER_BATCH, where, batch)
    return Estimate(
        memories=memories,
        batch=batch,
        bytes_per_device=4.0 * models * keeps,
        fits=4.0 * models * keeps < 0.9 * where.memory,
        operations=work,
        sent=models * (ring(memories) * outputs + ring(batch) * gradient),
        seconds={
            "products": work / (memories * batch) / (where.share * where.product_rate),
            "memory": 4.0 * models * moved / where.bandwidth,
            "links": models * (along_memories + along_batch),
            "fixed": where.step,
        },
    )


#: More than in any machine; all divisors of their number are tried.
MOST_DEVICES = 1 << 20


def best_mesh(shape: Shape, optimizer: str, where: Device, devices: int) -> list[Estimate]:
    """Return the meshes of `devices` that divide K and B: those that fit first, the fastest first."""
    assert shape.B is not None
    refuse(whole(devices=devices))
    if devices > MOST_DEVICES:
        raise InputError(f"devices must be at most {MOST_DEVICES}, got {devices}")
    meshes = [
        estimate(shape, optimizer, where, m, devices // m)
        for m in range(1, devices + 1)
        if devices % m == 0 and shape.K % m == 0 and shape.B % (devices // m) == 0
    ]
    if not meshes:
        raise InputError(
            f"devices: no mesh of {devices} divides K = {shape.K} memories and batches of B = {shape.B}"
        )
    return sorted(meshes, key=lambda e: (not e.fits, e.step_seconds))


def ring(n: int) -> float:
    """Return how many times each of n devices sends an array that they sum in a ring."""
    return 2.0 * (n - 1) / n


def _travel(size: float, n: int, sums: int, where: Device, span: int) -> float:
    """Return the time of sums over n devices within a span, one of the sums being large."""
    if n == 1 or not size:
        return 0.0
    rate = where.link if span <= where.node else where.network
    return ring(n) * size / rate + sums * where.latency
