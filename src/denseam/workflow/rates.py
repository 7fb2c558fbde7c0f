"""Measure the available devices: the rates that `denseam.workflow.roofline` needs, and training steps.

The rates of a device are measured while all devices work, since virtual devices share their cores.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import psutil
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from denseam.model.streams import stream
from denseam.rules import MemoriesOnly, Shape
from denseam.studies.runs import build
from denseam.studies.study import Study
from denseam.training.batches import View, noise_keys
from denseam.training.devices import platform_of, products
from denseam.training.mesh import Placement, make_mesh
from denseam.training.places import OneDevice, OnMesh
from denseam.workflow.roofline import PRODUCT_SHARE, Device, ring

#: The side of the matrices that are multiplied, and the bytes of the arrays that are moved and summed.
_SIDE = {"cpu": 1024, "gpu": 8192}
_BYTES = {"cpu": 1 << 24, "gpu": 1 << 28}
_ALL = "all"


def rates_here() -> Device:
    """Measure the available devices, which takes a few seconds."""
    devices = jax.devices()
    n, platform = len(devices), platform_of(devices[0])
    mesh = Mesh(np.array(devices), (_ALL,), axis_types=(AxisType.Auto,))
    side, entries = _SIDE[platform], _BYTES[platform] // 4
    with products("float32" if platform == "cpu" else "tf32"):
        square = _on_each(mesh, lambda a: a[0] @ a[0], (n, side, side))
        product = 2.0 * side**3 / square()
    times = 10  # within one program, so that the call does not count
    moved = _on_each(mesh, lambda a: jax.lax.fori_loop(0, times, lambda _, x: 1.5 * x, a[0]), (n, entries))
    bandwidth = times * 2 * 4.0 * entries / moved()
    latency = link = 0.0
    if n > 1:
        latency = _summed(mesh, (n, 1), 100)
        link = ring(n) * 4.0 * entries / max(1e-9, _summed(mesh, (n, entries), 5) - latency)
    memory = (devices[0].memory_stats() or {}).get("bytes_limit") or psutil.virtual_memory().total / n
    tiny = Shape(N=4, K=4, P=64 * n, B=4 * n)  # a small sum, and the fixed time of a step
    small = step_seconds(tiny, "adam", {"batch": n} if n > 1 else None)
    return Device(
        name="here",
        product_rate=product,
        share=PRODUCT_SHARE[platform],
        bandwidth=bandwidth,
        memory=float(memory),
        link=link or math.inf,
        network=link or math.inf,
        node=n,
        step=max(0.0, small - latency),
        latency=latency,
        measured=True,
    )


def step_seconds(
    shape: Shape,
    optimizer: str,
    mesh: Mapping[str, int] | None,
    seconds: float = 1.0,
    repeats: int = 5,
    precision: str | None = None,
) -> float:
    """Return the median time of a training step of one model (centred ReLU)."""
    assert shape.B is not None
    assert shape.P is not None
    platform = platform_of(jax.devices()[0])
    precision = precision or ("float32" if platform == "cpu" else "tf32")
    regime = MemoriesOnly(shape.N, shape.P, shape.B)
    study = Study(
        "relu", optimizer, (shape.K,), (1e-4,), regime=regime, seeds=1, epochs=1, precision=precision
    )
    (spec,) = study.runs()
    on = OneDevice(platform) if mesh is None else OnMesh(Placement(make_mesh(mesh, spec.shape)))
    frame, rule = on.begin(lambda start: build(study, spec, start, jnp.float32))
    parameters, state = on.draw()
    many = int(max(1, min(64, (1 << 26) / (shape.B * shape.N))))
    clean = np.random.default_rng(0).standard_normal((many, shape.B, shape.N), np.float32)
    keys = noise_keys(stream(0, "noise"), jnp.asarray(0, jnp.int32), many)
    batches = on.batches(clean, keys, jnp.float32(0.5), View.of(frame))

    def segment() -> float:
        nonlocal parameters, state
        began = time.perf_counter()
        with products(precision):
            parameters, state, error = on.advance(parameters, state, frame, rule, batches)
            error.block_until_ready()
        return time.perf_counter() - began

    segment()  # compiles
    often = int(max(1, min(100, seconds / repeats / max(1e-6, segment()))))
    return statistics.median(sum(segment() for _ in range(often)) / often / many for _ in range(repeats))


def _on_each(mesh: Mesh, function: Callable[[Any], Any], shape: tuple[int, ...]) -> Callable[[], float]:
    """Return a timer of a function that each device applies to its own part."""
    parts = P(_ALL)  # type: ignore[no-untyped-call]
    run = jax.shard_map(lambda a: function(a)[None], mesh=mesh, in_specs=parts, out_specs=parts)
    return _timer(jax.jit(run), mesh, shape)


def _summed(mesh: Mesh, shape: tuple[int, ...], times: int) -> float:
    """Return the time of a sum over all devices, repeated within one program as in training."""
    parts = P(_ALL)  # type: ignore[no-untyped-call]
    share = 1.0 / mesh.size

    def again(_: int, a: Any) -> Any:
        return share * jax.lax.psum(a, _ALL)  # type: ignore[no-untyped-call]

    def total(a: Any) -> Any:
        return jax.lax.fori_loop(0, times, again, a)

    run = jax.shard_map(total, mesh=mesh, in_specs=parts, out_specs=parts, check_vma=False)
    return _timer(jax.jit(run), mesh, shape)() / times


def _timer(run: Any, mesh: Mesh, shape: tuple[int, ...]) -> Callable[[], float]:
    place = NamedSharding(mesh, P(_ALL))  # type: ignore[no-untyped-call]
    array = jax.jit(functools.partial(jnp.full, shape, 1e-3, jnp.float32), out_shardings=place)()

    def measure() -> float:
        times = []
        for _ in range(4):
            began = time.perf_counter()
            run(array).block_until_ready()
            times.append(time.perf_counter() - began)
        return min(times[1:])

    return measure
