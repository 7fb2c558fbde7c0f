"""How fast the engine is on the machine at hand: against its product peak, and against a PyTorch loop.

Everything is measured in one run, in turns, and medians are reported: a shared machine is noisy, but
ratios of what was measured side by side hold.
"""

from __future__ import annotations

import importlib.util
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
from denseam.errors import refuse
from denseam.rules import Proportional
from denseam.rules.fields import logspace
from denseam.studies.engine import train_runs
from denseam.studies.study import Study
from denseam.training.devices import cores
from denseam.training.mesh import make_mesh, parse_mesh
from denseam.training.progress import Progress
from denseam.workflow.calibration import rates_here, step_seconds
from denseam.workflow.planning import product_rate
from denseam.workflow.roofline import DEVICES, best_mesh, estimate

MODELS = 16
REGIME = Proportional(kappa=2, rho=5, beta=0.1)


def benchmark(
    features: Sequence[int],
    repeats: int = 5,
    seconds: float = 4.0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return a document of measurements for SGD and Adam at each N."""
    _check(features, repeats, seconds)
    progress = progress or Progress()
    gpu = jax.devices()[0].platform != "cpu"
    precision = "tf32" if gpu else "float32"
    peak = product_rate(gpu)
    torch_loop = _torch_loop(gpu) if importlib.util.find_spec("torch") else None
    rows, peaks = [], [peak()]
    for N in features:
        for optimizer in ("sgd", "adam"):
            engine, steps = _engine(N, optimizer, precision, _epochs(N, gpu, seconds))
            times, loops, fractions = [], [], []
            for _ in range(repeats):
                before = peak()
                took = engine() / steps
                after = peak()
                flops = MODELS * 10 * math.prod(_knb(N))
                times.append(took)
                peaks += [before, after]
                fractions.append(flops / took / max(before, after))
                if torch_loop is not None:
                    loops.append(torch_loop(N, optimizer) / took)
            row = {
                "features": N,
                "optimizer": optimizer,
                "ms_per_step": 1e3 * statistics.median(times),
                "gflops": MODELS * 10 * math.prod(_knb(N)) / statistics.median(times) / 1e9,
                "peak_fraction": statistics.median(fractions),
                "speedup_vs_torch_loop": statistics.median(loops) if loops else None,
            }
            rows.append(row)
            progress.message(
                ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            )
    progress.message("cost against the number of runs")
    once, steps = _engine(features[0], "sgd", precision, _epochs(features[0], gpu, seconds))
    twice, _ = _engine(features[0], "sgd", precision, _epochs(features[0], gpu, seconds), 2 * MODELS)
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


def benchmark_mesh(
    features: Sequence[int],
    mesh: str,
    repeats: int = 5,
    seconds: float = 1.0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return steps of one model on a mesh, or on all meshes of the devices at hand, beside the roofline's."""
    _check(features, repeats, seconds)
    progress = progress or Progress()
    devices = len(jax.devices())
    asked = [parse_mesh(mesh)] if mesh != "all" else []
    for N in features:  # refuses what does not fit, before anything is measured
        for sizes in asked:
            make_mesh(sizes, REGIME.shape(N))
        if not asked:
            best_mesh(REGIME.shape(N), "sgd", DEVICES["h200"], devices)
    progress.message(f"measuring the rates of {devices} devices")
    where = rates_here()
    rows = []
    for N in features:
        shape = REGIME.shape(N)
        for optimizer in ("sgd", "adam"):
            fitting = [
                {"memories": e.memories, "batch": e.batch}
                for e in best_mesh(shape, optimizer, where, devices)
            ]
            for sizes in asked or fitting:
                predicted = estimate(shape, optimizer, where, sizes["memories"], sizes["batch"])
                took = step_seconds(shape, optimizer, sizes, seconds, repeats)
                rows.append(
                    {
                        "features": N,
                        "optimizer": optimizer,
                        "mesh": f"memories={sizes['memories']},batch={sizes['batch']}",
                        "predicted_seconds": predicted.step_seconds,
                        "parts": dict(predicted.seconds),
                        "measured_seconds": took,
                    }
                )
                progress.message(f"N = {N}, {optimizer}, {rows[-1]['mesh']}: {1e3 * took:.3g} ms a step")
    return {
        "device": str(jax.devices()[0].device_kind),
        "devices": devices,
        "rates": where.to_json(),
        "rows": rows,
        "versions": _versions(),
    }


def _check(features: Sequence[int], repeats: int, seconds: float) -> None:
    refuse(
        ["features must be at least one whole number of at least 16"] * (not features or min(features) < 16)
        + [f"repeats must be at least 1, got {repeats!r}"] * (repeats < 1)
        + [f"seconds must be above 0, got {seconds!r}"] * (not seconds > 0)
    )


def _versions() -> dict[str, str]:
    return {"denseam": __version__, "jax": jax.__version__, "python": platform.python_version()}


def _knb(N: int) -> tuple[int, int, int]:
    shape = REGIME.shape(N)
    assert shape.B is not None
    return shape.K, shape.N, shape.B


def _epochs(N: int, gpu: bool, work: float) -> int:
    """Return enough epochs for about so many seconds of work, and no fewer than a sweep has."""
    seconds = MODELS * 10 * math.prod(_knb(N)) / (2e14 if gpu else 1.2e11) + (4e-5 if gpu else 1e-5)
    doublings = round(math.log2(max(1.0, work / (10 * seconds))))
    return int(max(64, 2**doublings))


def _engine(
    N: int, optimizer: str, precision: str, epochs: int, models: int = MODELS
) -> tuple[Callable[[], float], int]:
    """Return a function that trains `models` models by the engine and returns its seconds; and the steps."""
    study = Study(
        activation="relu",
        optimizer=optimizer,
        scales=(N,),
        eta0=logspace(1e-4, 1e-2, models),
        regime=REGIME,
        seeds=1,
        epochs=epochs,
        precision=precision,
    )
    specs = study.runs()

    def run() -> float:
        began = time.perf_counter()
        for _ in train_runs(study, specs):
            pass
        return time.perf_counter() - began

    run()  # compiles
    shape = specs[0].shape
    per_epoch: int = (shape.P or 1) // (shape.B or 1)
    return run, epochs * per_epoch


def _torch_loop(gpu: bool) -> Callable[[int, str], float]:
    """Return a function that measures a plain PyTorch loop over models: seconds per step of all of them."""
    import torch

    device = "cuda" if gpu and torch.cuda.is_available() else "cpu"
    torch.set_num_threads(cores())
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True

    class Memory(torch.nn.Module):  # type: ignore[misc, unused-ignore]  # untyped where torch is not there
        def __init__(self, K: int, N: int) -> None:
            super().__init__()
            self.W = torch.nn.Parameter(torch.randn(K, N))
            self.b = torch.nn.Parameter(torch.zeros(K))
            self.c = torch.nn.Parameter(torch.zeros(N))
            self.s1, self.s2 = N**-0.5, K**-0.5

        def forward(self, x: Any) -> Any:
            z = self.s1 * torch.tanh(x) @ self.W.T + self.b
            s = 2**0.5 * torch.relu(z - z.mean(dim=1, keepdim=True))
            return self.s2 * (s - s.mean(dim=1, keepdim=True)) @ self.W + self.c

    def measure(N: int, optimizer: str) -> float:
        K, _, B = _knb(N)
        models = [Memory(K, N).to(device) for _ in range(MODELS)]
        make = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
        rates = (1e-3 * K, 1e-3) if optimizer == "sgd" else (1e-3, 1e-3)
        optimizers = [
            make([{"params": [m.W], "lr": rates[0]}, {"params": [m.b, m.c], "lr": rates[1]}]) for m in models
        ]
        data = torch.randn(B, N, device=device)

        def step() -> None:
            noisy = data + 0.5 * torch.randn_like(data)
            for model, opt in zip(models, optimizers, strict=True):
                opt.zero_grad(set_to_none=True)
                loss = ((model(noisy) - data) ** 2).sum() / (2 * B)
                loss.backward()
                opt.step()

        for _ in range(3):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        steps, began = 0, time.perf_counter()
        while steps < 3 or time.perf_counter() - began < 0.5:
            step()
            steps += 1
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / steps

    return measure


def _exponent(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the slope of log(time) against log(N) between the first and the last row; None for one N."""
    if len(rows) < 2:
        return None
    first, last = rows[0], rows[-1]
    ends = (first, last)
    return float(slope([math.log(r["features"]) for r in ends], [math.log(r["ms_per_step"]) for r in ends]))
