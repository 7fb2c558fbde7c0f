"""What it will cost, before anything runs: operations, memory and time, on one device or many.

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

from denseam.errors import InputError, listed
from denseam.rules import Shape
from denseam.rules.cost import operations, step_operations, steps, training_bytes
from denseam.rules.table import OPTIMIZERS
from denseam.training.devices import cores, platform_of
from denseam.workflow import roofline
from denseam.workflow.calibration import rates_here
from denseam.workflow.goals import Goal
from denseam.workflow.tuning import REACH, SCOUT

#: Of the product rate of a GPU: what a whole step reaches. It is below `roofline.PRODUCT_SHARE`, that of the
#: products alone, since a plan does not measure the memory's bandwidth: passes over the memory are in this
#: number. (On a CPU they are counted apart, by CPU_PER_ENTRY, and the share is that of the products.)
GPU_STEP_SHARE = 0.65
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
        platform = platform_of(device)
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
        work = runs * products / (GPU_STEP_SHARE * machine.product_rate)
        return steps(shape, epochs) * (work + GPU_PER_STEP)
    entries = CPU_PER_ENTRY * (K * N + K * B) + B * N / NOISE_RATE / (8 if many else 1)
    one_core = products / (roofline.PRODUCT_SHARE["cpu"] * machine.product_rate / machine.cores) + entries
    return runs * steps(shape, epochs) * one_core / machine.cores


@dataclasses.dataclass(frozen=True)
class DevicePlan:
    """What one model takes on many devices: every mesh of them, those that fit first, the fastest first."""

    shape: Shape
    optimizer: str
    epochs: int
    devices: int
    device: roofline.Device
    meshes: tuple[roofline.Estimate, ...]

    def training_seconds(self, mesh: roofline.Estimate) -> float:
        """Return the time of a training on a mesh."""
        return roofline.training_seconds(self.shape, self.epochs, mesh)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "device": self.device.to_json(),
            "devices": self.devices,
            "optimizer": self.optimizer,
            "epochs": self.epochs,
            "features": self.shape.N,
            "memories": self.shape.K,
            "samples": self.shape.P,
            "batch": self.shape.B,
            "meshes": [
                mesh.to_json() | {"seconds_of_training": self.training_seconds(mesh)} for mesh in self.meshes
            ],
        }


def plan_devices(
    shape: Shape,
    *,
    optimizer: str = "adam",
    epochs: int = 64,
    devices: int | None = None,
    device: str = "h200",
) -> DevicePlan:
    """Return what one model takes on many devices, from its sizes alone.

    Parameters
    ----------
    shape
        The sizes of the model.
    optimizer, epochs
        How it is trained.
    devices
        How many there are; by default one, or those at hand.
    device
        A kind that `roofline.DEVICES` has, or 'here': then the devices at hand are measured, which takes some
        seconds. Their rates hold while all of them work, so `devices` must be all of them.
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer must be {listed(OPTIMIZERS)}, got {optimizer!r}")
    if device != "here":
        where, count = roofline.device(device), 1 if devices is None else devices
    else:
        count = len(jax.devices())
        if devices not in (None, count):
            raise InputError(
                f"devices must be the {count} that are here, got {devices}; their rates hold together"
            )
        where = rates_here()
    meshes = roofline.best_mesh(shape, optimizer, where, count)
    return DevicePlan(shape, optimizer, epochs, count, where, tuple(meshes))
