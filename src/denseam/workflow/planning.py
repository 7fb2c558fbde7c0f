"""What it will cost, before anything runs: operations, memory and time, small and large.

Time is operations over the product rate of this machine (measured in a second or so, or given), with what
the steps around the products take: passes over weights and activations on a CPU, a fixed time per step on
a GPU. The constants are fits to `denseam bench`; expect the right answer within a factor of 1.5.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import jax
import jax.numpy as jnp

from denseam.rules import Shape
from denseam.rules.cost import operations, step_operations, steps, training_bytes
from denseam.training.devices import cores
from denseam.workflow.goals import Goal
from denseam.workflow.tuning import REACH, SCOUT

#: Of the product rate: what large products reach inside of a training step.
CPU_SHARE, GPU_SHARE = 0.9, 0.65
#: Seconds for each entry of W and of the activations in a step, on one core; seconds per step on a GPU.
CPU_PER_ENTRY, GPU_PER_STEP = 1.5e-9, 3e-5
#: Samples of noise per second and core.
NOISE_RATE = 2e8


@dataclasses.dataclass(frozen=True)
class Machine:
    """What the estimate of time rests on."""

    platform: str
    name: str
    cores: int
    product_rate: float

    @classmethod
    def here(cls) -> Machine:
        """Return this machine, with its product rate measured."""
        device = jax.devices()[0]
        platform = "cpu" if device.platform == "cpu" else "gpu"
        return cls(platform, device.device_kind, cores(), product_rate(platform != "cpu")())


def product_rate(gpu: bool) -> Any:
    """Return a function that measures the rate of a large square product, the best of several."""
    n, precision = (8192, "tensorfloat32") if gpu else (2048, "highest")
    with jax.default_matmul_precision(precision):
        product = jax.jit(lambda a, b: a @ b)
        a = jax.random.normal(jax.random.key(0), (n, n), jnp.float32)
        product(a, a).block_until_ready()

    def measure() -> float:
        best = math.inf
        with jax.default_matmul_precision(precision):
            for _ in range(3):
                began = time.perf_counter()
                product(a, a).block_until_ready()
                best = min(best, time.perf_counter() - began)
        return 2.0 * n**3 / best

    return measure


@dataclasses.dataclass(frozen=True)
class Row:
    """One part of the work: so many runs at one size."""

    what: str
    scale: int
    shape: Shape
    runs: int
    operations: float
    bytes_per_run: float
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        sizes = dataclasses.asdict(self.shape)
        words = {"features": sizes["N"], "memories": sizes["K"], "samples": sizes["P"], "batch": sizes["B"]}
        mine = {k: v for k, v in dataclasses.asdict(self).items() if k != "shape"}
        return mine | words


@dataclasses.dataclass(frozen=True)
class Plan:
    """What tuning, training and the alternative would take."""

    machine: Machine
    tuning: tuple[Row, ...]
    training: Row
    sweep: Row

    @property
    def share(self) -> float:
        """Operations of tuning over those of a sweep at the target."""
        return sum(r.operations for r in self.tuning) / self.sweep.operations

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""

        def total(rows: tuple[Row, ...]) -> dict[str, Any]:
            return {
                "operations": sum(r.operations for r in rows),
                "bytes": max(r.bytes_per_run for r in rows),
                "seconds": sum(r.seconds for r in rows),
            }

        return {
            "machine": dataclasses.asdict(self.machine),
            "tuning": total(self.tuning) | {"sizes": [r.to_json() for r in self.tuning]},
            "training": self.training.to_json(),
            "target_sweep": self.sweep.to_json(),
            "share": self.share,
        }


def plan(goal: Goal, *, seeds: int = 3, machine: Machine | None = None) -> Plan:
    """Return what `tune` and `train` would take for a goal, and a sweep at the target instead.

    `tune` may take more: it widens the grid, takes more seeds or larger sizes where it must.
    """
    machine = machine or Machine.here()
    study = goal.study

    def row(what: str, scale: int, runs: int, together: bool) -> Row:
        shape = study.regime.shape(scale)
        return Row(
            what=what,
            scale=scale,
            shape=shape,
            runs=runs,
            operations=runs * operations(shape, study.epochs),
            bytes_per_run=training_bytes(shape, study.optimizer, 8 if study.precision == "float64" else 4),
            seconds=seconds(shape, study.epochs, runs, machine, together),
        )

    points = 2 * REACH + 1
    scouts = len(range(SCOUT[0], SCOUT[1] + 1, 2))
    sizes = goal.ladder[: goal.first]
    tuning = [row("tune", s, points * seeds + (scouts if s == sizes[0] else 0), True) for s in sizes]
    return Plan(
        machine=machine,
        tuning=tuple(tuning),
        training=row("train", goal.target, 1, False),
        sweep=row("sweep the target", goal.target, points * seeds, True),
    )


def seconds(shape: Shape, epochs: int, runs: int, machine: Machine, many: bool) -> float:
    """Return an estimate of the time of so many runs; `many` of them at once, or one on all cores."""
    N, K, B = shape.N, shape.K, shape.B
    assert B is not None
    products = step_operations(shape)
    if machine.platform != "cpu":
        work = runs * products / (GPU_SHARE * machine.product_rate)
        return steps(shape, epochs) * (work + GPU_PER_STEP)
    entries = CPU_PER_ENTRY * (K * N + K * B) + B * N / NOISE_RATE / (8 if many else 1)
    one_core = products / (CPU_SHARE * machine.product_rate / machine.cores) + entries
    return runs * steps(shape, epochs) * one_core / machine.cores
