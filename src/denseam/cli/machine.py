"""The machine at hand: `doctor`, `bench`, `demo`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from denseam.cli.options import json_option, quiet_option
from denseam.cli.program import OK, app, print_json, progress_of
from denseam.cli.text import print_table, print_verdicts
from denseam.report.wording import quantity
from denseam.rules.fields import Kind, Parameter, Part

#: The sizes to measure at.
SIZES = Parameter(Part.GROWTH, Kind.WHOLES, "Sizes N to measure.", document="features", low=1)


@app.command()
@json_option
def doctor(json_: bool) -> int:
    """Say what this installation can do: versions, devices, memory, optional parts."""
    from denseam.cli.doctor import examine

    document = examine()
    if json_:
        print_json(document)
        return OK
    for part, facts in document.items():
        print(part)
        for name, fact in facts.items():
            print(f"  {name:<18} {fact}")
    return OK


@app.command()
@click.option("--features", default="64,128,256", show_default=True, help="Sizes N to measure.")
@click.option("--repeats", type=int, default=5, show_default=True, help="Repetitions; medians are reported.")
@click.option(
    "--seconds", type=float, default=4.0, show_default=True, help="Seconds of work per measurement."
)
@click.option(
    "--mesh", help="One model on many devices instead: memories=4,batch=2, or all; beside the plan."
)
@json_option
def bench(features: str, repeats: int, seconds: float, mesh: str | None, json_: bool) -> int:
    """Measure this engine against the product peak of this machine and a plain PyTorch loop."""
    from denseam.cli.bench import benchmark

    sizes = SIZES.read(features)
    if mesh is not None:
        return _bench_mesh(sizes, mesh, repeats, seconds, json_)
    document = benchmark(sizes, repeats, seconds, progress_of(False))
    if json_:
        print_json(document)
        return OK
    print_table(
        f"peak {document['peak_gflops']:.0f} GFLOP/s on {document['device']}; {document['models']} models",
        ["N", "optimizer", "ms per step of all", "of peak", "times a PyTorch loop"],
        [
            [
                str(r["features"]),
                r["optimizer"],
                f"{r['ms_per_step']:.3g}",
                f"{100 * r['peak_fraction']:.0f} %",
                "torch not installed"
                if r["speedup_vs_torch_loop"] is None
                else f"{r['speedup_vs_torch_loop']:.1f}",
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
    return OK


def _bench_mesh(features: Sequence[int], text: str, repeats: int, seconds: float, json_: bool) -> int:
    """Measure steps of one model on meshes, and set beside them what `denseam plan` would say."""
    from denseam.cli.bench import benchmark_mesh

    document = benchmark_mesh(features, text, repeats, seconds, progress_of(False))
    if json_:
        print_json(document)
        return OK
    rates, many = document["rates"], document["devices"]
    known = [f"products {quantity(rates['product_rate'], 'FLOP/s')}"]
    known += [f"memory {quantity(rates['bandwidth'], 'B/s')}"]
    if many > 1:
        known += [f"sums {quantity(rates['link'], 'B/s')}", f"a small sum {1e6 * rates['latency']:.0f} µs"]
    known += [f"a small step {1e6 * rates['step']:.0f} µs"]
    whose = (
        f"{many} devices ({document['device']}); each, while all of them work"
        if many > 1
        else document["device"]
    )
    print_table(
        f"{whose}: {', '.join(known)}",
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
    return OK


@app.command()
@click.option("--out", default="demo", show_default=True, help="Folder for results and figures.")
@quiet_option
def demo(out: str, quiet: bool) -> int:
    """Show transfer with centring, and its failure without: two studies, two verdicts, one figure."""
    from denseam.cli.demo import demo as show

    shown = show(out, progress_of(quiet))
    print_verdicts(shown.verdicts)
    print(f"{shown.summary.runs} runs in {shown.summary.seconds:.0f} s; drawn in", *shown.files)
    return OK
