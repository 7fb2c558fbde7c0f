"""The speed of the engine on this machine: against its peak product rate, and against PyTorch.

All measurements alternate within one run, and medians are reported: a shared machine is noisy, but ratios of
times that were measured side by side are reliable.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from denseam import __version__
from denseam.analysis.statistics import slope
from denseam.cli.rivals import rivals
from denseam.ground.errors import above_zero, refuse, whole
from denseam.rules import Proportional
from denseam.rules.cost import step_operations
from denseam.rules.fields import logspace
from denseam.studies.engine import train_runs
from denseam.studies.study import Study
from denseam.training.devices import check_precision, cores
from denseam.training.mesh import make_mesh, parse_mesh
from denseam.training.progress import Progress
from denseam.workflow.planning import product_rate
from denseam.workflow.rates import rates_here, step_seconds
from denseam.workflow.roofline import DEVICES, best_mesh, estimate

MODELS = 16
REGIME = Proportional(kappa=2, rho=5, beta=0.1)


def benchmark(
    features: Sequence[int],
    repeats: int = 5,
    seconds: float = 4.0,
    progress: Progress | None = None,
    precision: str | None = None,
) -> dict[str, Any]:
    """Return measurements for SGD and Adam at each N, as a plain document."""
    _check(features, repeats, seconds)
    progress = progress or Progress()
    gpu = jax.devices()[0].platform != "cpu"
    precision = precision or _usual(gpu)
    check_precision(precision, "gpu" if gpu else "cpu")
    peak, others = product_rate(gpu, precision), rivals(MODELS, gpu, precision)
    rows, peaks = [], [peak()]
    for N, optimizer in itertools.product(features, ("sgd", "adam")):
        engine, steps = _engine(N, optimizer, precision, _epochs(N, gpu, seconds))
        times, fractions = [], []
        ratios: dict[str, list[float]] = {name: [] for name in others}
        for _ in range(repeats):
            before = peak()
            took = engine() / steps
            after = peak()
            times.append(took)
            peaks += [before, after]
            fractions.append(_flops(N) / took / max(before, after))
            for name, rival in others.items():
                ratios[name].append(rival(REGIME.shape(N), optimizer) / took)
        row = {
            "features": N,
            "optimizer": optimizer,
            "ms_per_step": 1e3 * statistics.median(times),
            "gflops": _flops(N) / statistics.median(times) / 1e9,
            "peak_fraction": statistics.median(fractions),
            **{f"speedup_vs_torch_{name}": _median(ratios.get(name, [])) for name in ("loop", "batched")},
        }
        rows.append(row)
        progress.message(
            ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        )
    progress.message("cost against the number of runs")
    epochs = _epochs(features[0], gpu, seconds)
    once, twice = (_engine(features[0], "sgd", precision, epochs, n * MODELS)[0] for n in (1, 2))
    ratio = statistics.median(twice() / once() for _ in range(repeats))
    return {
        "device": str(jax.devices()[0].device_kind),
        "cores": cores(),
        "precision": precision,
        "models": MODELS,
        "peak_gflops": max(peaks) / 1e9,
        "rows": rows,
        "cost_exponent": _exponent([r for r in rows if r["optimizer"] == "sgd"]),
        "runs_ratio": ratio,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "versions": _versions(),
    }


def benchmark_steps(
    features: Sequence[int],
    steps: Sequence[int],
    repeats: int = 5,
    seconds: float = 4.0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return the time per operation of training through T steps of recall, over that through one."""
    _check(features, repeats, seconds)
    progress = progress or Progress()
    gpu = jax.devices()[0].platform != "cpu"
    precision = _usual(gpu)
    rows = []
    for N, optimizer in itertools.product(features, ("sgd", "adam")):
        shapes = {T: dataclasses.replace(REGIME.shape(N), T=T) for T in (1, *steps)}
        work = {T: MODELS * step_operations(shape) for T, shape in shapes.items()}
        epochs = _epochs(N, gpu, seconds)  # of one step; all measurements take about as many operations
        engines = {
            T: _engine(N, optimizer, precision, max(1, round(epochs * work[1] / work[T])), T=T) for T in work
        }
        times: dict[int, list[float]] = {T: [] for T in engines}
        for _ in range(repeats):
            for T, (engine, updates) in engines.items():
                times[T].append(engine() / updates)
        for T in steps:
            pairs = zip(times[T], times[1], strict=True)
            ratio = statistics.median(many / work[T] / (one / work[1]) for many, one in pairs)
            ms = 1e3 * statistics.median(times[T])
            rows.append({
                "features": N, "optimizer": optimizer, "steps": T, "ms_per_step": ms, "per_operation": ratio,
            })  # fmt: skip
            progress.message(f"N = {N}, {optimizer}, T = {T}: {ratio:.2f} times the time per operation")
    return {
        "device": str(jax.devices()[0].device_kind),
        "cores": cores(),
        "precision": precision,
        "models": MODELS,
        "rows": rows,
        "versions": _versions(),
    }


def benchmark_mesh(
    features: Sequence[int],
    mesh: str,
    repeats: int = 5,
    seconds: float = 1.0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return measured and predicted steps of one model on a mesh, or on all meshes of these devices."""
    _check(features, repeats, seconds)
    progress = progress or Progress()
    devices = len(jax.devices())
    chosen = None if mesh == "all" else parse_mesh(mesh)
    for N in features:  # refuse meshes that do not fit before anything is measured
        if chosen is not None:
            make_mesh(chosen, REGIME.shape(N))
        else:
            best_mesh(REGIME.shape(N), "sgd", DEVICES["h200"], devices)
    progress.message(f"measuring the rates of {devices} devices")
    here = rates_here()
    rows = []
    for N, optimizer in itertools.product(features, ("sgd", "adam")):
        shape = REGIME.shape(N)
        if chosen is not None:
            predictions = [estimate(shape, optimizer, here, chosen["memories"], chosen["batch"])]
        else:
            predictions = best_mesh(shape, optimizer, here, devices)
        for predicted in predictions:
            sizes = {"memories": predicted.memories, "batch": predicted.batch}
            name = f"memories={predicted.memories},batch={predicted.batch}"
            took = step_seconds(shape, optimizer, sizes, seconds, repeats)
            rows.append(
                {
                    "features": N,
                    "optimizer": optimizer,
                    "mesh": name,
                    "predicted_seconds": predicted.step_seconds,
                    "parts": dict(predicted.seconds),
                    "measured_seconds": took,
                }
            )
            progress.message(f"N = {N}, {optimizer}, {name}: {1e3 * took:.3g} ms per step")
    return {
        "device": str(jax.devices()[0].device_kind),
        "devices": devices,
        "rates": here.to_json(),
        "rows": rows,
        "versions": _versions(),
    }


def _check(features: Sequence[int], repeats: int, seconds: float) -> None:
    problems = [*whole(repeats=repeats), *above_zero(seconds=seconds)]
    if not features or min(features) < 16:
        problems.append("features must be whole numbers of at least 16")
    refuse(problems)


def _usual(gpu: bool) -> str:
    """Return the precision to measure in, unless another one is given."""
    return "tf32" if gpu else "float32"


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _versions() -> dict[str, str]:
    return {"denseam": __version__, "jax": jax.__version__, "python": platform.python_version()}


def _flops(N: int) -> float:
    """Return the floating-point operations of one step of all models."""
    return MODELS * step_operations(REGIME.shape(N))


def _epochs(N: int, gpu: bool, work: float) -> int:
    """Return enough epochs for about `work` seconds, and no fewer than a sweep has."""
    seconds = _flops(N) / (2e14 if gpu else 1.2e11) + (4e-5 if gpu else 1e-5)
    doublings = round(math.log2(max(1.0, work / (10 * seconds))))
    return int(max(64, 2**doublings))


def _engine(
    N: int, optimizer: str, precision: str, epochs: int, models: int = MODELS, T: int = 1
) -> tuple[Callable[[], float], int]:
    """Return a function that trains models and returns the seconds it took; and the number of steps."""
    study = Study(
        activation="relu",
        optimizer=optimizer,
        scales=(N,),
        eta0=logspace(1e-4, 1e-2, models),
        regime=REGIME,
        seeds=1,
        epochs=epochs,
        precision=precision,
        steps=T,
    )
    specs = study.runs()

    def run() -> float:
        began = time.perf_counter()
        for _ in train_runs(study, specs):
            pass
        return time.perf_counter() - began

    run()  # compiles
    return run, study.updates(specs[0].shape)


def _exponent(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the slope of log(time) against log(N) between the first and the last row; None for one N."""
    if len(rows) < 2:
        return None
    x, y = ([math.log(rows[i][key]) for i in (0, -1)] for key in ("features", "ms_per_step"))
    return float(slope(x, y))
