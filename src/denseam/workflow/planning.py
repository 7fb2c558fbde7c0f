"""Plans: operations, memory and time of tuning and training, on one device or many.

The time is that of the operations at the product rate of this machine (measured in about a second, or given),
plus passes over weights and activations on a CPU, or a fixed time per step on a GPU. The constants are fits
to `denseam bench`; the result is right within a factor of 1.5.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import jax

from denseam.analysis.thresholds import REGRET_GOOD
from denseam.data.concerns import Concern
from denseam.ground.errors import InputError, listed, refuse, typed
from denseam.rules import Shape
from denseam.rules.cost import step_operations, training_bytes, updates
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.sizes import WORDS
from denseam.training.devices import cores, dtype_of, for_products, numbers, platform_of, products
from denseam.workflow import roofline
from denseam.workflow.data_use import DataUse, data_use
from denseam.workflow.goals import Goal
from denseam.workflow.rates import rates_here
from denseam.workflow.search import BUDGET, SWEEP_RUNS, Terms, expected_runs

#: The share of the product rate of a GPU that a whole step reaches. It is below `roofline.PRODUCT_SHARE`, the
#: share of the products alone, since it includes the passes over memory: a plan does not measure bandwidth.
#: (On a CPU, CPU_PER_ENTRY counts the passes, and the share is that of the products.)
GPU_STEP_SHARE = 0.65
#: Seconds for each entry of W and of the activations in a step, on one core; seconds per step on a GPU.
CPU_PER_ENTRY, GPU_PER_STEP = 1.5e-9, 3e-5
#: Random numbers per second and core.
NOISE_RATE = 2e8


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine for which time is estimated."""

    platform: str
    name: str
    cores: int
    product_rate: float

    @classmethod
    def here(cls) -> Machine:
        """Return this machine, and measure its product rate."""
        device = jax.devices()[0]
        platform = platform_of(device)
        return cls(platform, device.device_kind, cores(), product_rate(platform != "cpu")())


#: The sides of matrices whose product comes close to the peak rate.
SQUARE_ON_CPU, SQUARE_ON_GPU = 2048, 8192


def product_rate(gpu: bool, precision: str | None = None) -> Any:
    """Return a function that measures the rate of a large square product, the best of three."""
    precision = precision or ("tf32" if gpu else "float32")
    n = SQUARE_ON_GPU if gpu else SQUARE_ON_CPU
    with numbers(precision), products(precision):
        product = jax.jit(lambda a, b: a @ b)
        a = jax.random.normal(jax.random.key(0), (n, n), dtype_of(precision))
        low = for_products(a)
        a = a if low is None else low
        product(a, a).block_until_ready()

    def measure() -> float:
        best = math.inf
        with numbers(precision), products(precision):
            for _ in range(3):
                began = time.perf_counter()
                product(a, a).block_until_ready()
                best = min(best, time.perf_counter() - began)
        return 2.0 * n**3 / best

    return measure


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """One part of the work: a number of runs at one size."""

    what: str
    scale: int
    shape: Shape
    runs: int
    operations: float
    bytes_per_run: float
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        document = dataclasses.asdict(self)
        del document["shape"]
        return document | _sizes(self.shape)


def _sizes(shape: Shape) -> dict[str, int | None]:
    return {WORDS[letter]: size for letter, size in shape.to_json().items()}


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cost of tuning, of training, and of a sweep at the target instead; use and defects of the data."""

    machine: Machine
    tuning: tuple[PlanRow, ...]
    training: PlanRow
    sweep: PlanRow
    use: DataUse
    concerns: tuple[Concern, ...] = ()

    @property
    def share(self) -> float:
        """Operations of tuning relative to those of a sweep at the target."""
        return sum(r.operations for r in self.tuning) / self.sweep.operations

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""

        def total(rows: tuple[PlanRow, ...]) -> dict[str, Any]:
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
            **self.use.to_json(),
            "warnings": [concern.describe() for concern in self.concerns],
        }


def plan(goal: Goal, *, seeds: int = 3, budget: float = BUDGET, machine: Machine | None = None) -> Plan:
    """Return the cost of `tune` and `train` for a goal, and of a sweep at the target instead.

    `tune` may cost more: if necessary it widens the grid, or adds seeds, up to its budget.
    """
    refuse(typed(Goal, "a Goal, from denseam.goal(…)", goal=goal))
    Terms(seeds, budget, REGRET_GOOD, "training", probe=False)  # refuses wrong ones
    machine = machine or Machine.here()
    study = goal.study

    def row(what: str, scale: int, runs: int, together: bool, epochs: int = study.epochs) -> PlanRow:
        shape = study.shape(scale)
        length = shape.E or epochs
        return PlanRow(
            what=what,
            scale=scale,
            shape=shape,
            runs=runs,
            operations=runs * updates(shape, length) * study.step_operations(shape),
            bytes_per_run=training_bytes(shape, study.optimizer, 8 if study.precision == "float64" else 4),
            seconds=seconds(shape, length, runs, machine, together, study.step_operations(shape)),
        )

    runs = expected_runs(goal, seeds, budget)
    return Plan(
        machine=machine,
        tuning=tuple(row("tune", scale, number, True, goal.short_epochs) for scale, number in runs.items()),
        training=row("train", goal.target, 1, False),
        sweep=row("sweep the target", goal.target, SWEEP_RUNS, True),
        use=data_use(goal),
        concerns=tuple(goal.concerns),
    )


def seconds(
    shape: Shape, epochs: int, runs: int, machine: Machine, many: bool, products: float | None = None
) -> float:
    """Return the estimated time of runs: `many` at the same time, or one on all cores.

    `products` are the operations of an update; by default those of SGD.
    """
    N, K, B = shape.N, shape.K, shape.B
    assert B is not None
    products = step_operations(shape) if products is None else products
    if machine.platform != "cpu":
        work = runs * products / (GPU_STEP_SHARE * machine.product_rate)
        return updates(shape, epochs) * (work + GPU_PER_STEP)
    entries = CPU_PER_ENTRY * (K * N + K * B) + B * N / NOISE_RATE / (8 if many else 1)
    one_core = products / (roofline.PRODUCT_SHARE["cpu"] * machine.product_rate / machine.cores) + entries
    return runs * updates(shape, epochs) * one_core / machine.cores


@dataclasses.dataclass(frozen=True)
class DevicePlan:
    """The cost of one model on each mesh of the devices: those that fit first, the fastest first."""

    shape: Shape
    optimizer: str
    epochs: int
    devices: int
    device: roofline.Device
    meshes: tuple[roofline.Estimate, ...]

    def training_seconds(self, mesh: roofline.Estimate) -> float:
        """Return the time of a training on a mesh."""
        return updates(self.shape, self.epochs) * mesh.step_seconds

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "device": self.device.to_json(),
            "devices": self.devices,
            "optimizer": self.optimizer,
            "epochs": self.epochs,
            **_sizes(self.shape),
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
    """Return the cost of one model on many devices, from its sizes alone.

    Parameters
    ----------
    shape
        The sizes of the model.
    optimizer, epochs
        The optimizer and the length of training.
    devices
        The number of devices; by default one, or all available ones.
    device
        A kind of `roofline.DEVICES`, or 'here' to measure the available devices, which takes a few seconds.
        They are measured while all of them work, so `devices` must be all of them.
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer must be {listed(OPTIMIZERS)}, got {optimizer!r}")
    if device != "here":
        where, count = roofline.device(device), 1 if devices is None else devices
    else:
        count = len(jax.devices())
        if devices not in (None, count):
            raise InputError(
                f"devices must be the {count} that are here, got {devices}; they are measured together"
            )
        where = rates_here()
    meshes = roofline.best_mesh(shape, optimizer, where, count)
    return DevicePlan(shape, optimizer, epochs, count, where, tuple(meshes))
